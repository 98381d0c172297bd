"""A tool's result cut to its budget, for the model; the record keeps the whole.

Pure, and the same in replay: what is cut is the canonical text. Cut what the model may see, guarded already: nothing
finds a sensitive field in the beginning of a text.
"""

from __future__ import annotations

from bisect import bisect_right

from pilotage.agent.tools.metadata import ResultBudget
from pilotage.jsonvalue import JsonObject, JsonValue, canonical_json, to_bytes


def within_budget(result: JsonValue, budget: ResultBudget) -> JsonValue:
    """The result itself where its JSON fits the budget, else an object that says so and holds its beginning.

    The object fits the budget too, except that what it says about the cut is never cut itself.
    """
    if budget.max_bytes is None:
        return result
    text = canonical_json(result)
    size = len(to_bytes(text))
    if size <= budget.max_bytes:
        return result
    return _cut(result if isinstance(result, str) else text, size, budget.max_bytes)


def _cut(text: str, size: int, max_bytes: int) -> JsonObject:
    room = max_bytes - _size_of(_marked("", size, max_bytes))
    # Every character takes a byte or more, so no longer beginning than this can fit.
    lengths = range(1, max(min(room, len(text)), 0) + 1)
    fitting = bisect_right(lengths, room, key=lambda length: _size_of(text[:length]) - 2)
    return _marked(text[:fitting], size, max_bytes)


def _marked(beginning: str, size: int, max_bytes: int) -> JsonObject:
    return {
        "cut": True,
        "note": f"the result has {size} bytes, {max_bytes} are allowed; ask for less",
        "size_bytes": size,
        "beginning": beginning,
    }


def _size_of(value: JsonValue) -> int:
    return len(to_bytes(canonical_json(value)))

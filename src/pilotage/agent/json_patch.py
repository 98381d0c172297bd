"""JSON Patch (RFC 6902): the check of operations before they are sent to clients. Pure: nothing is applied here."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import cast

from pilotage.errors import AgentDefinitionError
from pilotage.jsonvalue import JsonObject, JsonValue, canonical_json, is_list, to_json_value

_NEEDS: Mapping[str, tuple[str, ...]] = {
    "add": ("path", "value"),
    "remove": ("path",),
    "replace": ("path", "value"),
    "move": ("path", "from"),
    "copy": ("path", "from"),
    "test": ("path", "value"),
}
_POINTER = re.compile(r"(?:/(?:[^~/]|~[01])*)*", re.DOTALL)


def checked_patch(operations: object) -> list[JsonObject]:
    """Return the operations of a patch in their JSON form.

    Raises:
        AgentDefinitionError: an operation is none of RFC 6902, or has a value without a JSON form.
    """
    if not is_list(operations):
        raise _unfit(f"it is {type(operations).__name__}, and a list of operations is needed")
    try:
        encoded = cast("Sequence[JsonValue]", to_json_value(list(operations)))
        canonical_json(encoded)
    except (TypeError, ValueError) as error:
        raise _unfit(str(error)) from error
    return [_checked(number, operation) for number, operation in enumerate(encoded, 1)]


def _checked(number: int, operation: JsonValue) -> JsonObject:
    kind = operation.get("op") if isinstance(operation, Mapping) else None
    needed = _NEEDS.get(kind) if isinstance(kind, str) else None
    if not isinstance(operation, Mapping) or needed is None:
        raise _unfit(f"operation {number} has no 'op' of {', '.join(_NEEDS)}")
    if missing := [name for name in needed if name not in operation]:
        raise _unfit(f"operation {number} ({kind}) lacks {', '.join(map(repr, missing))}")
    for name in ("path", "from"):
        pointer = operation.get(name, "")
        if not isinstance(pointer, str) or _POINTER.fullmatch(pointer) is None:
            raise _unfit(f"{name!r} of operation {number} is no JSON Pointer, such as '/items/0'")
    return operation


def _unfit(problem: str) -> AgentDefinitionError:
    return AgentDefinitionError(f"The patch of a state cannot be shared: {problem}.")

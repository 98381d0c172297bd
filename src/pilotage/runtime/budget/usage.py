"""The usage that models report, and the bounds within which a report counts. Pure.

A count that cannot be true counts as not reported: below zero, no whole number, or larger than any reply. The tokens
of a call are the larger of its total and of the sum of its parts.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

from pilotage.agent.model_reply import ModelUsage, no_usage
from pilotage.jsonvalue import JsonObject, JsonValue, object_or_empty
from pilotage.runtime.journal import stored_words as words
from pilotage.runtime.journal.records import encode_usage
from pilotage.values import value

MOST_TOKENS = 10**9
"""The largest count that a report of one call may have."""

_NO_USAGE = no_usage()
_COUNTS = (
    words.INPUT_TOKENS,
    words.OUTPUT_TOKENS,
    words.TOTAL_TOKENS,
    words.CACHED_TOKENS,
    words.CACHE_WRITTEN_TOKENS,
    words.REASONING_TOKENS,
)


@value
class PaidReply:
    """A reply that was paid for and did not reach the program: another model's reply replaced it."""

    model: str
    usage: ModelUsage


def believable(usage: object) -> ModelUsage:
    """Return a usage with the plausible counts; its total is the larger of total and sum."""
    if usage is _NO_USAGE or not isinstance(usage, ModelUsage):
        return _NO_USAGE
    read, written, total = _count(usage.input_tokens), _count(usage.output_tokens), _count(usage.total_tokens)
    if read is not None and written is not None:
        total = max(total or 0, read + written)
    elif total is not None:
        total = max(total, read or 0, written or 0)
    # True equals 1 and 2.0 equals 2: only the same objects are the same counts.
    is_same = read is usage.input_tokens and written is usage.output_tokens and total is usage.total_tokens
    # Asked in place: most replies have no details.
    if (
        usage.cached_tokens is not None
        or usage.reasoning_tokens is not None
        or usage.cache_written_tokens is not None
        or usage.other_tokens is not None
    ):
        return _believable_in_detail(usage, read, written, total)
    return usage if is_same else ModelUsage(read, written, total)


def _believable_in_detail(
    usage: ModelUsage, read: int | None, written: int | None, total: int | None
) -> ModelUsage:
    """Return a usage without the details that cannot be true: a part is never more than what it is a part of."""
    others = usage.other_tokens
    counted = {} if others is None else {str(name): _count(each) for name, each in others.items()}
    return ModelUsage(
        read,
        written,
        total,
        cached_tokens=_part(usage.cached_tokens, read),
        cache_written_tokens=_part(usage.cache_written_tokens, read),
        reasoning_tokens=_part(usage.reasoning_tokens, written),
        other_tokens={name: each for name, each in counted.items() if each is not None} or None,
    )


def _part(reported: object, whole: int | None) -> int | None:
    count = _count(reported)
    return count if count is None or whole is None or count <= whole else None


def _count(reported: object) -> int | None:
    return reported if type(reported) is int and 0 <= reported <= MOST_TOKENS else None


def accounted(usage: ModelUsage) -> ModelUsage:
    """Return a believable usage for a price list: tokens that are in the total only are priced as output."""
    read, written, total = usage.input_tokens, usage.output_tokens, usage.total_tokens
    if read is None or written is None or total is None or total == read + written:
        return usage
    return replace(usage, output_tokens=total - read)


def paid_replies(metadata: JsonObject, key: str = words.PASSED_OVER) -> tuple[PaidReply, ...]:
    """Return the replies that were paid for before the one with this metadata, as `FallbackModel` writes them."""
    if not metadata:
        return ()
    passed = metadata.get(key)
    if not isinstance(passed, list | tuple):
        return ()
    return tuple(paid for paid in map(_paid, passed) if paid is not None)


def encode_paid(replies: Iterable[PaidReply]) -> list[JsonValue]:
    """Return paid replies as JSON."""
    return [{words.MODEL: each.model, words.USAGE: encode_usage(each.usage)} for each in replies]


def _paid(entry: JsonValue) -> PaidReply | None:
    if not isinstance(entry, dict) or words.USAGE not in entry:
        return None
    model, usage = entry.get(words.MODEL), entry[words.USAGE]
    if not isinstance(model, str) or not isinstance(usage, dict):
        return None
    counts = {name: _count(usage.get(name)) for name in _COUNTS}
    others = object_or_empty(usage.get(words.OTHER_TOKENS))
    named = {name: each for name, each in others.items() if isinstance(each, int)}
    return PaidReply(model, believable(ModelUsage(**counts, other_tokens=named or None)))

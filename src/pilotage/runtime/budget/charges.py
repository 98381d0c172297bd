"""The charges of a row that is recorded: they follow from its record. Pure.

A model call is charged for its reply, and for the replies of other models before it; a discarded try for the
part that was read, or for its hold where that is not known; a changed context for its summaries.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from functools import lru_cache

from pilotage.agent.model_reply import ModelUsage
from pilotage.agent.ports.budget import ModelCost
from pilotage.agent.ports.costs import CostRole, ModelCharge, charges_text
from pilotage.jsonvalue import JsonObject, object_or_empty
from pilotage.runtime.budget.limits import PaidReply, paid_replies
from pilotage.runtime.effect import CONTEXT_CHANGE, DISCARDED_TRY, MODEL_CALL, EffectKind
from pilotage.runtime.journal import stored_words as words
from pilotage.runtime.journal.record_fields import optional_object, optional_text
from pilotage.runtime.journal.records import decode_costs, decode_usage, optional_amount
from pilotage.values import value

_ROLES = {
    MODEL_CALL: CostRole.REPLY,
    DISCARDED_TRY: CostRole.RETRY,
    CONTEXT_CHANGE: CostRole.COMPACTION,
}
_REPLY = CostRole.REPLY
_PLAIN = (words.TOTAL_TOKENS, words.INPUT_TOKENS, words.OUTPUT_TOKENS)
_NOT_PLAIN = frozenset({words.COSTS, words.LEFT, words.PAID, words.USAGE_ESTIMATED})
_TOOL = "/tool:"


@value
class _Paid:
    role: CostRole
    reply: PaidReply
    is_estimated: bool = False


def costs_of(kind: EffectKind, action_id: str, record: JsonObject, version: int) -> str:
    """Return the text about the costs of a recorded outcome; empty for one that no model was paid for."""
    role = _ROLES.get(kind)
    if role is None:
        return ""
    if role is _REPLY and version == 1 and (text := _plain_reply(action_id, record)) is not None:
        return text
    paid = [*_paid(role, record)]
    if not paid:
        return ""
    costs = decode_costs(record) or ()
    return charges_text(_charges(paid, costs, _tool_in(action_id), version))


def _plain_reply(action_id: str, record: JsonObject) -> str | None:
    """Return the text about a whole reply without a price and without details, as most are; None for another one."""
    result, model = record.get(words.RESULT), record.get(words.MODEL)
    if not isinstance(result, dict) or words.METADATA in result or _TOOL in action_id:
        return None
    if not isinstance(model, str) or not _NOT_PLAIN.isdisjoint(record):
        return None
    usage = result.get(words.USAGE)
    if usage is None:
        return f"[[{_quoted(model)}]]"
    if not isinstance(usage, dict) or len(usage) != len(_PLAIN):
        return None
    total, read, written = map(usage.get, _PLAIN)
    return None if None in (total, read, written) else f"[[{_quoted(model)},{total},{read},{written}]]"


@lru_cache(maxsize=64)
def _quoted(model: str) -> str:
    """Return the beginning of a charge for a reply of this model."""
    return charges_text([ModelCharge(model, _REPLY, ModelUsage())])[2:-2]


def _charges(
    paid: Sequence[_Paid], costs: Sequence[ModelCost | None], tool: str | None, version: int
) -> Iterator[ModelCharge]:
    for place, each in enumerate(paid):
        cost = costs[place] if place < len(costs) else None
        reply = each.reply
        yield ModelCharge(
            reply.model,
            each.role,
            reply.usage,
            cost,
            is_estimated=each.is_estimated,
            tool=tool,
            version=version,
        )


def _paid(role: CostRole, record: JsonObject) -> Iterator[_Paid]:
    """Yield the paid replies in the order of their costs."""
    model = optional_text(record, words.MODEL)
    result = record.get(words.RESULT)
    whole = object_or_empty(result)
    facts = object_or_empty(whole.get(words.METADATA))
    if model is not None:
        usage = optional_object(whole if isinstance(result, dict) else record, words.USAGE)
        is_estimated = any(
            words.USAGE_ESTIMATED in each and each[words.USAGE_ESTIMATED] for each in (record, facts)
        )
        if usage is not None or isinstance(result, dict):
            yield _Paid(role, PaidReply(model, decode_usage(usage)), bool(is_estimated))
        elif (spent := optional_amount(record)) is not None and words.HOLD in record:
            # What was under way when its process died counts by its hold.
            yield _Paid(role, PaidReply(model, ModelUsage(total_tokens=spent.tokens)), is_estimated=True)
    others = CostRole.FALLBACK if model is not None else role
    yield from _others(others, (*paid_replies(facts), *paid_replies(record, words.PAID)))


def _others(role: CostRole, replies: Iterable[PaidReply]) -> Iterator[_Paid]:
    for each in replies:
        yield _Paid(role, each)


def _tool_in(action_id: str) -> str | None:
    """Return the innermost tool that an action is inside of."""
    before, found, after = action_id.rpartition(_TOOL)
    return after.partition("/")[0].rpartition("#")[0] if before and found and "/" in after else None

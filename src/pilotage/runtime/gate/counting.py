"""What actions spent, read from their rows: for what is replayed without being entered, and for runs of others."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, cast

from pilotage.agent.ports.journal import JournalRow, JournalStage
from pilotage.agent.recovery import AgentActionKind
from pilotage.jsonvalue import JsonObject, JsonValue
from pilotage.runtime.gate.spending import ONE_STEP, ONE_TOOL_CALL, Spending
from pilotage.runtime.journal.amounts import decode_amount, decode_usage


def count_rows(rows: Iterable[JournalRow], spending: Spending) -> None:
    """Count what actions spent, by their rows; those of folded branches hold nothing that is not in others."""
    for row in rows:
        if row.stage is JournalStage.AFTER and isinstance(row.record, dict):
            _count(row.kind, row.record, spending)


def _count(kind: AgentActionKind | None, record: dict[str, JsonValue], spending: Spending) -> None:
    if kind is AgentActionKind.TOOL_CALL:
        spending.absorb(ONE_TOOL_CALL)
    elif kind is AgentActionKind.MODEL_CALL:
        spending.absorb(ONE_STEP)
        count_reply(record, spending)
    elif kind is AgentActionKind.DELEGATION:
        _count_child(record, spending)
    elif kind is AgentActionKind.STEP and "spent" in record:
        # A context that was condensed: what the summary took.
        spending.absorb(decode_amount(cast(JsonObject, record["spent"])))


def count_reply(record: dict[str, JsonValue], spending: Spending) -> None:
    """The tokens of a recorded reply, of one that failed or was left as far as it came."""
    if "model" not in record:
        return
    model: Any = record["model"]
    reply = record.get("result")
    told: Any = reply.get("usage") if isinstance(reply, dict) else record.get("usage")
    usage = decode_usage(told)
    if "left" in record:
        spending.count_left(model, usage)
    else:
        spending.settle_model_call(model, usage)


def _count_child(record: dict[str, JsonValue], spending: Spending) -> None:
    """What a child spent; a delegation that was never begun has nothing to count."""
    ended = record.get("result")
    if isinstance(ended, dict) and "spent" in ended:
        spending.absorb(decode_amount(cast(JsonObject, ended["spent"])))

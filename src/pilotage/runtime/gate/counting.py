"""What actions spent, read from their rows: for what is replayed without being entered, and for runs of others."""

from __future__ import annotations

from collections.abc import Iterable
from typing import cast

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
        _count_reply(record, spending)
    elif kind is AgentActionKind.DELEGATION:
        _count_child(record, spending)


def _count_reply(record: dict[str, JsonValue], spending: Spending) -> None:
    """The tokens of a recorded reply; one that failed or was left early has none to count."""
    reply = record.get("result")
    if isinstance(reply, dict) and "model" in record:
        usage = decode_usage(cast("JsonObject | None", reply.get("usage")))
        spending.settle_model_call(cast(str, record["model"]), usage)


def _count_child(record: dict[str, JsonValue], spending: Spending) -> None:
    """What a child spent; a delegation that was never begun has nothing to count."""
    ended = record.get("result")
    if isinstance(ended, dict) and "spent" in ended:
        spending.absorb(decode_amount(cast(JsonObject, ended["spent"])))

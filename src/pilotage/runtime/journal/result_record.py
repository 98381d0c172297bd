"""The result of a run as the record of its last row. Pure."""

from __future__ import annotations

from typing import cast

from pilotage.agent.model_reply import ModelUsage
from pilotage.agent.ports.budget import BudgetAmount
from pilotage.agent.ports.journal import JournalRow
from pilotage.agent.run_result import RunResult
from pilotage.agent.state import AgentState
from pilotage.jsonvalue import JsonObject, JsonValue, to_json_value
from pilotage.runtime.journal.amounts import decode_amount, decode_usage, encode_amount, encode_usage
from pilotage.values import value

_NOTHING_SPENT = BudgetAmount()
_NO_USAGE = ModelUsage()


@value
class Answer:
    """What a program came to. `interruption` says why it stopped short, with `output` as far as it got."""

    output: object = None
    interruption: str | None = None
    usage: ModelUsage = _NO_USAGE
    turns: int = 0
    learned: JsonObject | None = None


def encode_result(answer: Answer, spent: BudgetAmount, error: JsonObject | None = None) -> JsonObject:
    """The record of an answer, whole or partial.

    Raises:
        TypeError: the output has no JSON form.
    """
    record: dict[str, JsonValue] = {"result": to_json_value(answer.output), "turns": answer.turns}
    if spent != _NOTHING_SPENT:
        record["spent"] = encode_amount(spent)
    if answer.usage != _NO_USAGE:
        record["usage"] = encode_usage(answer.usage)
    if answer.interruption is not None:
        record["interruption"] = answer.interruption
    if error is not None:
        record["error"] = error
    if answer.learned:
        record["learned"] = answer.learned
    return record


def decode_result(state: AgentState, row: JournalRow | None) -> RunResult:
    """The result that was recorded; the output as JSON."""
    if row is None:
        return RunResult(state)
    record = cast(JsonObject, row.record)
    return RunResult(
        state,
        record["result"],
        decode_usage(cast("JsonObject | None", record.get("usage"))),
        cast(int, record.get("turns", 0)),
        cast("str | None", record.get("interruption")),
        cast("JsonObject | None", record.get("error")),
        cast(JsonObject, record.get("learned", {})),
        decode_amount(cast(JsonObject, record["spent"])) if "spent" in record else BudgetAmount(),
    )

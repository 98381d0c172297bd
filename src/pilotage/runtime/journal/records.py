"""Amounts of what budgets count, and tokens of model calls, as JSON and back. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from decimal import Decimal
from typing import cast

from pilotage.agent.model_reply import ModelUsage, no_usage
from pilotage.agent.ports.budget import BudgetAmount
from pilotage.agent.ports.journal import JournalRow, JournalStage
from pilotage.agent.run_result import RunResult
from pilotage.agent.state import AgentState
from pilotage.jsonvalue import JsonObject, JsonValue, to_json_value
from pilotage.values import value

_NOT_TOLD = no_usage()


def encode_amount(amount: BudgetAmount) -> JsonObject:
    """An amount for a row; the cost is text, so that no float comes near it."""
    return {
        "steps": amount.steps,
        "tool_calls": amount.tool_calls,
        "tokens": amount.tokens,
        "cost": str(amount.cost),
    }


def encode_usage(usage: ModelUsage) -> JsonObject:
    """The tokens of a model call, as far as the model told them."""
    told: dict[str, JsonValue] = {}
    if usage.input_tokens is not None:
        told["input_tokens"] = usage.input_tokens
    if usage.output_tokens is not None:
        told["output_tokens"] = usage.output_tokens
    if usage.total_tokens is not None:
        told["total_tokens"] = usage.total_tokens
    return told


def decode_usage(record: JsonObject | None) -> ModelUsage:
    """The usage that `encode_usage` wrote; nothing is known of one that was not written."""
    return ModelUsage(**cast("dict[str, int | None]", record)) if record else _NOT_TOLD


def decode_amount(record: JsonObject) -> BudgetAmount:
    """The amount that `encode_amount` wrote."""
    counts = cast("dict[str, int]", record)
    cost = Decimal(cast(str, record["cost"]))
    return BudgetAmount(counts["steps"], counts["tool_calls"], counts["tokens"], cost)


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


TRACE = "trace"
"""The key under which a row says where in a trace its attempt was."""


def last_trace(rows: Sequence[JournalRow]) -> str | None:
    """Where the last attempt was that told; None where nobody did."""
    for row in reversed(rows):
        if row.stage is JournalStage.CLAIMED and isinstance(row.record, dict):
            found = row.record.get(TRACE)
            if row.seq > 1 and isinstance(found, str):
                return found
    return None

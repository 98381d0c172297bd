"""Amounts of what budgets count, and tokens of model calls, as JSON and back. Pure."""

from __future__ import annotations

from decimal import Decimal
from typing import cast

from pilotage.agent.model_reply import ModelUsage, no_usage
from pilotage.agent.ports.budget import BudgetAmount
from pilotage.jsonvalue import JsonObject, JsonValue

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

"""Amounts of what budgets count, as JSON and back. Pure."""

from __future__ import annotations

from decimal import Decimal
from typing import cast

from pilotage.agent.ports.budget import BudgetAmount
from pilotage.jsonvalue import JsonObject


def encode_amount(amount: BudgetAmount) -> JsonObject:
    """An amount for a row; the cost is text, so that no float comes near it."""
    return {
        "steps": amount.steps,
        "tool_calls": amount.tool_calls,
        "tokens": amount.tokens,
        "cost": str(amount.cost),
    }


def decode_amount(record: JsonObject) -> BudgetAmount:
    """The amount that `encode_amount` wrote."""
    counts = cast("dict[str, int]", record)
    cost = Decimal(cast(str, record["cost"]))
    return BudgetAmount(counts["steps"], counts["tool_calls"], counts["tokens"], cost)

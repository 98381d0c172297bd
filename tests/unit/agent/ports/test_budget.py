"""What a tenant may spend, as tables: when periods begin, what is granted, who is warned."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta, timezone
from decimal import Decimal

import pytest

from pilotage.agent import BudgetPeriod, BudgetWindow
from pilotage.agent.ports.budget import (
    BudgetAmount,
    BudgetExhausted,
    BudgetGranted,
    BudgetReservation,
    verdict_for,
)
from pilotage.errors import AgentDefinitionError

HOUR, DAY, MONTH = BudgetPeriod
NOTHING = BudgetAmount()


@pytest.mark.parametrize(
    ("period", "start"),
    [
        (HOUR, datetime(2026, 11, 15, 23, tzinfo=UTC)),
        (DAY, datetime(2026, 11, 15, tzinfo=UTC)),
        (MONTH, datetime(2026, 11, 1, tzinfo=UTC)),
    ],
)
def test_periods_begin_by_the_calendar_in_utc(period: BudgetPeriod, start: datetime) -> None:
    east = timezone(timedelta(hours=2))
    assert period.start(datetime(2026, 11, 16, 1, 59, 59, 999, tzinfo=east)) == start
    assert period.start(start) == start


def verdict(
    window: BudgetWindow, spent: BudgetAmount, held: BudgetAmount, need: BudgetAmount
) -> BudgetGranted | BudgetExhausted:
    return verdict_for("acme", [window], {window.period: spent}, held, BudgetReservation("h", need))


STEP = BudgetAmount(steps=1)
STEPS, TOOLS = BudgetWindow(DAY, max_steps=10), BudgetWindow(DAY, max_tool_calls=10)
TOKENS, COST = BudgetWindow(DAY, max_tokens=10), BudgetWindow(DAY, max_cost=Decimal(10))


@pytest.mark.parametrize(
    ("window", "spent", "held", "need", "granted"),
    [
        (STEPS, BudgetAmount(steps=8), BudgetAmount(steps=1), BudgetAmount(steps=1), True),
        (STEPS, BudgetAmount(steps=9), BudgetAmount(steps=1), BudgetAmount(steps=1), False),
        (STEPS, BudgetAmount(steps=11), NOTHING, BudgetAmount(tool_calls=1), True),
        (TOOLS, BudgetAmount(tool_calls=8), NOTHING, BudgetAmount(tool_calls=2), True),
        (TOOLS, BudgetAmount(tool_calls=8), NOTHING, BudgetAmount(tool_calls=3), False),
        (TOKENS, BudgetAmount(tokens=9), NOTHING, BudgetAmount(tokens=99), True),
        (TOKENS, BudgetAmount(tokens=5), BudgetAmount(tokens=5), BudgetAmount(steps=1), False),
        (COST, BudgetAmount(cost=Decimal("9.99")), NOTHING, BudgetAmount(steps=1), True),
        (COST, BudgetAmount(cost=Decimal("9.99")), BudgetAmount(cost=Decimal("0.01")), STEP, False),
        (TOKENS, BudgetAmount(tokens=99), NOTHING, BudgetAmount(tool_calls=1), True),
    ],
)
def test_what_is_granted(
    window: BudgetWindow, spent: BudgetAmount, held: BudgetAmount, need: BudgetAmount, granted: bool
) -> None:
    assert isinstance(verdict(window, spent, held, need), BudgetGranted) is granted


def test_a_refusal_names_the_bound_and_the_way_out() -> None:
    refused = verdict(TOKENS, BudgetAmount(tokens=12), NOTHING, STEP)
    assert refused == BudgetExhausted(
        "day.max_tokens",
        "tenant 'acme' may spend max_tokens=10 in this day, and 12 are spent or held. "
        "Wait for the next day, or raise the bound.",
    )


@pytest.mark.parametrize(
    ("spent", "need", "warns"), [(7, 0, False), (8, 0, True), (7, 1, True), (6, 1, False)]
)
def test_a_warning_counts_what_is_about_to_be_spent(spent: int, need: int, warns: bool) -> None:
    granted = verdict(STEPS, BudgetAmount(steps=spent), NOTHING, BudgetAmount(steps=need))
    assert isinstance(granted, BudgetGranted)
    words = "tenant 'acme' has used 80 % or more of max_steps=10 of this day"
    assert granted.warning == (words if warns else None)


def test_a_window_must_bound_something_with_sense() -> None:
    with pytest.raises(AgentDefinitionError, match="bounds nothing"):
        BudgetWindow(HOUR)
    with pytest.raises(AgentDefinitionError, match="max_tokens"):
        BudgetWindow(HOUR, max_tokens=0)
    with pytest.raises(AgentDefinitionError, match="max_cost is 0.5. Use Decimal"):
        BudgetWindow(HOUR, max_cost=0.5)  # type: ignore[arg-type]
    with pytest.raises(AgentDefinitionError, match="max_steps is True. Use int"):
        BudgetWindow(HOUR, max_steps=True)
    with pytest.raises(AgentDefinitionError, match="warn_at"):
        BudgetWindow(HOUR, max_tokens=1, warn_at=1.5)

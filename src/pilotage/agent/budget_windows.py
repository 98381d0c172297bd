"""What a tenant may spend in an hour, a day or a month, and whether it may spend more. Pure: no clock, no I/O.

A bound of steps or tool calls is never exceeded. What a model call takes is known behind it: a call may begin while
tokens and cost, with all that is held for calls under way, are below their bounds.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from decimal import Decimal
from enum import StrEnum

from pilotage.agent.ports.budget import (
    BudgetAmount,
    BudgetExhausted,
    BudgetGranted,
    BudgetReservation,
    BudgetVerdict,
)
from pilotage.checks import reject_not_positive, reject_outside_unit
from pilotage.errors import AgentDefinitionError
from pilotage.values import value


class BudgetPeriod(StrEnum):
    """How long a budget lasts: by the calendar, in UTC, so that all processes begin the next one together."""

    HOUR = "hour"
    DAY = "day"
    MONTH = "month"

    def start(self, moment: datetime) -> datetime:
        """When the period began in which a moment lies."""
        hour = moment.astimezone(UTC).replace(minute=0, second=0, microsecond=0)
        match self:
            case BudgetPeriod.HOUR:
                return hour
            case BudgetPeriod.DAY:
                return hour.replace(hour=0)
            case BudgetPeriod.MONTH:
                return hour.replace(hour=0, day=1)


@value
class BudgetWindow:
    """What may be spent in each period; None means no bound. From the share `warn_at` on, runs are warned."""

    period: BudgetPeriod
    max_steps: int | None = None
    max_tool_calls: int | None = None
    max_tokens: int | None = None
    max_cost: Decimal | None = None
    warn_at: float = 0.8

    def __post_init__(self) -> None:
        bounds = {name: getattr(self, f"max_{name}") for name in _COUNTED}
        for name, bound in bounds.items():
            _reject_inexact(f"max_{name}", bound, Decimal if name == "cost" else int)
        reject_not_positive(self, **{f"max_{name}": bound for name, bound in bounds.items()})
        reject_outside_unit(self, warn_at=self.warn_at)
        if all(bound is None for bound in bounds.values()):
            raise AgentDefinitionError(
                f"BudgetWindow({self.period.value!r}) bounds nothing. Give it max_steps, max_tool_calls, max_tokens or "
                "max_cost."
            )


_COUNTED = ("steps", "tool_calls", "tokens", "cost")


def _reject_inexact(name: str, bound: object, kind: type) -> None:
    if bound is not None and type(bound) not in (int, kind):
        raise AgentDefinitionError(
            f"BudgetWindow.{name} is {bound!r}. Use {kind.__name__}: it is compared with exact sums."
        )


def verdict_for(
    tenant_id: str,
    windows: Sequence[BudgetWindow],
    spent: Mapping[BudgetPeriod, BudgetAmount],
    held: BudgetAmount,
    wanted: BudgetReservation,
) -> BudgetVerdict:
    """Whether a tenant may set something aside, given what it has spent in each period and what is held already."""
    warning: str | None = None
    for window in windows:
        taken = spent[window.period] + held
        for name in _COUNTED:
            bound: int | Decimal | None = getattr(window, f"max_{name}")
            if bound is None:
                continue
            amount: int | Decimal = getattr(taken, name)
            need: int | Decimal = getattr(wanted.amount, name)
            if _is_too_much(name, amount, wanted.amount, bound):
                return _exhausted(tenant_id, window.period, name, amount, bound)
            if warning is None and amount + need >= bound * Decimal(str(window.warn_at)):
                share = f"{window.warn_at:.0%}".replace("%", " %")
                warning = f"tenant {tenant_id!r} has used {share} or more of max_{name}={bound} of this {window.period}"
    return BudgetGranted(wanted, warning)


def _is_too_much(name: str, taken: int | Decimal, need: BudgetAmount, bound: int | Decimal) -> bool:
    """A bound stands against what is counted by it: tokens and cost are those of model calls, not of tools."""
    match name:
        case "steps":
            return need.steps > 0 and taken + need.steps > bound
        case "tool_calls":
            return need.tool_calls > 0 and taken + need.tool_calls > bound
        case _:
            return need.steps > 0 and taken >= bound


def _exhausted(
    tenant_id: str, period: BudgetPeriod, name: str, taken: int | Decimal, bound: int | Decimal
) -> BudgetExhausted:
    words = (
        f"tenant {tenant_id!r} may spend max_{name}={bound} in this {period}, and {taken} are spent or held. "
        f"Wait for the next {period}, or raise the bound."
    )
    return BudgetExhausted(f"{period.value}.max_{name}", words)

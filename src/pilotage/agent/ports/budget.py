"""The budget ports: reserving and settling what a run spends, tenants' windows, prices of model calls.

Asking and reserving are one act, so that parallel branches or processes cannot spend the same money twice. What a run
spends is added in the commit that records it, so it counts once, whatever crashes. A bound of steps or tool calls is
never exceeded. What a model call takes is known afterwards: a call may begin while tokens and cost, with the worst
case of all calls under way, are below their bounds, so at most one call exceeds them. `verdict_for` is pure.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from decimal import Decimal
from enum import StrEnum
from typing import TypeAlias

from pilotage.agent.model_reply import ModelUsage
from pilotage.agent.principal import RunContext
from pilotage.checks import reject_blank, reject_negative, reject_not_positive, reject_outside_unit
from pilotage.errors import AgentDefinitionError
from pilotage.values import value


@value
class BudgetAmount:
    """An amount of what budgets count."""

    steps: int = 0
    tool_calls: int = 0
    tokens: int = 0
    cost: Decimal = Decimal(0)

    def __post_init__(self) -> None:
        reject_negative(
            self, steps=self.steps, tool_calls=self.tool_calls, tokens=self.tokens, cost=self.cost
        )

    def __add__(self, other: BudgetAmount) -> BudgetAmount:
        return BudgetAmount(
            self.steps + other.steps,
            self.tool_calls + other.tool_calls,
            self.tokens + other.tokens,
            self.cost + other.cost,
        )


@value
class BudgetReservation:
    """A reserved amount; it is settled by `consume`, once."""

    id: str
    amount: BudgetAmount

    def __post_init__(self) -> None:
        reject_blank(self, id=self.id)


@value
class BudgetSettlement:
    """The end of a reservation: it is released, and the amount that was really used counts."""

    reservation: BudgetReservation
    used: BudgetAmount


@value
class BudgetGranted:
    """The step may go on; `warning` says that the end of the budget is near."""

    reservation: BudgetReservation
    warning: str | None = None


@value
class BudgetExhausted:
    """The step may not go on; `limit` names the bound, `reason` is the message."""

    limit: str
    reason: str


BudgetVerdict: TypeAlias = BudgetGranted | BudgetExhausted


class IAgentBudget(ABC):
    """Counts what runs spend, per run tree and per tenant. An adapter that raises denies the step.

    One whose `is_settled_by_journal` is not asked to `consume` for a run that is kept: the settlement is part of the
    commit that records the step, and the store of the runs counts it.
    """

    is_settled_by_journal: bool = False

    def bounded_amounts(self, tenant_id: str | None = None) -> frozenset[str]:
        """Return which amounts of model calls are bounded for a tenant, or for any: "tokens", "cost", or none.

        A run whose calls cannot be counted against such a bound does not begin, or ends.
        """
        return frozenset()

    @abstractmethod
    async def allows_step(self, context: RunContext, need: BudgetAmount) -> BudgetVerdict:
        """Reserve `need`, or say which bound is reached. Nothing is reserved in that case."""

    @abstractmethod
    async def consume(self, context: RunContext, reservation: BudgetReservation, used: BudgetAmount) -> None:
        """Settle a reservation with what was really used; settling the same one again changes nothing."""


class NoBudget(IAgentBudget):
    """The built-in no-op: nothing is counted, everything is granted. Its subclasses are not no-ops."""

    async def allows_step(self, context: RunContext, need: BudgetAmount) -> BudgetVerdict:
        return BudgetGranted(BudgetReservation("unlimited", need))

    async def consume(self, context: RunContext, reservation: BudgetReservation, used: BudgetAmount) -> None:
        return None


@value
class ModelCost:
    """An amount of money and the version of the table it was computed by."""

    amount: Decimal
    currency: str
    pricing_version: str

    def __post_init__(self) -> None:
        reject_blank(self, currency=self.currency, pricing_version=self.pricing_version)
        reject_negative(self, amount=self.amount)


class IAgentPricing(ABC):
    """Computes the cost of tokens. The same usage costs the same under one version, at one hour.

    A list that names its `currency` gives all prices in it. Prices of several currencies are kept apart: limits count
    those in the first one of the run, and any other one is unknown to them.
    """

    currency: str | None = None

    @abstractmethod
    def cost_of(self, model: str, usage: ModelUsage) -> ModelCost | None:
        """Return the cost of a call; None for a model or a kind of usage without a price: that is not the same as 0."""


class BudgetPeriod(StrEnum):
    """The period of a budget: by the calendar, in UTC, so that all processes begin the next one together."""

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
    """The bounds of spending in a period; None means no bound. From the share `warn_at` on, runs are warned."""

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
    """Return whether a tenant may reserve an amount, given its spending in each period and its open reservations."""
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
    """Return whether a need exceeds a bound: tokens and cost are those of model calls, not of tools."""
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


class ITenantSpending(ABC):
    """Counts what tenants spend.

    Every adapter guarantees: what a `JournalCommit` settles is added in its transaction, and only there; a hold that
    is not settled lapses. All times are the store's.
    """

    @abstractmethod
    async def hold(
        self,
        tenant_id: str,
        reservation: BudgetReservation,
        windows: Sequence[BudgetWindow],
        *,
        seconds: float,
    ) -> BudgetVerdict:
        """Hold something for so many seconds if all windows allow it; else nothing is held.

        Raises:
            OSError: the store cannot be reached.
        """

    @abstractmethod
    async def settle(self, tenant_id: str, settlement: BudgetSettlement) -> None:
        """Release a hold and add what was used, for ephemeral runs; one that is settled stays as it is.

        Raises:
            OSError: the store cannot be reached.
        """

    @abstractmethod
    async def spent(self, tenant_id: str, period: BudgetPeriod) -> BudgetAmount:
        """Return what a tenant has spent in this period so far.

        Raises:
            OSError: the store cannot be reached.
        """

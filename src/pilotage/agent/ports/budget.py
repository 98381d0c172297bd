"""The budget port: ask for what the next step may need, settle what it used.

Asking and reserving are one act, so that parallel branches cannot spend the same money twice.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from decimal import Decimal
from typing import TypeAlias

from pilotage.agent.principal import RunContext
from pilotage.checks import reject_blank, reject_negative
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
    """Something set aside; it is settled by `consume`, once."""

    id: str
    amount: BudgetAmount

    def __post_init__(self) -> None:
        reject_blank(self, id=self.id)


@value
class BudgetSettlement:
    """What a reservation came to: it is let go of, and what was really used counts."""

    reservation: BudgetReservation
    used: BudgetAmount


@value
class BudgetGranted:
    """The step may go on; `warning` says that the end of the budget is near."""

    reservation: BudgetReservation
    warning: str | None = None


@value
class BudgetExhausted:
    """The step may not go on; `limit` names the bound and `reason` says it in words."""

    limit: str
    reason: str


BudgetVerdict: TypeAlias = BudgetGranted | BudgetExhausted


class IAgentBudget(ABC):
    """Counts what runs spend, per run tree and per tenant. An adapter that raises denies the step.

    One whose `is_settled_by_journal` is not asked to `consume` for a run that is kept: the settlement is part of the
    commit that records the step, and the store of the runs counts it.
    """

    is_settled_by_journal: bool = False

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

"""The spending port: what tenants have spent and what is held for calls under way, in the store of their runs.

What a run spends is added in the very commit that records it, so it counts once, whatever crashes. Holding something
and asking whether it may be held are one act, so that no two processes take the last of it.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence

from pilotage.agent.budget_windows import BudgetPeriod, BudgetWindow
from pilotage.agent.ports.budget import BudgetAmount, BudgetReservation, BudgetSettlement, BudgetVerdict


class ITenantSpending(ABC):
    """Counts what tenants spend.

    Every adapter guarantees: what a `JournalCommit` settles is added in its transaction, and only there; a hold that
    nobody settles lapses. All times are the store's.
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
        """Let go of a hold and add what was used, for runs that nobody keeps; one that is settled stays as it is.

        Raises:
            OSError: the store cannot be reached.
        """

    @abstractmethod
    async def spent(self, tenant_id: str, period: BudgetPeriod) -> BudgetAmount:
        """What a tenant has spent in this period so far.

        Raises:
            OSError: the store cannot be reached.
        """

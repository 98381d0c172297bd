"""Spending of tenants in the tables of a store: the counters that its journal updates."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime, timedelta
from functools import reduce

from pilotage.agent.ports.budget import (
    BudgetAmount,
    BudgetGranted,
    BudgetPeriod,
    BudgetReservation,
    BudgetSettlement,
    BudgetVerdict,
    BudgetWindow,
    ITenantSpending,
    verdict_for,
)
from pilotage.checks import reject_not_positive
from pilotage.ids import IClock

_NOTHING = BudgetAmount()


class SpendingTable:
    """The spending of each tenant by hour, and its holds with their expiry."""

    def __init__(self) -> None:
        self.hours: dict[tuple[str, datetime], BudgetAmount] = {}
        self.holds: dict[tuple[str, str], tuple[BudgetAmount, datetime]] = {}

    def settle(self, tenant_id: str, settlement: BudgetSettlement, now: datetime) -> None:
        """Release a hold, and count the amount used."""
        self.holds.pop((tenant_id, settlement.reservation.id), None)
        place = (tenant_id, BudgetPeriod.HOUR.start(now))
        self.hours[place] = self.hours.get(place, _NOTHING) + settlement.used

    def spent(self, tenant_id: str, since: datetime) -> BudgetAmount:
        """Return the spending of a tenant since the beginning of an hour."""
        amounts = [
            amount for (tenant, hour), amount in self.hours.items() if tenant == tenant_id and hour >= since
        ]
        return reduce(BudgetAmount.__add__, amounts, _NOTHING)

    def held(self, tenant_id: str, now: datetime) -> BudgetAmount:
        """Return the holds of a tenant that have not lapsed."""
        amounts = [
            amount
            for (tenant, _), (amount, until) in self.holds.items()
            if tenant == tenant_id and until > now
        ]
        return reduce(BudgetAmount.__add__, amounts, _NOTHING)


class MemoryTenantSpending(ITenantSpending):
    """Spending in the tables of a store; `MemoryTenantSpending(store.tables.spending, clock)` for another process."""

    def __init__(self, table: SpendingTable, clock: IClock) -> None:
        self._table, self._clock = table, clock

    async def hold(
        self,
        tenant_id: str,
        reservation: BudgetReservation,
        windows: Sequence[BudgetWindow],
        *,
        seconds: float,
    ) -> BudgetVerdict:
        reject_not_positive("MemoryTenantSpending.hold", seconds=seconds)
        now, table = self._clock.now(), self._table
        spent = {window.period: table.spent(tenant_id, window.period.start(now)) for window in windows}
        verdict = verdict_for(tenant_id, windows, spent, table.held(tenant_id, now), reservation)
        if isinstance(verdict, BudgetGranted):
            table.holds[tenant_id, reservation.id] = (reservation.amount, now + timedelta(seconds=seconds))
        return verdict

    async def settle(self, tenant_id: str, settlement: BudgetSettlement) -> None:
        if (tenant_id, settlement.reservation.id) in self._table.holds:
            self._table.settle(tenant_id, settlement, self._clock.now())

    async def spent(self, tenant_id: str, period: BudgetPeriod) -> BudgetAmount:
        return self._table.spent(tenant_id, period.start(self._clock.now()))

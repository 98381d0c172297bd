"""The kit of the spending port notices what it is there for: stores with one bug each."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from decimal import Decimal

import pytest

from pilotage.agent.ports.budget import (
    BudgetAmount,
    BudgetGranted,
    BudgetPeriod,
    BudgetReservation,
    BudgetSettlement,
    BudgetVerdict,
    BudgetWindow,
)
from pilotage.testing import MemoryStore, MemoryTenantSpending, VirtualClock
from pilotage.testing.conformance.spending import SpendingConformance
from pilotage.testing.tenant_spending import SpendingTable
from tests.conformance.planted import failing_tests


class KeepsHolds(SpendingTable):
    def settle(self, tenant_id: str, settlement: BudgetSettlement, now: datetime) -> None:
        kept = dict(self.holds)
        super().settle(tenant_id, settlement, now)
        self.holds = kept


class MixesTenants(SpendingTable):
    def spent(self, tenant_id: str, since: datetime) -> BudgetAmount:
        return sum(
            (amount for (_, hour), amount in self.hours.items() if hour >= since), start=BudgetAmount()
        )


class NeverBeginsAnew(SpendingTable):
    def spent(self, tenant_id: str, since: datetime) -> BudgetAmount:
        return super().spent(tenant_id, datetime.min.replace(tzinfo=since.tzinfo))


class HoldsForEver(SpendingTable):
    def held(self, tenant_id: str, now: datetime) -> BudgetAmount:
        return super().held(tenant_id, datetime.min.replace(tzinfo=now.tzinfo))


class ForgetsWhatIsHeld(SpendingTable):
    def held(self, tenant_id: str, now: datetime) -> BudgetAmount:
        return BudgetAmount()


class CountsInFloats(SpendingTable):
    def settle(self, tenant_id: str, settlement: BudgetSettlement, now: datetime) -> None:
        super().settle(tenant_id, settlement, now)
        place = (tenant_id, BudgetPeriod.HOUR.start(now))
        so_far = self.hours[place]
        rounded = Decimal(float(so_far.cost))
        self.hours[place] = BudgetAmount(so_far.steps, so_far.tool_calls, so_far.tokens, rounded)


class DropsLapsedOnes(SpendingTable):
    def settle(self, tenant_id: str, settlement: BudgetSettlement, now: datetime) -> None:
        held = self.holds.get((tenant_id, settlement.reservation.id))
        if held is None or held[1] > now:
            super().settle(tenant_id, settlement, now)


class SettlesTwice(MemoryTenantSpending):
    async def settle(self, tenant_id: str, settlement: BudgetSettlement) -> None:
        self._table.settle(tenant_id, settlement, self._clock.now())


class HoldsWhatItRefuses(MemoryTenantSpending):
    async def hold(
        self,
        tenant_id: str,
        reservation: BudgetReservation,
        windows: Sequence[BudgetWindow],
        *,
        seconds: float,
    ) -> BudgetVerdict:
        verdict = await super().hold(tenant_id, reservation, windows, seconds=seconds)
        self._table.holds[tenant_id, reservation.id] = (reservation.amount, datetime.max.replace(tzinfo=UTC))
        return verdict


class LooksAtTheFirstWindow(MemoryTenantSpending):
    async def hold(
        self,
        tenant_id: str,
        reservation: BudgetReservation,
        windows: Sequence[BudgetWindow],
        *,
        seconds: float,
    ) -> BudgetVerdict:
        return await super().hold(tenant_id, reservation, windows[:1], seconds=seconds)


class NeverWarns(MemoryTenantSpending):
    async def hold(
        self,
        tenant_id: str,
        reservation: BudgetReservation,
        windows: Sequence[BudgetWindow],
        *,
        seconds: float,
    ) -> BudgetVerdict:
        verdict = await super().hold(tenant_id, reservation, windows, seconds=seconds)
        return BudgetGranted(reservation) if isinstance(verdict, BudgetGranted) else verdict


BUGS: Mapping[type[SpendingTable | MemoryTenantSpending], str] = {
    KeepsHolds: "test_what_is_held_counts_until_it_is_settled",
    MixesTenants: "test_tenants_spend_apart",
    NeverBeginsAnew: "test_what_was_spent_before_this_period_does_not_count",
    HoldsForEver: "test_a_hold_that_is_not_settled_lapses",
    ForgetsWhatIsHeld: "test_of_many_at_once_no_more_are_granted_than_there_are",
    CountsInFloats: "test_money_is_added_exactly",
    DropsLapsedOnes: "test_a_hold_that_lapsed_is_settled_all_the_same",
    SettlesTwice: "test_without_a_journal_a_hold_is_settled_once",
    HoldsWhatItRefuses: "test_what_is_refused_is_not_held",
    LooksAtTheFirstWindow: "test_every_window_must_allow_it",
    NeverWarns: "test_from_a_share_on_who_holds_something_is_warned",
}


@pytest.mark.parametrize("bug", BUGS, ids=lambda bug: bug.__name__)
async def test_the_kit_notices(bug: type[SpendingTable | MemoryTenantSpending]) -> None:
    def fixtures() -> Mapping[str, object]:
        clock = VirtualClock()
        store = MemoryStore(clock)
        if issubclass(bug, SpendingTable):
            store.tables.spending = bug()
        port = MemoryTenantSpending if issubclass(bug, SpendingTable) else bug
        spending = port(store.tables.spending, clock)

        async def pass_time(seconds: float) -> None:
            clock.advance(seconds)

        return {
            "spending": spending,
            "second_spending": spending,
            "journal": store.journal,
            "pass_time": pass_time,
        }

    assert BUGS[bug] in await failing_tests(SpendingConformance, fixtures)

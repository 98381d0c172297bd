"""The promises of the spending port, and of the journal that moves it."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from decimal import Decimal

import pytest

from pilotage.agent.ports.budget import (
    BudgetAmount,
    BudgetExhausted,
    BudgetGranted,
    BudgetPeriod,
    BudgetReservation,
    BudgetSettlement,
    BudgetWindow,
    ITenantSpending,
)
from pilotage.agent.ports.journal import Committed, IAgentJournal
from pilotage.testing.conformance.kit import (
    FOREIGN_RUN,
    RUN,
    Kit,
    PassTime,
    claim,
    commit_of,
    commit_one,
    row,
)

NOTHING = BudgetAmount()
STEP = BudgetAmount(steps=1)
CALL = BudgetAmount(1, 2, 30, Decimal("0.1"))
MONTH = BudgetPeriod.MONTH
TENANT = RUN.tenant_id


def reservation(hold_id: str, amount: BudgetAmount = STEP) -> BudgetReservation:
    """Return a reservation."""
    return BudgetReservation(hold_id, amount)


def used(hold_id: str, amount: BudgetAmount = CALL) -> BudgetSettlement:
    """Return the settlement of a reservation."""
    return BudgetSettlement(reservation(hold_id), amount)


class SpendingConformance(Kit):
    """Conformance tests of every store about what tenants spend.

    Fixtures to give: `spending` and `journal` over one empty store, `pass_time(seconds)`, which puts the clock of the
    store forward, and, where a store can be opened twice, `second_spending`: another adapter over the same store.
    """

    @pytest.fixture
    def second_spending(self, spending: ITenantSpending) -> ITenantSpending:
        return spending

    async def test_nothing_is_spent_at_first(self, spending: ITenantSpending) -> None:
        for period in BudgetPeriod:
            assert await spending.spent(TENANT, period) == NOTHING

    async def test_what_a_commit_settles_is_spent_with_it(
        self, spending: ITenantSpending, second_spending: ITenantSpending, journal: IAgentJournal
    ) -> None:
        commit = replace(commit_of(claim(1, 1)), settled=(used("a"), used("b")))
        assert isinstance(await commit_one(journal, commit), Committed)
        assert await second_spending.spent(TENANT, MONTH) == CALL + CALL
        again = replace(commit_of(row(2)), settled=(used("c"),))
        await commit_one(journal, again)
        assert await spending.spent(TENANT, MONTH) == CALL + CALL + CALL

    async def test_a_commit_that_is_sent_again_is_spent_once(
        self, spending: ITenantSpending, journal: IAgentJournal
    ) -> None:
        commit = replace(commit_of(claim(1, 1)), settled=(used("a"),))
        for _ in range(3):
            assert await commit_one(journal, commit) == Committed(1)
        assert await spending.spent(TENANT, MONTH) == CALL

    async def test_a_commit_that_is_not_taken_spends_nothing(
        self, spending: ITenantSpending, journal: IAgentJournal
    ) -> None:
        await commit_one(journal, commit_of(claim(1, 1)))
        late = replace(commit_of(claim(1, 2), token="late"), settled=(used("a"),))
        unfit = replace(commit_of(row(2)), settled=(used("b"),), consumed_signals=("unknown",))
        outcomes = [await commit_one(journal, commit) for commit in (late, unfit)]
        assert not any(isinstance(outcome, Committed) for outcome in outcomes)
        assert await spending.spent(TENANT, MONTH) == NOTHING

    async def test_tenants_spend_apart(self, spending: ITenantSpending, journal: IAgentJournal) -> None:
        mine = replace(commit_of(claim(1, 1)), settled=(used("a"),))
        theirs = replace(commit_of(claim(1, 1), run=FOREIGN_RUN), settled=(used("a", STEP),))
        await journal.commit([mine, theirs])
        assert await spending.spent(TENANT, MONTH) == CALL
        assert await spending.spent(FOREIGN_RUN.tenant_id, MONTH) == STEP
        full = [BudgetWindow(MONTH, max_steps=1)]
        assert isinstance(await spending.hold("third", reservation("h"), full, seconds=60), BudgetGranted)

    async def test_money_is_added_exactly(self, spending: ITenantSpending, journal: IAgentJournal) -> None:
        dime = BudgetAmount(cost=Decimal("0.1"))
        settled = tuple(used(f"{number}", dime) for number in range(3))
        await commit_one(journal, replace(commit_of(claim(1, 1)), settled=settled))
        tiny = used("tiny", BudgetAmount(cost=Decimal("0.000000000000000000000000001")))
        await commit_one(journal, replace(commit_of(row(2)), settled=(tiny,)))
        found = await spending.spent(TENANT, MONTH)
        assert found.cost == Decimal("0.300000000000000000000000001")

    async def test_what_is_held_counts_until_it_is_settled(
        self, spending: ITenantSpending, second_spending: ITenantSpending, journal: IAgentJournal
    ) -> None:
        one = [BudgetWindow(MONTH, max_steps=1)]
        granted = await spending.hold(TENANT, reservation("a"), one, seconds=60)
        assert isinstance(granted, BudgetGranted)
        assert granted.reservation == reservation("a")
        refused = await second_spending.hold(TENANT, reservation("b"), one, seconds=60)
        assert isinstance(refused, BudgetExhausted)
        assert refused.limit == "month.max_steps"
        await commit_one(journal, replace(commit_of(claim(1, 1)), settled=(used("a", NOTHING),)))
        assert isinstance(
            await second_spending.hold(TENANT, reservation("b"), one, seconds=60), BudgetGranted
        )

    async def test_what_is_refused_is_not_held(self, spending: ITenantSpending) -> None:
        tight = [BudgetWindow(MONTH, max_tool_calls=2)]
        three = BudgetAmount(tool_calls=3)
        assert isinstance(
            await spending.hold(TENANT, reservation("a", three), tight, seconds=60), BudgetExhausted
        )
        two = BudgetAmount(tool_calls=2)
        assert isinstance(
            await spending.hold(TENANT, reservation("b", two), tight, seconds=60), BudgetGranted
        )

    async def test_every_window_must_allow_it(self, spending: ITenantSpending) -> None:
        windows = [BudgetWindow(MONTH, max_steps=5), BudgetWindow(BudgetPeriod.DAY, max_steps=1)]
        await spending.hold(TENANT, reservation("a"), windows, seconds=60)
        refused = await spending.hold(TENANT, reservation("b"), windows, seconds=60)
        assert isinstance(refused, BudgetExhausted)
        assert refused.limit == "day.max_steps"

    async def test_tokens_that_are_held_keep_others_from_spending_them(
        self, spending: ITenantSpending
    ) -> None:
        window = [BudgetWindow(MONTH, max_tokens=100)]
        large = BudgetAmount(steps=1, tokens=100)
        assert isinstance(
            await spending.hold(TENANT, reservation("a", large), window, seconds=60), BudgetGranted
        )
        assert isinstance(
            await spending.hold(TENANT, reservation("b", large), window, seconds=60), BudgetExhausted
        )

    async def test_of_many_at_once_no_more_are_granted_than_there_are(
        self, spending: ITenantSpending, second_spending: ITenantSpending
    ) -> None:
        window = [BudgetWindow(MONTH, max_steps=7)]
        ports = [spending, second_spending] * 10
        verdicts = await asyncio.gather(
            *(
                port.hold(TENANT, reservation(f"{number}"), window, seconds=60)
                for number, port in enumerate(ports)
            )
        )
        assert sum(isinstance(verdict, BudgetGranted) for verdict in verdicts) == 7

    async def test_a_hold_that_is_not_settled_lapses(
        self, spending: ITenantSpending, pass_time: PassTime
    ) -> None:
        one = [BudgetWindow(MONTH, max_steps=1)]
        await spending.hold(TENANT, reservation("a"), one, seconds=60)
        await pass_time(30)
        assert isinstance(await spending.hold(TENANT, reservation("b"), one, seconds=60), BudgetExhausted)
        await pass_time(31)
        assert isinstance(await spending.hold(TENANT, reservation("b"), one, seconds=60), BudgetGranted)

    async def test_a_hold_that_lapsed_is_settled_all_the_same(
        self, spending: ITenantSpending, journal: IAgentJournal, pass_time: PassTime
    ) -> None:
        await spending.hold(TENANT, reservation("a"), [BudgetWindow(MONTH, max_steps=1)], seconds=1)
        await pass_time(2)
        await commit_one(journal, replace(commit_of(claim(1, 1)), settled=(used("a"),)))
        assert await spending.spent(TENANT, MONTH) == CALL

    async def test_without_a_journal_a_hold_is_settled_once(
        self, spending: ITenantSpending, second_spending: ITenantSpending
    ) -> None:
        one = [BudgetWindow(MONTH, max_steps=2)]
        await spending.hold(TENANT, reservation("a"), one, seconds=60)
        await spending.settle(TENANT, used("a"))
        await second_spending.settle(TENANT, used("a"))
        assert await spending.spent(TENANT, MONTH) == CALL

    async def test_what_was_spent_before_this_period_does_not_count(
        self, spending: ITenantSpending, journal: IAgentJournal, pass_time: PassTime
    ) -> None:
        await commit_one(journal, replace(commit_of(claim(1, 1)), settled=(used("a"),)))
        for period, seconds in ((BudgetPeriod.HOUR, 3600), (BudgetPeriod.DAY, 86_400), (MONTH, 31 * 86_400)):
            await pass_time(seconds)
            assert await spending.spent(TENANT, period) == NOTHING
            window = [BudgetWindow(period, max_steps=1)]
            hold = reservation(f"in the next {period}", BudgetAmount(steps=1))
            assert isinstance(await spending.hold(TENANT, hold, window, seconds=1), BudgetGranted)

    async def test_from_a_share_on_who_holds_something_is_warned(
        self, spending: ITenantSpending, journal: IAgentJournal
    ) -> None:
        window = [BudgetWindow(MONTH, max_tokens=100, warn_at=0.5)]
        early = await spending.hold(TENANT, reservation("a"), window, seconds=60)
        assert isinstance(early, BudgetGranted)
        assert early.warning is None
        spent = used("a", BudgetAmount(tokens=50))
        await commit_one(journal, replace(commit_of(claim(1, 1)), settled=(spent,)))
        late = await spending.hold(TENANT, reservation("b"), window, seconds=60)
        assert isinstance(late, BudgetGranted)
        assert late.warning == f"tenant {TENANT!r} has used 50 % or more of max_tokens=100 of this month"

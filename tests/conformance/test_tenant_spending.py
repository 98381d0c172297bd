"""What tenants spend, in memory and in each database, passes the kit."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from pilotage.adapters.sqlalchemy.store import SqlAlchemyStore
from pilotage.agent.ports.budget import ITenantSpending
from pilotage.agent.ports.journal import IAgentJournal
from pilotage.testing import MemoryStore, MemoryTenantSpending, VirtualClock
from pilotage.testing.conformance import SpendingConformance
from pilotage.testing.conformance.kit import PassTime


class TestMemoryTenantSpending(SpendingConformance):
    @pytest.fixture
    def clock(self) -> VirtualClock:
        return VirtualClock()

    @pytest.fixture
    def memory_store(self, clock: VirtualClock) -> MemoryStore:
        return MemoryStore(clock)

    @pytest.fixture
    def spending(self, memory_store: MemoryStore) -> ITenantSpending:
        return memory_store.spending

    @pytest.fixture
    def second_spending(self, memory_store: MemoryStore, clock: VirtualClock) -> ITenantSpending:
        return MemoryTenantSpending(memory_store.tables.spending, clock)

    @pytest.fixture
    def journal(self, memory_store: MemoryStore) -> IAgentJournal:
        return memory_store.journal

    @pytest.fixture
    def pass_time(self, clock: VirtualClock) -> PassTime:
        async def advance(seconds: float) -> None:
            clock.advance(seconds)

        return advance


class TestSqlAlchemyTenantSpending(SpendingConformance):
    @pytest.fixture
    def spending(self, store: SqlAlchemyStore) -> ITenantSpending:
        return store.spending

    @pytest.fixture
    def second_spending(
        self, spending: ITenantSpending, open_store: Callable[[], SqlAlchemyStore]
    ) -> ITenantSpending:
        return open_store().spending

    @pytest.fixture
    def journal(self, store: SqlAlchemyStore) -> IAgentJournal:
        return store.journal

    @pytest.fixture
    def pass_time(self, let_time_pass: PassTime) -> PassTime:
        return let_time_pass

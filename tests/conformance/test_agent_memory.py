"""What agents remember, in memory and in each database, passes the kit."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from pilotage.adapters.sqlalchemy.memory import SqlAlchemyAgentMemory
from pilotage.adapters.sqlalchemy.store import SqlAlchemyStore
from pilotage.agent.ports.memory import IAgentMemory
from pilotage.testing import MemoryAgentMemory
from pilotage.testing.conformance import MemoryConformance


class TestMemoryAgentMemory(MemoryConformance):
    @pytest.fixture
    def memory(self) -> IAgentMemory:
        return MemoryAgentMemory()

    @pytest.fixture
    def small_memory(self) -> IAgentMemory:
        return MemoryAgentMemory(max_items=3)


class TestSqlAlchemyAgentMemory(MemoryConformance):
    @pytest.fixture
    def memory(self, store: SqlAlchemyStore) -> IAgentMemory:
        return store.memory

    @pytest.fixture
    def second_memory(self, memory: IAgentMemory, open_store: Callable[[], SqlAlchemyStore]) -> IAgentMemory:
        return open_store().memory

    @pytest.fixture
    def small_memory(self, store: SqlAlchemyStore) -> IAgentMemory:
        return SqlAlchemyAgentMemory(store.database, max_items=3)

"""A relay may die at every call of its outbox: each fact is delivered all the same, in order, and never lost."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from contextlib import suppress
from typing import TypeVar

import pytest

from pilotage import Application
from pilotage.agent import AgentFact, AgentRunStarted, OutboxEntry, OutboxEvent, OutboxStatus, RunKey
from pilotage.agent.ports.journal import JournalCommit
from pilotage.runtime import RelaySettings
from pilotage.runtime.plugin import initialize
from pilotage.testing import MemoryOutbox, MemoryStore, ProcessStopped, VirtualClock
from pilotage.testing.conformance.kit import row
from tests.behaviour.newsdesk import Newsdesk, let_run, pass_time

T = TypeVar("T")

RUNS = ("run-1", "run-2")
NAMES = ("AgentRunStarted", "AgentRunCancelling", "AgentRunCancelled")
SETTINGS = RelaySettings(tries=2, first_wait=3.0, delivery_seconds=10.0)
CALLS = range(1, 17)


class MortalOutbox(MemoryOutbox):
    """An outbox of a process that dies before or after its n-th call."""

    def __init__(self, store: MemoryStore, dies_at: int | None, *, is_done: bool) -> None:
        super().__init__(store.tables)
        self._dies_at, self._is_done = dies_at, is_done
        self.calls = 0
        self.is_dead = False

    async def claim(self, owner: str, seconds: float, limit: int) -> Sequence[OutboxEntry]:
        return await self._call(lambda: MemoryOutbox.claim(self, owner, seconds, limit))

    async def delivered(self, owner: str, entries: Sequence[OutboxEntry]) -> None:
        await self._call(lambda: MemoryOutbox.delivered(self, owner, entries))

    async def failed(self, owner: str, entry: OutboxEntry, problem: str, retry_in: float | None) -> None:
        await self._call(lambda: MemoryOutbox.failed(self, owner, entry, problem, retry_in))

    async def _call(self, call: Callable[[], Awaitable[T]]) -> T:
        self.calls += 1
        if self.is_dead or (self.calls == self._dies_at and not self._is_done):
            self.is_dead = True
            raise ProcessStopped(f"before call {self.calls}")
        result = await call()
        if self.calls == self._dies_at:
            self.is_dead = True
            raise ProcessStopped(f"after call {self.calls}")
        return result


class Deliveries:
    """Facts of two runs, delivered by as many processes as it takes; one of them is refused once."""

    def __init__(self) -> None:
        self.clock = VirtualClock()
        self.store = MemoryStore(self.clock)
        self.heard: list[AgentFact] = []
        self.has_refused = False

    async def happen(self) -> None:
        for run_id in RUNS:
            payload = {"run_id": run_id, "tenant_id": "default", "agent": "clerk", "parent": None}
            events = tuple(OutboxEvent(name, 1, payload) for name in NAMES)
            run = RunKey("default", run_id)
            await self.store.journal.commit([JournalCommit(run, "all", 0, (row(1),), outbox=events)])

    def refuses(self, fact: AgentFact) -> bool:
        """One fact is not taken the first time."""
        is_refused = isinstance(fact, AgentRunStarted) and fact.run_id == RUNS[1] and not self.has_refused
        self.has_refused = self.has_refused or is_refused
        return is_refused

    async def process(self, dies_at: int | None = None, *, is_done: bool = False) -> int:
        """One process with a relay, for as long as it lives; how often it called its outbox."""
        outbox, desk = MortalOutbox(self.store, dies_at, is_done=is_done), Newsdesk()
        desk.refuses = self.refuses
        app = Application("desk").add(desk, outbox, SETTINGS, self.clock, *self.store.ports[:4])
        initialize(app)
        with suppress(ProcessStopped):
            async with app:
                for _ in range(100):
                    if outbox.is_dead or self.is_over:
                        break
                    await pass_time(self.clock, 1)
                    await let_run()
        self.heard += desk.heard
        return outbox.calls

    @property
    def is_over(self) -> bool:
        return all(entry.status is OutboxStatus.DELIVERED for entry in self.store.tables.outbox.read())


def first_heard(heard: Sequence[AgentFact], run_id: str) -> list[str]:
    """The types of a run's facts in the order they first came."""
    return list(dict.fromkeys(type(fact).__name__ for fact in heard if fact.run_id == run_id))


async def test_one_process_delivers_every_fact_once_but_the_one_that_was_refused() -> None:
    deliveries = Deliveries()
    await deliveries.happen()
    calls = await deliveries.process()
    assert deliveries.is_over
    assert len(deliveries.heard) == 7
    assert calls < CALLS.stop


@pytest.mark.parametrize("is_done", [False, True], ids=["before", "after"])
@pytest.mark.parametrize("dies_at", CALLS)
async def test_a_death_at_any_call_loses_nothing_and_keeps_the_order(dies_at: int, is_done: bool) -> None:
    deliveries = Deliveries()
    await deliveries.happen()
    await deliveries.process(dies_at, is_done=is_done)
    await deliveries.process()
    assert deliveries.is_over
    for run_id in RUNS:
        assert first_heard(deliveries.heard, run_id) == list(NAMES)
    # What was delivered and not marked comes again: at most one fact of each run, and the one that was refused.
    assert len(deliveries.heard) <= 6 + 1 + len(RUNS)


@pytest.mark.parametrize("dies_at", CALLS)
async def test_many_deaths_lose_nothing_either(dies_at: int) -> None:
    deliveries = Deliveries()
    await deliveries.happen()
    for number in range(1, dies_at):
        await deliveries.process(number, is_done=number % 2 == 0)
    await deliveries.process()
    assert deliveries.is_over
    for run_id in RUNS:
        assert first_heard(deliveries.heard, run_id) == list(NAMES)

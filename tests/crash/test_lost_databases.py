"""The database goes away in the middle of a run and comes back: nothing is lost, and nothing done twice.

The server is one of our own. The outside world of `tests.crash.shop` is the ledger that everything is compared with.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Iterator, Sequence
from decimal import Decimal

import pytest

from pilotage import (
    Agent,
    AgentExecutionSpec,
    Application,
    Idempotency,
    Pod,
    RecoveryStrategy,
    ToolEffects,
    agent_tool,
)
from pilotage.adapters.sqlalchemy.settings import DatabaseSettings
from pilotage.adapters.sqlalchemy.store import SqlAlchemyStore
from pilotage.adapters.sqlalchemy.tables import metadata
from pilotage.agent import ToolApprovalRequirement
from pilotage.agent.facts import AgentRunCompleted
from pilotage.agent.handlers import on_event
from pilotage.agent.ports.journal import CommitOutcome, IAgentJournal, JournalCommit, JournalHead
from pilotage.agent.ports.persistence import JournalRow, RunKey
from pilotage.agent.run_values import RunResult
from pilotage.runtime import AgentRuns, LeaseSettings, StoreUnavailable, WorkerSettings
from pilotage.testing import Fault
from tests.adapters.sqlalchemy.cutting_proxy import Cut, CuttingProxy
from tests.adapters.sqlalchemy.databases import opened
from tests.adapters.sqlalchemy.private_server import Mode, PrivateServer, need_private_server, private_server
from tests.crash.process import Processes, assert_done_right
from tests.crash.shop import World
from tests.crash.test_database_crashes import assert_unbroken

COMMITS = range(1, 9)


@pytest.fixture(scope="module")
def server() -> Iterator[PrivateServer]:
    """A server that only these tests know."""
    need_private_server()
    with private_server() as server:
        yield server


def settings_at(port: int, patience: float = 20) -> DatabaseSettings:
    return DatabaseSettings(PrivateServer.url_at(port), timeout_seconds=patience)


def emptied(server: PrivateServer) -> DatabaseSettings:
    """Empty tables on the server."""
    settings = settings_at(server.port)
    with opened(settings) as store, store.database.engines.writing.begin() as connection:
        for table in reversed(metadata.sorted_tables):
            connection.execute(table.delete())
    return settings


class DisturbedJournal(IAgentJournal):
    """A journal under which something happens to the database while a commit is under way."""

    def __init__(self, journal: IAgentJournal, number: int, disturb: Callable[[], object]) -> None:
        self._journal, self._number, self._disturb = journal, number, disturb
        self._commits = 0

    async def commit(self, commits: Sequence[JournalCommit]) -> Sequence[CommitOutcome]:
        self._commits += 1
        if self._commits != self._number:
            return await self._journal.commit(commits)
        disturbing = asyncio.create_task(asyncio.to_thread(self._disturb))
        outcomes = await self._journal.commit(commits)
        await disturbing
        return outcomes

    def read(self, run: RunKey, after: int = 0) -> AsyncIterator[JournalRow]:
        return self._journal.read(run, after)

    async def head(self, run: RunKey) -> JournalHead | None:
        return await self._journal.head(run)


class DisturbedStore(SqlAlchemyStore):
    """A store with such a journal."""

    def disturb(self, number: int, disturb: Callable[[], object]) -> None:
        self.journal = DisturbedJournal(self.journal, number, disturb)  # type: ignore[assignment]


class DisturbedProcesses(Processes):
    """Each process opens the database for itself; something happens at one of the first one's commits."""

    def __init__(
        self, settings: DatabaseSettings, number: int = 0, disturb: Callable[[], object] = bool
    ) -> None:
        super().__init__()
        self._settings, self._number, self._disturb = settings, number, disturb

    async def _one_process(self, fault: Fault | None) -> RunResult | None:
        with await asyncio.to_thread(DisturbedStore.open, self._settings) as store:
            store.disturb(self._number if self.count == 0 else 0, self._disturb)
            self.store = store
            return await super()._one_process(fault)


@pytest.mark.parametrize("mode", ["fast", "immediate"])
async def test_a_server_that_restarts_at_any_commit_changes_nothing(
    server: PrivateServer, mode: Mode
) -> None:
    for number in COMMITS:
        settings = emptied(server)
        processes = DisturbedProcesses(settings, number, lambda: server.restart(mode))
        result = await processes.carry_through()
        assert_done_right(processes, result)
        assert processes.count == 2, "the run went on by itself, but for the approval it waits for"
        await assert_unbroken(settings, result.state.id)


async def test_connections_that_are_ended_at_any_commit_change_nothing(server: PrivateServer) -> None:
    for number in COMMITS:
        settings = emptied(server)
        processes = DisturbedProcesses(settings, number, server.cut_connections)
        assert_done_right(processes, await processes.carry_through())
        assert processes.count == 2


@pytest.mark.parametrize("cut", list(Cut))
async def test_a_line_that_breaks_at_any_commit_changes_nothing(server: PrivateServer, cut: Cut) -> None:
    number, is_cut = 0, True
    while is_cut:
        number += 1
        settings = emptied(server)
        with CuttingProxy(server.port, number, cut) as proxy:
            processes = DisturbedProcesses(settings_at(proxy.port))
            result = await processes.carry_through()
        assert_done_right(processes, result)
        await assert_unbroken(settings, result.state.id)
        is_cut = proxy.is_cut
    assert number > len(COMMITS)


class Interrupting(World):
    """A world in which the server goes away as soon as the money is paid."""

    def __init__(self, server: PrivateServer) -> None:
        super().__init__()
        self._server = server

    def act(self, what: str, key: str, *, once: bool = False) -> str:
        receipt = super().act(what, key, once=once)
        if what == "pay":
            self._server.stop("immediate")
        return receipt


async def test_a_server_that_stays_away_leaves_what_is_unknown_to_a_person(server: PrivateServer) -> None:
    emptied(server)
    processes = DisturbedProcesses(settings_at(server.port, patience=0.5))
    processes.world = Interrupting(server)
    with pytest.raises(StoreUnavailable):
        await processes.carry_through()
    server.start()
    result = await processes.carry_through()
    assert_done_right(processes, result)
    questions = len(processes.answered)
    assert questions == 2, "whether it was paid, and whether to give it back"


async def test_hints_are_heard_again_when_the_server_is_back(server: PrivateServer) -> None:
    emptied(server)
    store = await asyncio.to_thread(SqlAlchemyStore.open, settings_at(server.port))
    with store:
        async with store.wake_ups.subscribe() as hints:
            await store.wake_ups.notify("before")
            assert await hints.next() == "before"
            await asyncio.to_thread(server.restart, "fast")
            hearing = asyncio.create_task(hints.next())
            async with asyncio.timeout(120):
                while not hearing.done():
                    await store.wake_ups.notify("behind")
                    await asyncio.wait([hearing], timeout=0.05)
            assert hearing.result() == "behind"


@Pod
class Till:
    """Takes money, and waits while a test disturbs what is around it."""

    def __init__(self) -> None:
        self.taken: list[Decimal] = []
        self.is_open = asyncio.Event()

    @agent_tool(
        effects=ToolEffects.external_side_effect(),
        idempotency=Idempotency.NON_IDEMPOTENT,
        approval=ToolApprovalRequirement.NOT_REQUIRED,
        reads_untrusted=False,
    )
    async def take(self, amount: Decimal) -> str:
        """Take money."""
        self.taken.append(amount)
        await self.is_open.wait()
        return f"took {amount}"


@Agent(spec=AgentExecutionSpec(recovery=RecoveryStrategy.ACTION_BOUNDARY))
class Cashier:
    def __init__(self, till: Till) -> None:
        self.till = till

    async def execute(self, amount: Decimal) -> str:
        return await self.till.take(amount)


@Pod
class Desk:
    """Wants to hear of runs that are done."""

    def __init__(self) -> None:
        self.heard: asyncio.Queue[AgentRunCompleted] = asyncio.Queue()

    @on_event(AgentRunCompleted)
    async def done(self, fact: AgentRunCompleted) -> None:
        await self.heard.put(fact)


async def test_workers_and_relays_go_on_when_the_server_is_back(server: PrivateServer) -> None:
    settings = emptied(server)
    front = Application("front").add(Cashier, Till(), settings).load_plugins()
    back = Application("back").add(Cashier, Till(), Desk, settings).load_plugins()
    back.add(WorkerSettings(poll_seconds=0.1), LeaseSettings(seconds=1))
    async with back:
        await asyncio.to_thread(server.restart, "fast")
        async with front, asyncio.timeout(120):
            tills, desk = [front.get(Till), back.get(Till)], back.get(Desk)
            handle = await front.get(AgentRuns).start(Cashier, Decimal(5))
            await asyncio.to_thread(server.restart, "immediate")
            for till in tills:
                till.is_open.set()
            assert (await handle.result()).output == "took 5"
            fact = await desk.heard.get()
        assert fact.run_id == handle.id
        assert [amount for till in tills for amount in till.taken] == [Decimal(5)]

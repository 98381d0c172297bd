"""Processes that drive the runs of one thread, and agents that take messages meanwhile."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import asynccontextmanager

from ag_ui.core import RunAgentInput
from tests.adapters.agui.bank import Bank, Frame, Store, Teller, ask
from tests.adapters.agui.door import Gate
from tests.adapters.agui.samples import ag_ui_input
from tests.behaviour.newsroom import let_run

from pilotage import Agent, AgentExecutionSpec, AgentSignalKind, Application, Principal, RecoveryStrategy
from pilotage.adapters.sqlalchemy.signals import SqlAlchemySignalRepository
from pilotage.adapters.sqlalchemy.store import SqlAlchemyStore
from pilotage.agent import AgentSignal, IAgentSignalRepository, RunKey
from pilotage.runtime.run.start import run_id_of
from pilotage.testing import (
    FaultyJournal,
    MemorySignalRepository,
    ProcessStopped,
    ScriptedModel,
    StopAfter,
    StopBefore,
)

ADA = Principal("ada")
HELLO, NEXT = ag_ui_input("Hello"), ag_ui_input("And then?", runId="client-2")
RUN = run_id_of(ADA.tenant, "client-1")


@Agent(
    spec=AgentExecutionSpec(
        name="host",
        recovery=RecoveryStrategy.ACTION_BOUNDARY,
        accepted_signals=(AgentSignalKind.USER_MESSAGE,),
    )
)
class Host:
    """Holds the door, and takes messages meanwhile."""

    def __init__(self, gate: Gate) -> None:
        self.gate = gate


@Agent(
    spec=AgentExecutionSpec(
        name="deaf",
        recovery=RecoveryStrategy.ACTION_BOUNDARY,
        accepted_signals=(AgentSignalKind.USER_MESSAGE,),
    )
)
class Deaf:
    """Accepts messages, and takes none of them in: they come too late."""

    def __init__(self, gate: Gate) -> None:
        self.gate = gate

    async def execute(self, words: str) -> str:
        await self.gate.hold()
        return f"re: {words}"


Moment = Callable[[], Awaitable[object]]


class Moments(IAgentSignalRepository):
    """Signals of which each user message waits for what is to happen in its moment."""

    moments: list[Moment]
    stored: asyncio.Queue[str]
    """The ids of the signals that were stored."""

    async def append(self, signal: AgentSignal) -> AgentSignal:
        if signal.kind is AgentSignalKind.USER_MESSAGE and self.moments:
            await self.moments.pop(0)()
        stored = await super().append(signal)
        self.stored.put_nowait(stored.id)
        return stored


class SignalsInMemory(Moments, MemorySignalRepository):
    """Watched signals of a store in memory."""


class SignalsInADatabase(Moments, SqlAlchemySignalRepository):
    """Watched signals of a database."""


def watched(threads: Threads) -> Moments:
    """The signals of the store, which have moments from now on."""
    store = threads.bank.store
    if isinstance(store, SqlAlchemyStore):
        store.signals = found = SignalsInADatabase(store.database)
    else:
        store.signals = found = SignalsInMemory(store)
    found.moments, found.stored = [], asyncio.Queue()
    return found


async def ended(threads: Threads, run_id: str = RUN) -> None:
    """Wait until a run has ended."""
    while not (await threads.bank.store.states.get(run_id)).is_terminal:
        await let_run()


def customs(frames: list[Frame]) -> list[str]:
    return [frame["name"] for frame in frames if frame["type"] == "CUSTOM"]


class Threads:
    """Processes over one store, of which the first ones die."""

    def __init__(self, agent: type[object] = Teller, store: Store | None = None) -> None:
        self.bank, self.agent = Bank(store), agent
        self.gate = Gate()

    @asynccontextmanager
    async def process(
        self, model: ScriptedModel, fault: StopAfter | StopBefore | None = None, *more: object
    ) -> AsyncGenerator[Application, None]:
        store = self.bank.store
        ports = [each for each in store.ports if each is not store.journal]
        journal = FaultyJournal(store.journal, fault)
        app = Application("bank").add(
            self.agent, self.bank.payments, self.gate, model, journal, *ports, *more
        )
        async with app.load_plugins() as started:
            yield started

    async def die(self, model: ScriptedModel, fault: StopAfter | StopBefore) -> None:
        """A process that dies in the middle of the first message."""
        try:
            async with self.process(model, fault) as app:
                await self.ask(app, HELLO)
        except ProcessStopped:
            return
        raise AssertionError("the process did not die")

    async def ask(self, app: Application, given: RunAgentInput) -> list[Frame]:
        return await ask(app, given, self.agent, principal=ADA)

    async def hold(self) -> None:
        """Let a process of another machine have the lease; nothing is known of it but that."""
        assert await self.bank.store.leases.acquire(RunKey(ADA.tenant, RUN), "elsewhere", 30.0) is not None

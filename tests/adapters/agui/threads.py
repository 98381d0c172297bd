"""Processes that drive the runs of one thread, and agents that take messages meanwhile."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager

from ag_ui.core import RunAgentInput
from tests.adapters.agui.bank import Bank, Frame, Teller, ask
from tests.adapters.agui.door import Gate
from tests.adapters.agui.samples import ag_ui_input

from pilotage import Agent, AgentExecutionSpec, AgentSignalKind, Application, Principal, RecoveryStrategy
from pilotage.agent import RunKey
from pilotage.runtime.run.start import run_id_of
from pilotage.testing import FaultyJournal, ProcessStopped, ScriptedModel, StopAfter, StopBefore

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


def customs(frames: list[Frame]) -> list[str]:
    return [frame["name"] for frame in frames if frame["type"] == "CUSTOM"]


class Threads:
    """Processes over one store, of which the first ones die."""

    def __init__(self, agent: type[object] = Teller) -> None:
        self.bank, self.agent = Bank(), agent
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

"""Use case 11: the three repositories come from an adapter package, by contribution; the application names none."""

from __future__ import annotations

from importlib.metadata import entry_points

from pilotage import Agent, AgentExecutionSpec, Application, RecoveryStrategy
from pilotage.agent import IAgentEvidenceRepository, IAgentSignalRepository, IAgentStateRepository
from pilotage.testing import MemoryStore

PORTS = (IAgentStateRepository, IAgentSignalRepository, IAgentEvidenceRepository)


@Agent(spec=AgentExecutionSpec(recovery=RecoveryStrategy.ACTION_BOUNDARY))
class Greeter:
    async def execute(self, name: str) -> str:
        return f"Good day, {name}."


async def test_whoever_is_installed_contributes_them() -> None:
    (contribution,) = entry_points(group="pilotage.contributions.agent")
    assert contribution.name == "pilotage.adapters.sqlalchemy"
    async with Application("hotel").add(Greeter).load_plugins() as app:
        for port in PORTS:
            assert type(app.get(port)).__module__.startswith("pilotage.adapters.sqlalchemy.")


async def test_an_application_that_brings_its_own_keeps_its_own() -> None:
    store = MemoryStore()
    async with Application("hotel").add(Greeter, *store.ports).load_plugins() as app:
        assert [app.get(port) for port in PORTS] == [store.states, store.signals, store.evidence]

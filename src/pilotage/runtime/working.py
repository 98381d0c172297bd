"""The worker of an application: there as soon as the application has settings for one."""

from __future__ import annotations

from collections.abc import Iterable

from pilotage.agent.ports.backlog import IAgentBacklog
from pilotage.agent.ports.leases import IAgentLeases
from pilotage.container.graph import Graph
from pilotage.container.lifecycle import ILifecycle
from pilotage.container.pod import Pod
from pilotage.container.processing import IPostProcessor
from pilotage.errors import AgentPersistenceConfigurationError, Problem
from pilotage.runtime.relaying import LAST
from pilotage.runtime.runs import AgentRuns
from pilotage.runtime.worker.settings import WorkerSettings
from pilotage.runtime.worker.sweeper import Sweeper


class WorkerPorts(IPostProcessor):
    """Checks at start-up that a worker has something to work on."""

    @classmethod
    def check(cls, graph: Graph) -> Iterable[Problem]:
        """The ports that a worker needs and nothing provides."""
        missing = [port for port in (IAgentBacklog, IAgentLeases) if not graph.contains(port)]
        if missing and graph.contains(WorkerSettings):
            names = ", ".join(port.__name__ for port in missing)
            yield Problem(
                "agent_worker_ports_missing",
                f"WorkerSettings asks for a worker, and nothing provides {names}.",
                remedy='Install the provider: pip install "pilotage[sqlalchemy]".',
                family=AgentPersistenceConfigurationError,
                detail=tuple(missing),
            )


@Pod(order=LAST)
class AgentWorker(ILifecycle):
    """Takes up runs that nobody drives while the application is started, if it has `WorkerSettings`.

    It stops in good order: no new runs, the current actions come to their end, the leases go back, so that another
    process goes on.
    """

    def __init__(self, runs: AgentRuns, settings: WorkerSettings | None = None) -> None:
        self._runs = runs
        self._settings = settings
        self._sweeper: Sweeper | None = None

    async def start(self) -> None:
        if self._settings is None or not self._settings.is_on:
            return
        backlog, leases = self._runs.services.backlog, self._runs.services.leases
        if backlog is None or leases is None:
            return
        self._sweeper = Sweeper(self._runs, backlog, leases, self._settings)
        self._sweeper.start()

    async def stop(self) -> None:
        if self._sweeper is not None:
            await self._sweeper.stop()

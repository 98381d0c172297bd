"""The plugin `runtime`: runs for the agents of an application, and models that know the run they are called in."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Any, cast

from pilotage.agent.ports.journal import IAgentJournal
from pilotage.agent.ports.model import IAgentModel
from pilotage.agent.ports.repositories import IAgentSignalRepository, IAgentStateRepository
from pilotage.container.application import Application
from pilotage.container.pod import Pod
from pilotage.container.processing import IPostProcessor
from pilotage.errors import AgentPersistenceConfigurationError
from pilotage.ids import IClock, IIds, SystemClock, SystemIds
from pilotage.runtime.model_calls import RunAwareModel
from pilotage.runtime.runs import AgentRuns


class RunAwareModels(IPostProcessor):
    """Puts a run-aware model in the place of every model."""

    def post_process(self, pod: object) -> object:
        if isinstance(pod, IAgentModel) and not isinstance(pod, RunAwareModel):
            return RunAwareModel(pod)
        return pod


class _Nowhere:
    """Stands where nothing provides persistence: whoever wants to keep a run is told what to install."""

    def __getattr__(self, name: str) -> Any:
        raise AgentPersistenceConfigurationError


@Pod
async def agent_runs(
    app: Application,
    journal: IAgentJournal | None,
    states: IAgentStateRepository | None,
    signals: IAgentSignalRepository | None,
    clock: IClock | None,
    ids: IIds | None,
) -> AsyncIterator[AgentRuns]:
    """The run service; when the application stops, its runs stop where they are and can be resumed."""
    nowhere = cast(Any, _Nowhere())
    runs = AgentRuns(
        app,
        journal or nowhere,
        states or nowhere,
        signals or nowhere,
        clock or SystemClock(),
        ids or SystemIds(),
    )
    yield runs
    await runs.stop()


def initialize(app: Application) -> None:
    """Register the run service and the wrapper of models."""
    app.add(RunAwareModels, agent_runs)

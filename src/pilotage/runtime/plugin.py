"""The plugin `runtime`: runs for the agents of an application, and models that know the run they are called in."""

from __future__ import annotations

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


@Pod(lazy=True)
def agent_runs(
    app: Application,
    journal: IAgentJournal | None,
    states: IAgentStateRepository | None,
    signals: IAgentSignalRepository | None,
    clock: IClock | None,
    ids: IIds | None,
) -> AgentRuns:
    """The run service, for applications that have somewhere to keep runs."""
    if journal is None or states is None or signals is None:
        raise AgentPersistenceConfigurationError
    return AgentRuns(app, journal, states, signals, clock or SystemClock(), ids or SystemIds())


def initialize(app: Application) -> None:
    """Register the run service and the wrapper of models."""
    app.add(RunAwareModels, agent_runs)

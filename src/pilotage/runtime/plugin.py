"""The plugin `runtime`: runs for the agents of an application, and run-aware models."""

from __future__ import annotations

from collections.abc import AsyncIterator

from pilotage.agent.definition import AgentDefinition
from pilotage.agent.ports.model import IAgentModel
from pilotage.container.application import Application
from pilotage.container.pod import Pod
from pilotage.container.processing import IPostProcessor
from pilotage.runtime.children.delegation import LocalDelegate
from pilotage.runtime.delivery.relay import AgentEventRelay, EventSubscriptions
from pilotage.runtime.delivery.worker import AgentWorker, WorkerPorts
from pilotage.runtime.door.model import RunAwareModel
from pilotage.runtime.run.blueprint import ModelCheck
from pilotage.runtime.runner import (
    AgentRunner,
    RunnerFactory,
    attach_agent_runner,
    check_drivers,
    held_by,
    open_runs_by_calling,
)
from pilotage.runtime.runs import AgentRuns

_BEHIND_ALL_OTHERS = 1_000_000


class RunAwareModels(IPostProcessor):
    """Replaces every model with a run-aware one."""

    def post_process(self, pod: object) -> object:
        if isinstance(pod, IAgentModel) and not isinstance(pod, RunAwareModel):
            return RunAwareModel(pod)
        return pod


class RunningAgents(IPostProcessor):
    """Attaches a runner to every agent, so that calling an agent opens a run."""

    def __init__(self, runs: AgentRuns) -> None:
        self.runs = runs

    def post_process(self, pod: object) -> object:
        definition = AgentDefinition.get_or_none(type(pod))
        if definition is not None:
            held = held_by(pod)
            if definition.is_declarative:
                check_drivers(definition, held)
            self.runs.services.catalogs.attach(definition, pod, held.values())
            runner = AgentRunner(definition, pod, self.runs.opened)
            attach_agent_runner(pod, runner)
            open_runs_by_calling(pod, runner)
        return pod


@Pod()
async def agent_runs(agents: RunningAgents) -> AsyncIterator[AgentRuns]:
    """Provide the run service; when the application stops, its runs stop and can be resumed."""
    yield agents.runs
    await agents.runs.stop()


@Pod(order=_BEHIND_ALL_OTHERS)
def model_check(runs: AgentRuns) -> ModelCheck:
    """Provide the check of models against their agents."""
    return ModelCheck(runs.services)


def initialize(app: Application) -> None:
    """Register the run service and the post-processors of models and agents."""
    if app.contains(AgentRuns):
        return
    app.add(RunAwareModels, RunningAgents(AgentRuns(app)), agent_runs, RunnerFactory, LocalDelegate)
    app.add(model_check, EventSubscriptions, AgentEventRelay, WorkerPorts, AgentWorker)

"""The plugin `runtime`: runs for the agents of an application, and run-aware models."""

from __future__ import annotations

from collections.abc import AsyncIterator
from functools import lru_cache
from typing import cast

from pilotage.agent.definition import AgentDefinition
from pilotage.agent.ports.model import IAgentModel
from pilotage.agent.ports.runner import IAgentDelegate
from pilotage.agent.tools.context import guard_tools
from pilotage.container.application import Application
from pilotage.container.lifecycle import ILifecycle
from pilotage.container.pod import Pod
from pilotage.container.processing import IPostProcessor
from pilotage.runtime.children.delegation import LocalDelegate
from pilotage.runtime.delivery.relay import LAST, AgentEventRelay, EventSubscriptions
from pilotage.runtime.delivery.worker import AgentWorker, WorkerPorts
from pilotage.runtime.door.model import RunAwareModel
from pilotage.runtime.run.blueprint import check_budget, check_context, check_models
from pilotage.runtime.runner import (
    AgentRunner,
    RunnerFactory,
    attach_agent_runner,
    check_drivers,
    held_by,
    open_runs_by_calling,
)
from pilotage.runtime.runs import AgentRuns


class RunAwareModels(IPostProcessor):
    """Replaces every model with a run-aware one."""

    def post_process(self, pod: object) -> object:
        kind: type = type(pod)
        if _is_model(kind) and not isinstance(pod, RunAwareModel):
            return RunAwareModel(cast("IAgentModel", pod))
        return pod


@lru_cache(maxsize=1024)
def _is_model(kind: type) -> bool:
    """Return whether the pods of a class are models; cached, because the check is slow and every new pod needs it."""
    return issubclass(kind, IAgentModel)


class RunningAgents(IPostProcessor):
    """Attaches a runner to every agent, so that calling an agent opens a run, and guards the tools of all pods."""

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
        guard_tools(pod)
        return pod


@Pod(order=LAST)
class RunLifecycle(ILifecycle):
    """Checks the models when the application starts, and stops its runs when it stops.

    It depends on no store, tool or agent and is made after them, so its runs stop before any of them; pods that use
    the run service are made after it and stop first.
    """

    def __init__(self, agents: RunningAgents) -> None:
        self.runs = agents.runs

    async def start(self) -> None:
        self.runs.services.catalogs.start()
        check_models(self.runs.services)
        check_budget(self.runs.services)
        check_context(self.runs.services)

    async def stop(self) -> None:
        await self.runs.stop()


@Pod()
async def agent_runs(lifecycle: RunLifecycle) -> AsyncIterator[AgentRuns]:
    """Provide the run service; when the application stops, its runs stop and can be resumed."""
    runs = lifecycle.runs
    yield runs
    if runs.launcher.live_runs:  # started by a pod before the start or after the stop of the others
        await runs.stop()


def initialize(app: Application) -> None:
    """Register the run service and the post-processors of models and agents; the delegate, unless there is one."""
    if app.contains(AgentRuns):
        return
    app.add(RunAwareModels, RunningAgents(AgentRuns(app)), RunLifecycle, agent_runs, RunnerFactory)
    app.add(EventSubscriptions, AgentEventRelay, WorkerPorts, AgentWorker)
    if not app.contains(IAgentDelegate):
        app.add(LocalDelegate)

"""Which application a command works on, and starting as much of it as the command needs.

Reading starts nothing but the store: what is wrong with a model server, or with the code of an agent, must not keep
anybody from looking at runs. Acting starts the application as it is, but for its worker.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, Iterator
from contextlib import asynccontextmanager

from pilotage.agent.definition import AgentDefinition
from pilotage.agent.ports.journal import IAgentJournal
from pilotage.agent.ports.late_outcomes import IAgentLateOutcomes
from pilotage.agent.ports.repositories import (
    IAgentEvidenceRepository,
    IAgentSignalRepository,
    IAgentStateRepository,
)
from pilotage.agent.ports.sealing import IRecordSealer
from pilotage.cli.configured import APP, configured_application
from pilotage.cli.target import TargetNotFoundError, agent_in, applications_beside, load
from pilotage.container.application import Application
from pilotage.container.graph import Graph
from pilotage.container.node import Node, One
from pilotage.errors import CallerError
from pilotage.ids import IClock, IIds
from pilotage.models.default import default_model
from pilotage.runtime.runs import AgentRuns
from pilotage.runtime.throwaway import asks_for_model, with_pods_asked_for
from pilotage.runtime.worker.settings import WorkerSettings
from pilotage.values import value

_READING = (
    IAgentJournal,
    IAgentStateRepository,
    IAgentSignalRepository,
    IAgentEvidenceRepository,
    IAgentLateOutcomes,
    IRecordSealer,
    IClock,
    IIds,
)


@value
class Chosen:
    """An application, and what to write on a command line to mean it again; "" where nothing has to be written."""

    app: Application
    option: str = ""


def chosen_application(option: str | None) -> Chosen | None:
    """The application of the option, or of the project; None where neither names one.

    Raises:
        TargetNotFoundError: what is named is neither an application nor an agent.
    """
    target = option or configured_application()
    if target is None:
        return None
    found, written = load(target), f"--app {target}" if option else ""
    if isinstance(found, Application):
        return Chosen(found, written)
    definition = agent_in(found)
    if definition is None:
        raise TargetNotFoundError(f"{target!r} is a {type(found).__name__}, not an Application and no agent.")
    return _around(definition, target)


def application_to_act(option: str | None) -> Chosen:
    """The same, where one is needed.

    Raises:
        CallerError: nobody says which application is meant.
    """
    chosen = chosen_application(option)
    if chosen is None:
        raise CallerError(
            "this needs the application whose run it is: its agents and tools. Name it with --app MODULE:NAME, in "
            f"{APP}, or as app in [tool.pilotage] of pyproject.toml."
        )
    return chosen


def application_to_run(agent: str, option: str | None) -> tuple[Chosen, AgentDefinition]:
    """The application in which an agent runs, and the agent: `MODULE:CLASS`, or the name of one of its agents.

    It is the named one, the project's if it has the agent, the one beside the agent, or one that is made for it.

    Raises:
        TargetNotFoundError: there is no such agent.
    """
    if ":" not in agent:
        chosen = application_to_act(option)
        return chosen, _agent_named(agent, chosen.app)
    definition = agent_in(load(agent))
    if definition is None:
        raise TargetNotFoundError(f"{agent!r} is no agent. Name a class with @Agent above it.")
    named = chosen_application(option)
    if named is not None and (option or named.app.contains(definition.target)):
        return named, definition
    return _around(definition, agent), definition


def without_worker(app: Application) -> Application:
    """The application, which takes up no other runs while a command has it."""
    return app.bind(WorkerSettings, WorkerSettings(is_on=False)) if app.contains(WorkerSettings) else app


@asynccontextmanager
async def acting(app: Application) -> AsyncGenerator[AgentRuns, None]:
    """The runs of an application that is started for a command.

    Raises:
        ApplicationStartError: it cannot be.
        CallerError: it has no runs.
    """
    if not app.contains(AgentRuns):
        raise CallerError(
            f"application {app.name!r} has no runs. Load the plugins in it: app.load_plugins()."
        )
    async with without_worker(app):
        yield app.get(AgentRuns)


@asynccontextmanager
async def reading(app: Application) -> AsyncGenerator[AgentRuns, None]:
    """The runs of an application of which nothing but the store is started."""
    store = Application(app.name).add(*_needed_to_read(app.graph))
    async with store:
        runs = AgentRuns(store)
        try:
            yield runs
        finally:
            await runs.stop()


def _needed_to_read(graph: Graph) -> Iterator[object]:
    chosen = [graph.choose(port) for port in _READING]
    nodes = [each.node for each in chosen if isinstance(each, One)]
    needed: dict[Node, None] = dict.fromkeys([*graph.reachable(*nodes), *nodes])
    return (node.target for node in needed if not isinstance(node.target, Application))


def _around(definition: AgentDefinition, target: str) -> Chosen:
    """The one application beside the agent, or one that is made for it as `run` makes it, with the plugins."""
    beside = applications_beside(definition.target)
    if len(beside) == 1:
        ((found, app),) = beside
        return Chosen(app, f"--app {found}")
    app = Application(definition.agent_id).add(definition.target).load_plugins()
    if asks_for_model(with_pods_asked_for(app).graph):
        app.add(*default_model())
    return Chosen(app, f"--app {target}")


def _agent_named(name: str, app: Application) -> AgentDefinition:
    pods = [node.pod for node in app.graph.nodes]
    known = {pod.agent_id: pod for pod in pods if isinstance(pod, AgentDefinition)}
    by_class = {pod.target.__name__: pod for pod in known.values()}
    found = known.get(name) or by_class.get(name)
    if found is None:
        raise TargetNotFoundError(
            f"application {app.name!r} has no agent {name!r}. It has: {', '.join(known) or 'none'}."
        )
    return found

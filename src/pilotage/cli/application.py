"""Choose the application a command works on, and start as much of it as the command needs.

Reading starts nothing but the store: what is wrong with a model server, or with the code of an agent, must not keep
anybody from looking at runs. Acting starts the application as it is, but for its worker.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, Iterator
from contextlib import asynccontextmanager
from dataclasses import replace
from importlib.util import find_spec

from pilotage.adapters.sqlalchemy.plugin import database_settings, key_beside, sealer_beside_the_database
from pilotage.adapters.sqlalchemy.settings import URL, DatabaseSettings, sqlite_file
from pilotage.agent.definition import AgentDefinition
from pilotage.agent.ports.journal import IAgentJournal
from pilotage.agent.ports.repositories import (
    IAgentEvidenceRepository,
    IAgentLateOutcomes,
    IAgentSignalRepository,
    IAgentStateRepository,
)
from pilotage.agent.ports.sealing import IRecordSealer
from pilotage.cli.target import (
    APP,
    TargetNotFoundError,
    agent_in,
    applications_beside,
    configured_application,
    load,
)
from pilotage.container.application import Application
from pilotage.container.graph import Graph, Node, One
from pilotage.errors import CallerError, RunNotFoundError
from pilotage.ids import IClock, IIds
from pilotage.models.default import default_model
from pilotage.runtime.delivery.worker import WorkerSettings
from pilotage.runtime.quick import asks_for_model, with_pods_asked_for
from pilotage.runtime.runs import AgentRuns
from pilotage.values import value


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


@asynccontextmanager
async def acting(app: Application) -> AsyncGenerator[AgentRuns, None]:
    """The runs of an application that is started for a command; it takes up no other runs meanwhile.

    Raises:
        ApplicationStartError: it cannot be started.
        CallerError: it has no runs.
    """
    if not app.contains(AgentRuns):
        raise CallerError(
            f"application {app.name!r} has no runs. Load the plugins in it: app.load_plugins()."
        )
    if app.contains(WorkerSettings):
        app.bind(WorkerSettings, WorkerSettings(is_on=False))
    async with app:
        yield app.get(AgentRuns)


@asynccontextmanager
async def reading(app: Application | None) -> AsyncGenerator[AgentRuns, None]:
    """The runs of an application of which nothing but the store is started; None stands for the database alone.

    Looking changes nothing: no database and no key is made, and no tables are brought up to date.

    Raises:
        RunNotFoundError: there is no database yet.
        CallerError: no application is named, and nothing that reads a database is installed.
    """
    if app is None and find_spec("sqlalchemy") is None:
        raise CallerError(
            'no application is named, and a database is read by an extra: pip install "pilotage[sqlalchemy]".'
        )
    app = app or Application("pilotage").load_plugins()
    settings = database_of(app)
    if settings is not None:
        _refuse_missing(settings)
    store = Application(app.name).add(*_needed_to_read(app.graph, settings))
    if settings is not None:
        store.bind(DatabaseSettings, replace(settings, upgrades_at_start=False, opens_without_key=True))
    async with store:
        runs = AgentRuns(store)
        try:
            yield runs
        finally:
            await runs.stop()


def database_of(app: Application) -> DatabaseSettings | None:
    """The database of an application, as far as can be known before anything is made."""
    found = app.graph.choose(DatabaseSettings)
    target = app.graph.registered(found.node) if isinstance(found, One) else None
    if target is database_settings:
        return DatabaseSettings.from_environment()
    return target if isinstance(target, DatabaseSettings) else None


def _refuse_missing(settings: DatabaseSettings) -> None:
    file = sqlite_file(settings.url)
    if file is not None and not file.exists():
        raise RunNotFoundError(
            f"there is no database {str(file)!r} here, so no run was kept. Run this where your application runs, name "
            f"the application with --app MODULE:NAME, or the database in {URL}."
        )


def _needed_to_read(graph: Graph, settings: DatabaseSettings | None) -> Iterator[object]:
    chosen = [graph.choose(port) for port in _READING]
    nodes = [each.node for each in chosen if isinstance(each, One) and not _makes_key(each.node, settings)]
    needed: dict[Node, None] = dict.fromkeys([*graph.reachable(*nodes), *nodes])
    return (graph.registered(node) for node in needed if not node.provides(Application))


def _makes_key(node: Node, settings: DatabaseSettings | None) -> bool:
    """Whether it is a sealer that would make the key it does not find; what is sealed cannot be read then anyway."""
    file = sqlite_file(settings.url) if settings is not None else None
    return node.target is sealer_beside_the_database and file is not None and not key_beside(file).exists()

"""Choose the application of a command, and start as much of it as the command needs.

Commands that read start only the store: they work while a model server is down, or an agent cannot start. Commands that
change a run start the application, without its worker. The application is imported before the event loop starts.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncGenerator, Awaitable, Callable, Iterator, Sequence
from contextlib import AbstractAsyncContextManager, AsyncExitStack, asynccontextmanager
from dataclasses import replace
from importlib.util import find_spec
from typing import Concatenate, ParamSpec

from pilotage.adapters.sqlalchemy.plugin import (
    agent_memory,
    database_settings,
    key_beside,
    sealer_beside_the_database,
)
from pilotage.adapters.sqlalchemy.settings import URL, DatabaseSettings, sqlite_file
from pilotage.agent.definition import AgentDefinition
from pilotage.agent.ports.journal import IAgentJournal
from pilotage.agent.ports.leases import IAgentLeases
from pilotage.agent.ports.memory import IAgentMemory
from pilotage.agent.ports.repositories import (
    IAgentEvidenceRepository,
    IAgentLateOutcomes,
    IAgentSignalRepository,
    IAgentStateRepository,
)
from pilotage.agent.ports.sealing import IRecordSealer
from pilotage.agent.principal import Principal
from pilotage.cli.options import CommandOptions
from pilotage.cli.screen import Screen, ScreenLogHandler
from pilotage.cli.spinner import Spinner
from pilotage.cli.target import (
    APP,
    TargetNotFoundError,
    agent_in,
    applications_beside,
    configured_application,
    load,
)
from pilotage.cli.text import Hints
from pilotage.container.application import Application
from pilotage.container.graph import Graph, Node, One
from pilotage.errors import CallerError, RunNotFoundError
from pilotage.ids import IClock, IIds
from pilotage.models.default import default_model
from pilotage.runtime.delivery.worker import WorkerSettings
from pilotage.runtime.quick import asks_for_model, with_pods_asked_for
from pilotage.runtime.runs import AgentRuns
from pilotage.values import value

P = ParamSpec("P")


@value
class ChosenApplication:
    """An application, and the option that names it in further commands; "" if none is needed."""

    app: Application
    option: str = ""


@value
class Session:
    """The parts that a command on runs works with."""

    runs: AgentRuns
    options: CommandOptions
    screen: Screen
    hints: Hints

    @property
    def principal(self) -> Principal:
        """The principal that the command acts for."""
        return self.options.principal


Handler = Callable[Concatenate[Session, P], Awaitable[int]]


def read_runs(options: CommandOptions, handler: Handler[P], /, *args: P.args, **kwargs: P.kwargs) -> int:
    """Call a handler with the runs of the named application, else of the database of the environment."""
    chosen = chosen_application(options.app)
    started = reading(chosen.app if chosen else None)
    return _called(options, chosen, started, handler, *args, **kwargs)


def change_runs(options: CommandOptions, handler: Handler[P], /, *args: P.args, **kwargs: P.kwargs) -> int:
    """Call a handler with the runs of the named application, which is started for it.

    Raises:
        CallerError: no application is named.
    """
    chosen = application_to_change(options.app)
    return in_application(options, chosen, handler, *args, **kwargs)


def in_application(
    options: CommandOptions,
    chosen: ChosenApplication,
    handler: Handler[P],
    /,
    *args: P.args,
    **kwargs: P.kwargs,
) -> int:
    """Call a handler with the runs of an application, which is started for it."""
    return _called(options, chosen, acting(chosen.app), handler, *args, **kwargs)


def _called(
    options: CommandOptions,
    chosen: ChosenApplication | None,
    started: AbstractAsyncContextManager[AgentRuns],
    handler: Handler[P],
    /,
    *args: P.args,
    **kwargs: P.kwargs,
) -> int:
    screen, hints = Screen.of_process(), options.hints(chosen.option if chosen else "")
    logging.basicConfig(handlers=[ScreenLogHandler(screen)])  # unless the application has configured its log

    async def call() -> int:
        spinner = Spinner(screen)
        spinner.wait_for("starting")
        async with AsyncExitStack() as stack:
            async with spinner.running():
                runs = await stack.enter_async_context(started)
            return await handler(Session(runs, options, screen, hints), *args, **kwargs)

    return asyncio.run(call())


def chosen_application(option: str | None) -> ChosenApplication | None:
    """Return the application of the option, else of the project; None if neither names one.

    Raises:
        TargetNotFoundError: the name is neither an application nor an agent.
    """
    target = option or configured_application()
    if target is None:
        return None
    found, written = load(target), f"--app {target}" if option else ""
    if isinstance(found, Application):
        return ChosenApplication(found, written)
    definition = agent_in(found)
    if definition is None:
        raise TargetNotFoundError(
            f"{target!r} is of type {type(found).__name__}: neither an Application nor an agent."
        )
    return _around(definition, target)


def application_to_change(option: str | None) -> ChosenApplication:
    """Return the application of the option, else of the project.

    Raises:
        CallerError: neither names one.
    """
    chosen = chosen_application(option)
    if chosen is None:
        raise CallerError(
            "this needs the application of the run, with its agents and tools. Name it with --app MODULE:NAME, in "
            f"{APP}, or as app in [tool.pilotage] of pyproject.toml."
        )
    return chosen


def application_to_serve(target: str | None, option: str | None) -> Application:
    """Return the application that a command names as an argument or with --app, else that of the project.

    Raises:
        CallerError: none is named, or it is named twice.
    """
    if target is not None and option is not None:
        raise CallerError(
            f"the application is named twice: {target!r} and --app {option}. Leave one of them out."
        )
    chosen = chosen_application(target or option)
    if chosen is None:
        raise CallerError(
            f"no application is named. Write MODULE:NAME, for example shop.main:app, or name it in {APP}, or as app in "
            "[tool.pilotage] of pyproject.toml."
        )
    return chosen.app


def application_to_run(agent: str, option: str | None) -> tuple[ChosenApplication, AgentDefinition]:
    """Return an agent and its application: `MODULE:CLASS`, `FILE.py:CLASS`, or an agent's name in the application.

    Raises:
        TargetNotFoundError: there is no such agent.
    """
    if agent.endswith(".py"):
        raise TargetNotFoundError(f"{agent!r} is a file. Name the agent in it, for example {agent}:MyAgent.")
    if ":" not in agent:
        chosen = application_to_change(option)
        return chosen, _agent_named(agent, chosen.app)
    definition = agent_in(load(agent))
    if definition is None:
        raise TargetNotFoundError(f"{agent!r} is no agent. Name a class with @Agent above it.")
    named = chosen_application(option)
    if named is not None and (option or named.app.contains(definition.target)):
        return named, definition
    return _around(definition, agent), definition


def _around(definition: AgentDefinition, target: str) -> ChosenApplication:
    """Return the one application in the agent's module, else one made for it as `run` makes it, with the plugins."""
    beside = applications_beside(definition.target, target)
    if len(beside) == 1:
        ((found, app),) = beside
        return ChosenApplication(app, f"--app {found}")
    app = Application(definition.agent_id).add(definition.target).load_plugins()
    if asks_for_model(with_pods_asked_for(app).graph):
        app.add(*default_model())
    return ChosenApplication(app, f"--app {target}")


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


_PORTS_OF_RUNS = (
    IAgentJournal,
    IAgentStateRepository,
    IAgentSignalRepository,
    IAgentEvidenceRepository,
    IAgentLateOutcomes,
    IAgentLeases,
    IRecordSealer,
    IClock,
    IIds,
)


@asynccontextmanager
async def acting(app: Application) -> AsyncGenerator[AgentRuns, None]:
    """Start an application for a command, without its worker, and yield its runs.

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
    """Start the store of an application, and yield its runs; None is the database of the environment.

    Nothing is changed: no database and no key is made, and tables are not upgraded.

    Raises:
        RunNotFoundError: there is no database yet.
        CallerError: no application is named, and the extra for databases is not installed.
    """
    async with _store(app, _PORTS_OF_RUNS, is_changed=False) as store:
        runs = AgentRuns(store)
        try:
            yield runs
        finally:
            await runs.stop()


@asynccontextmanager
async def memory_of(app: Application | None, *, is_changed: bool) -> AsyncGenerator[IAgentMemory, None]:
    """Start the memory of an application, and yield it; None is the database of the environment.

    Raises:
        CallerError: the application has no memory, or there is no database yet.
    """
    app = app or _from_environment()
    if not app.contains(IAgentMemory) and database_of(app) is not None:
        app.add(agent_memory)  # agents that use no memory any more may have left some
    if not app.contains(IAgentMemory):
        raise CallerError(f"application {app.name!r} has no memory: nothing in it provides IAgentMemory.")
    async with _store(app, (IAgentMemory, IRecordSealer), is_changed=is_changed) as store:
        yield store.get(IAgentMemory)


@asynccontextmanager
async def _store(
    app: Application | None, ports: Sequence[type[object]], *, is_changed: bool
) -> AsyncGenerator[Application, None]:
    """Start the pods that provide these ports, and what they need; unless `is_changed`, no key and no table is made."""
    app = app or _from_environment()
    settings = database_of(app)
    if settings is not None:
        _refuse_missing(settings)
    nodes = _needed_by(app.graph, ports, None if is_changed else settings)
    store = Application(app.name).add(*nodes)
    if settings is not None and not is_changed:
        store.bind(DatabaseSettings, replace(settings, upgrades_at_start=False, opens_without_key=True))
    async with store:
        yield store


def _from_environment() -> Application:
    if find_spec("sqlalchemy") is None:
        raise CallerError(
            'no application is named, and a database is read by an extra: pip install "pilotage[sqlalchemy]".'
        )
    return Application("pilotage").load_plugins()


def database_of(app: Application) -> DatabaseSettings | None:
    """Return the database settings of an application, as far as they are known before it starts."""
    found = app.graph.choose(DatabaseSettings)
    target = app.graph.registered(found.node) if isinstance(found, One) else None
    if target is database_settings:
        return DatabaseSettings.from_environment()
    return target if isinstance(target, DatabaseSettings) else None


def _refuse_missing(settings: DatabaseSettings) -> None:
    file = sqlite_file(settings.url)
    if file is not None and not file.exists():
        raise RunNotFoundError(
            f"there is no database {str(file)!r} here, so there are no runs. Run this where your application runs, "
            f"name the application with --app MODULE:NAME, or the database in {URL}."
        )


def _needed_by(
    graph: Graph, ports: Sequence[type[object]], settings: DatabaseSettings | None
) -> Iterator[object]:
    chosen = [graph.choose(port) for port in ports]
    nodes = [each.node for each in chosen if isinstance(each, One) and not _makes_key(each.node, settings)]
    needed: dict[Node, None] = dict.fromkeys([*graph.reachable(*nodes), *nodes])
    return (graph.registered(node) for node in needed if not node.provides(Application))


def _makes_key(node: Node, settings: DatabaseSettings | None) -> bool:
    """Return whether a node is a sealer that would make a missing key; sealed records cannot be read then anyway."""
    file = sqlite_file(settings.url) if settings is not None else None
    return node.target is sealer_beside_the_database and file is not None and not key_beside(file).exists()

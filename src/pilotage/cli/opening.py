"""Starting as much of an application as a command needs.

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
from pilotage.agent.ports.journal import IAgentJournal
from pilotage.agent.ports.repositories import (
    IAgentEvidenceRepository,
    IAgentLateOutcomes,
    IAgentSignalRepository,
    IAgentStateRepository,
)
from pilotage.agent.ports.sealing import IRecordSealer
from pilotage.container.application import Application
from pilotage.container.graph import Graph, Node, One
from pilotage.errors import CallerError, RunNotFoundError
from pilotage.ids import IClock, IIds
from pilotage.runtime.delivery.worker import WorkerSettings
from pilotage.runtime.runs import AgentRuns

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
        store.bind(DatabaseSettings, replace(settings, upgrades_at_start=False))
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

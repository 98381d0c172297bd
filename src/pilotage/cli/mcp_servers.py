"""The MCP servers of an application, started for a command without the rest of it: an agent may be broken."""

from __future__ import annotations

import logging
from collections.abc import AsyncGenerator, Awaitable, Callable, Generator, Iterator, Sequence
from contextlib import asynccontextmanager, contextmanager
from importlib.util import find_spec
from typing import Any, TypeAlias, TypeVar

from pilotage.adapters.sqlalchemy.settings import sqlite_file
from pilotage.agent.ports.permissions import ISecrets
from pilotage.agent.ports.sealing import IRecordSealer
from pilotage.agent.ports.tool_pins import IToolPins
from pilotage.cli.application import database_of
from pilotage.container.application import Application
from pilotage.container.graph import Node, One
from pilotage.errors import CallerError, PilotageError, StartupError
from pilotage.values import value

T = TypeVar("T")
Server: TypeAlias = Any
"""A `McpServer`: its adapter is an extra."""
_PORTS: Sequence[type[object]] = (IToolPins, IRecordSealer, ISecrets)


@value
class BrokenServer:
    """A server that cannot be used, and why."""

    name: str
    problem: PilotageError


def has_servers(app: Application) -> bool:
    """Return whether an application has MCP servers."""
    return bool(_nodes(app))


async def with_servers(
    app: Application,
    names: Sequence[str],
    work: Callable[[Server], Awaitable[T]],
    *,
    only_looks: bool = True,
) -> list[T | BrokenServer]:
    """Return what a function gives for each server, or for those of these names; one after the other.

    With `only_looks` nothing is pinned, and no database is made.

    Raises:
        CallerError: the application has no servers, or none of a name.
    """
    with _without_warnings():
        return await _with_servers(app, names, work, only_looks=only_looks)


async def _with_servers(
    app: Application,
    names: Sequence[str],
    work: Callable[[Server], Awaitable[T]],
    *,
    only_looks: bool,
) -> list[T | BrokenServer]:
    nodes = _nodes(app)
    if not nodes:
        raise CallerError(
            f"application {app.name!r} has no MCP servers. Add one: app.add(McpServer(...)), or name one in "
            "PILOTAGE_MCP_<NAME>_COMMAND or PILOTAGE_MCP_<NAME>_URL."
        )
    found: list[T | BrokenServer] = []
    known: list[str] = []
    for node in nodes:
        name = _name_of(app, node)
        if name is not None and names and name not in names:
            known.append(name)
            continue
        try:
            async with _started(app, node, only_looks=only_looks) as servers:
                for server in servers:
                    known.append(server.name)
                    if not names or server.name in names:
                        found.append(await work(server))
        except StartupError as error:
            broken = str(getattr(error, "server", None) or name or node.label)
            known.append(broken)
            found.append(BrokenServer(broken, error))
    if unknown := [name for name in names if name not in known]:
        listed = ", ".join(map(repr, known))
        raise CallerError(f"application {app.name!r} has no MCP server {unknown[0]!r}. It has: {listed}.")
    return found


@contextmanager
def _without_warnings() -> Generator[None]:
    """Hide the warnings of the adapter: commands show what is off, and what cannot be used."""
    log = logging.getLogger("pilotage.adapters.mcp")
    level = log.level
    log.setLevel(logging.ERROR)
    try:
        yield
    finally:
        log.setLevel(level)


def _nodes(app: Application) -> Sequence[Node]:
    if find_spec("mcp") is None or find_spec("httpx") is None:
        return ()
    from pilotage.adapters.mcp import McpServer, McpServers  # noqa: PLC0415 - loads the SDK

    return (*app.graph.providers(McpServer), *app.graph.providers(McpServers))


def _name_of(app: Application, node: Node) -> str | None:
    """Return the name of a server that is ready; others have theirs when they are made."""
    found: object = getattr(app.graph.registered(node), "name", None)
    return found if isinstance(found, str) else None


@asynccontextmanager
async def _started(
    app: Application, node: Node, *, only_looks: bool
) -> AsyncGenerator[Sequence[Server], None]:
    from pilotage.adapters.mcp import McpServer, McpServers  # noqa: PLC0415 - loads the SDK
    from pilotage.adapters.mcp.acceptance import ToolsBeside  # noqa: PLC0415

    needed = _needed_by(app, node, has_pins=not (only_looks and _has_no_database(app)))
    alone = Application(app.name).add(*needed, ToolsBeside.of(app, only_looks=only_looks))
    async with alone:
        yield [
            *alone.get_all(McpServer),
            *(each for one in alone.get_all(McpServers) for each in one.servers),
        ]


def _has_no_database(app: Application) -> bool:
    settings = database_of(app)
    file = sqlite_file(settings.url) if settings is not None else None
    return file is not None and not file.exists()


def _needed_by(app: Application, node: Node, *, has_pins: bool) -> Iterator[object]:
    graph = app.graph
    chosen = [graph.choose(port) for port in (_PORTS if has_pins else (ISecrets,))]
    nodes = [node, *(each.node for each in chosen if isinstance(each, One))]
    needed: dict[Node, None] = dict.fromkeys([*graph.reachable(*nodes), *nodes])
    return (graph.registered(each) for each in needed if not each.provides(Application))

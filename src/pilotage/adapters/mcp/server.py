"""`McpServer`: the tools of an MCP server as tools of the agents that it is injected into."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any, Unpack

from pilotage.adapters.mcp.calls import CalledTool, StartedServer
from pilotage.adapters.mcp.catalog import Definition, declared, offered, wire_name
from pilotage.adapters.mcp.connection import McpConnection, RequestFailedError
from pilotage.adapters.mcp.errors import McpStartError
from pilotage.adapters.mcp.lines import McpLine, open_line
from pilotage.adapters.mcp.settings import McpServerOptions, McpServerSettings, refuse_unreachable
from pilotage.adapters.mcp.tasks import OpenTasks
from pilotage.agent.cancellation import AgentCancellationCleanupResult, AgentCancellationRequest
from pilotage.agent.ports.handlers import IAgentCancellationCleanup
from pilotage.agent.ports.permissions import ISecrets
from pilotage.agent.principal import RunContext
from pilotage.agent.tools.catalog import AgentToolCatalog, AgentToolDescriptor
from pilotage.agent.tools.declare import ToolOptions
from pilotage.agent.tools.described import IAgentToolProvider, described_tool
from pilotage.agent.tools.metadata import Idempotency
from pilotage.container.lifecycle import ILifecycle
from pilotage.container.processing import IContainer, IContainerAware
from pilotage.errors import AgentDefinitionError, ToolError
from pilotage.safety.fields import SecretRef

_NO_TOOLS = AgentToolCatalog()


class McpServer(IAgentToolProvider, IAgentCancellationCleanup, ILifecycle, IContainerAware):
    """A server of tools: a process (`command`) or an address (`url`).

    It connects when the application starts, and stays connected. Its tools have the name of the server before their
    own. What they do is declared by `tools`; one that is not declared counts as one that may destroy and may not be
    repeated, so that a person is asked first. The hints of a server raise a risk, and lower it only if it is trusted.
    Results and descriptions are untrusted, unless `reads_untrusted=False`.

    The options are the fields of `McpServerSettings`, which can be given instead of the name. `auth` is an
    authentication of the SDK for HTTP, such as OAuth. `transport` makes a transport of the SDK, or gives a server of
    the SDK in this process.

    Raises:
        AgentDefinitionError: a setting is wrong.
    """

    def __init__(
        self,
        name: str | McpServerSettings,
        *,
        auth: Any = None,
        transport: Callable[[], Any] | None = None,
        **options: Unpack[McpServerOptions],
    ) -> None:
        self.settings = McpServerSettings(name, **options) if isinstance(name, str) else name
        self._auth, self._transport = auth, transport
        self._container: IContainer | None = None
        self._connection: McpConnection | None = None
        self._catalog = _NO_TOOLS
        self._definitions: tuple[Definition, ...] = ()
        self._fresh_until = float("inf")
        self._secrets: tuple[str, ...] = ()

    def set_container(self, container: IContainer) -> None:
        self._container = container

    @property
    def name(self) -> str:
        """The name of the server."""
        return self.settings.name

    @property
    def definitions(self) -> tuple[Definition, ...]:
        """The tools on offer, as the server listed them."""
        return self._definitions

    @property
    def is_connected(self) -> bool:
        """Whether there is a connection now."""
        return self._connection is not None and self._connection.is_connected

    @property
    def tool_catalog(self) -> AgentToolCatalog:
        """The tools on offer; a list that is not fresh any more is asked for again, for the runs that come later."""
        if self._connection is not None and self._fresh_until < _now():
            self._fresh_until = float("inf")
            self.list_again()
        return self._catalog

    def list_again(self) -> None:
        """Ask for the list of tools, for the runs that come later."""
        if self._connection is not None:
            self._connection.list_again()

    async def start(self) -> None:
        """Connect.

        Raises:
            McpStartError: there is no connection, or its tools cannot be offered.
        """
        if self._transport is None:
            refuse_unreachable(self.settings)
        self._definitions, self._catalog = (), _NO_TOOLS
        self._connection = McpConnection(self.settings, self._open, self._take)
        self._open_tasks = OpenTasks(self._connection)
        await self._connection.start()

    async def stop(self) -> None:
        """Disconnect, and end the process of the server."""
        connection, self._connection = self._connection, None
        if connection is not None:
            await connection.stop()

    async def _open(self, on_end: Callable[[str], None]) -> McpLine:
        if self._transport is not None:
            return McpLine(self._transport(), marks_writes=False)
        settings = self.settings
        token = None if settings.token is None else await self._resolved(settings.token)
        environment = {name: await self._resolved(each) for name, each in settings.environment.items()}
        headers = {name: await self._resolved(each) for name, each in settings.headers.items()}
        resolved = replace(settings, environment=environment, headers=headers, token=token)
        return open_line(resolved, on_end, auth=self._auth)

    async def _resolved(self, given: SecretRef | str) -> str:
        if not isinstance(given, SecretRef):
            return given
        secrets = self._container.get_or_none(ISecrets) if self._container is not None else None
        if secrets is None:
            raise McpStartError(
                self.name,
                f"it needs the secret {given.id!r}, and nothing provides ISecrets. Add it: app.add(...).",
            )
        found = await secrets.resolve(given, RunContext())
        if found not in self._secrets:
            self._secrets = (*self._secrets, found)
        return found

    async def clean_up(
        self, context: RunContext, request: AgentCancellationRequest
    ) -> AgentCancellationCleanupResult | None:
        """Cancel the task that a call of a cancelled run waits for; None where there is none."""
        about: Any = {"target_kind": request.target_kind, "target_ref": request.target_ref}
        if self._connection is None:
            return None
        try:
            is_cancelled = await self._open_tasks.cancel(request.target_ref)
        except (RequestFailedError, ToolError) as error:
            why = f"the task at MCP server {self.name!r} cannot be cancelled: {error}"
            return AgentCancellationCleanupResult.failed(error_code="mcp_task", message=why, **about)
        return AgentCancellationCleanupResult.succeeded(**about) if is_cancelled else None

    def _take(self, listed: Sequence[Definition], fresh_seconds: float) -> None:
        """Take a list of tools: for the runs that begin from now on, if anything of it is new."""
        on_offer = offered(self.settings, listed)
        self._fresh_until = _now() + fresh_seconds
        if [each.digest for each in on_offer] != [
            each.digest for each in self._definitions
        ] or not self._catalog:
            self._definitions, self._catalog = (
                on_offer,
                AgentToolCatalog(tuple(map(self._described, on_offer))),
            )

    def _described(self, definition: Definition) -> AgentToolDescriptor:
        settings, connection = self.settings, self._connection
        if connection is None:
            raise AgentDefinitionError(f"MCP server {self.name!r} is not started.")
        tool, wire = declared(settings, definition), wire_name(settings.tool_prefix, definition.name)
        server = StartedServer(settings, connection, self._open_tasks, self._secrets)
        called = CalledTool(server, definition, tool, wire)
        options = ToolOptions(
            name=wire,
            description=definition.description or f"The tool {definition.name} of {settings.name}.",
            permissions=tool.permissions,
            effects=tool.effects,
            # What may not be repeated is the request inside of it.
            idempotency=Idempotency.IDEMPOTENT,
            approval=tool.approval,
            reads_untrusted=settings.reads_untrusted
            if tool.reads_untrusted is None
            else tool.reads_untrusted,
            reads_private=tool.reads_private,
            accepts_untrusted=tool.accepts_untrusted,
        )
        return described_tool(
            called.call,
            options,
            owner=McpServer,
            input_schema=definition.input_schema,
            output_schema=definition.output_schema or {},
            returns_media=True,
        )


class McpServers(IAgentToolProvider, ILifecycle, IContainerAware):
    """Several servers as one: their tools together, for agents that take whatever the settings name."""

    def __init__(self, servers: Sequence[McpServer]) -> None:
        self.servers = tuple(servers)
        self._parts: tuple[AgentToolCatalog, ...] = ()
        self._catalog = _NO_TOOLS

    def set_container(self, container: IContainer) -> None:
        for each in self.servers:
            each.set_container(container)

    @property
    def tool_catalog(self) -> AgentToolCatalog:
        """The tools of all servers; the same object while none of them changes."""
        parts = tuple(each.tool_catalog for each in self.servers)
        if len(parts) != len(self._parts) or any(
            new is not old for new, old in zip(parts, self._parts, strict=True)
        ):
            self._parts, self._catalog = parts, AgentToolCatalog.merge(*parts)
        return self._catalog

    async def start(self) -> None:
        """Connect to all servers at the same time.

        Raises:
            McpStartError: one that is required cannot be used.
        """
        started = await asyncio.gather(*(each.start() for each in self.servers), return_exceptions=True)
        failed = [each for each in started if isinstance(each, BaseException)]
        if failed:
            await self.stop()
            raise failed[0]

    async def stop(self) -> None:
        """Disconnect from all servers."""
        await asyncio.gather(*(each.stop() for each in self.servers))


def _now() -> float:
    return asyncio.get_running_loop().time()

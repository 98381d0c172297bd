"""`McpServer`: the tools of an MCP server as tools of the agents that it is injected into."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from typing import Any, TypeVar, Unpack

from pilotage.adapters.mcp.acceptance import (
    ToolsBeside,
    UsableTool,
    listed_of,
    names_taken,
    offered_tools,
    words_about_off,
)
from pilotage.adapters.mcp.calls import CalledTool, ChangedTool, StartedServer
from pilotage.adapters.mcp.catalog import Definition, declared, offered, wire_name
from pilotage.adapters.mcp.connection import McpConnection, RequestFailedError
from pilotage.adapters.mcp.errors import McpStartError, McpUnavailableError
from pilotage.adapters.mcp.lines import McpLine, open_line
from pilotage.adapters.mcp.settings import McpServerOptions, McpServerSettings, refuse_unreachable
from pilotage.adapters.mcp.tasks import OpenTasks
from pilotage.agent.cancellation import AgentCancellationCleanupResult, AgentCancellationRequest
from pilotage.agent.ports.handlers import IAgentCancellationCleanup
from pilotage.agent.ports.permissions import ISecrets
from pilotage.agent.ports.tool_pins import IToolPins
from pilotage.agent.principal import RunContext
from pilotage.agent.tool_acceptance import ToolAcceptance
from pilotage.agent.tool_review import ReviewedTool, ToolReview
from pilotage.agent.tools.catalog import AgentToolCatalog, AgentToolDescriptor
from pilotage.agent.tools.context import AgentToolRuntimeContext
from pilotage.agent.tools.declare import ToolOptions
from pilotage.agent.tools.described import IAgentToolProvider, described_tool
from pilotage.agent.tools.metadata import Idempotency, ToolApprovalRequirement
from pilotage.container.application import Application
from pilotage.container.lifecycle import ILifecycle
from pilotage.container.processing import IContainer, IContainerAware
from pilotage.errors import AgentDefinitionError, CallerError, ToolError
from pilotage.jsonvalue import JsonObject
from pilotage.safety.fields import SecretRef
from pilotage.schema.validation import misfit_of

T = TypeVar("T")

_LOG = logging.getLogger("pilotage.adapters.mcp")
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
        self._offered: tuple[UsableTool, ...] = ()
        self._acceptance: ToolAcceptance | None = None
        self._review: ToolReview | None = None
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
        return tuple(each.definition for each in self._offered)

    @property
    def review(self) -> ToolReview:
        """All tools that the server lists: which are offered, which are off, and why.

        Raises:
            McpUnavailableError: it has listed none yet.
        """
        if self._review is None:
            raise McpUnavailableError(f"MCP server {self.name!r} is not connected: no tools are listed yet.")
        return self._review

    async def accept(self, tools: Sequence[ReviewedTool], *, by: str | None) -> None:
        """Accept tools of a review as they were then: for the runs that begin from now on, in all processes.

        Raises:
            CallerError: one of them cannot be accepted.
        """
        await self._accepting.accept(tools, by=by)
        if self._connection is not None:
            self._connection.list_again()

    async def call(self, tool: str, arguments: JsonObject, *, key: str) -> Any:
        """Call an accepted tool outside of any run, and return its result. Nothing is recorded or asked.

        Raises:
            CallerError: the tool is not offered, or the arguments do not fit.
            ToolError: the call failed for certain.
            McpUnknownOutcomeError: it may have taken effect.
        """
        found = next((each for each in self._offered if each.definition.name == tool), None)
        connection = self._connection
        if found is None or found.is_changed or connection is None:
            reviewed = self.review.named(tool)
            known = ", ".join(each.name for each in self.review.offered) or "none"
            why = f"is off: {reviewed.why}" if reviewed is not None else f"is not listed. On offer: {known}"
            raise CallerError(f"tool {tool!r} of MCP server {self.name!r} {why}.")
        definition = found.definition
        if (misfit := misfit_of(arguments, definition.input_schema)) is not None:
            raise CallerError(f"the arguments of {tool!r} do not fit: {misfit}.")
        known_tool, wire = declared(self.settings, definition), wire_name(self.settings.tool_prefix, tool)
        called = CalledTool(self._started(connection), definition, known_tool, wire)
        return await called.call(arguments, AgentToolRuntimeContext(key, key, key, wire, key))

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
        self._offered, self._catalog, self._review = (), _NO_TOOLS, None
        beside, pins = self._provided(ToolsBeside), self._provided(IToolPins)
        only_looks = beside is not None and beside.only_looks
        self._acceptance = ToolAcceptance(self.name, self.settings.accept, pins, only_looks=only_looks)
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
        secrets = self._provided(ISecrets)
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

    async def _take(self, listed: Sequence[Definition], fresh_seconds: float) -> None:
        """Take a list of tools: for the runs that begin from now on, if anything of it is new."""
        usable = offered(self.settings, listed)
        review = await self._reviewed(usable)
        self._fresh_until = _now() + fresh_seconds
        if self._review != review and (words := words_about_off(self.settings, review)) is not None:
            _LOG.warning("%s", words)
        self._review = review
        found = offered_tools(self.settings, usable, review)
        if found != self._offered or not self._catalog:
            self._offered, self._catalog = found, AgentToolCatalog(tuple(map(self._described, found)))

    async def _reviewed(self, usable: Sequence[Definition]) -> ToolReview:
        """Return which tools are offered.

        Raises:
            McpStartError: it cannot be read what was accepted.
        """
        pins, own, app = self._provided(IToolPins), self._provided(ToolsBeside), self._provided(Application)
        try:
            others = () if pins is None else await pins.list_pins()
            if own is None and app is not None:
                own = ToolsBeside.of(app)
            return await self._accepting.review(
                list(map(listed_of, usable)),
                taken=names_taken(self.name, own, others),
                offered_as=partial(wire_name, self.settings.tool_prefix),
            )
        except (CallerError, OSError) as error:
            raise McpStartError(
                self.name, f"it cannot be read what was accepted of its tools: {error}"
            ) from error

    @property
    def _accepting(self) -> ToolAcceptance:
        if self._acceptance is None:
            raise AgentDefinitionError(f"MCP server {self.name!r} is not started.")
        return self._acceptance

    def _provided(self, type_: Callable[..., T]) -> T | None:
        return None if self._container is None else self._container.get_or_none(type_)

    def _started(self, connection: McpConnection) -> StartedServer:
        return StartedServer(self.settings, connection, self._open_tasks, self._secrets)

    def _described(self, offer: UsableTool) -> AgentToolDescriptor:
        settings, connection = self.settings, self._connection
        if connection is None:
            raise AgentDefinitionError(f"MCP server {self.name!r} is not started.")
        definition, shown = offer.definition, offer.shown
        tool, wire = declared(settings, definition), wire_name(settings.tool_prefix, definition.name)
        kind = ChangedTool if offer.is_changed else CalledTool
        called = kind(self._started(connection), definition, tool, wire)
        options = ToolOptions(
            name=wire,
            description=shown.description or f"The tool {definition.name} of {settings.name}.",
            permissions=tool.permissions,
            effects=tool.effects,
            # What may not be repeated is the request inside of it.
            idempotency=Idempotency.IDEMPOTENT,
            approval=ToolApprovalRequirement.REQUIRED if offer.is_changed else tool.approval,
            prompt=offer.question,
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
            input_schema=shown.input_schema,
            output_schema=shown.output_schema or {},
            returns_media=True,
            version=listed_of(definition).digest,
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

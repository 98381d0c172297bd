"""The MCP server of an application: its handlers over `AgentRuns`, the same for every transport and both eras."""

from __future__ import annotations

import hmac
import os
from collections.abc import Awaitable, Callable
from importlib.metadata import PackageNotFoundError, version
from typing import Any, TypeAlias, TypeVar

import mcp_types as types
from mcp.server.caching import CacheHint
from mcp.server.context import ServerRequestContext
from mcp.server.lowlevel.server import Server
from mcp.server.request_state import RequestStateBoundary, RequestStateSecurity

from pilotage.adapters.mcp_server.callers import principal_of
from pilotage.adapters.mcp_server.calls import McpCalls
from pilotage.adapters.mcp_server.catalog import KEY, Catalog
from pilotage.adapters.mcp_server.errors import TASKS, protocol_error, store_unreachable
from pilotage.adapters.mcp_server.exports import McpExports
from pilotage.adapters.mcp_server.prompts import Prompts
from pilotage.adapters.mcp_server.resources import Resources
from pilotage.adapters.mcp_server.tasks import TaskMethods
from pilotage.agent.principal import LOCAL, Principal
from pilotage.container.application import Application
from pilotage.errors import ApplicationStateError, PilotageError
from pilotage.runtime.journal.interruptions import StoreUnavailable
from pilotage.runtime.runs import AgentRuns

Context: TypeAlias = ServerRequestContext[Any, Any]
ParamsT = TypeVar("ParamsT")
ResultT = TypeVar("ResultT")
_STATE = b"pilotage mcp request state"
_LISTS = CacheHint(ttl_ms=60_000, scope="private")


def mcp_server(
    app: Application, exports: McpExports | None = None, *, principal: Principal = LOCAL
) -> Server[Any]:
    """Return the MCP server of a started application.

    `principal` is the one of transports without authentication: standard input and output, memory.

    Raises:
        ApplicationStateError: the application is not started.
        AgentDefinitionError: an agent has a name that no tool can have, or there is no such agent.
    """
    if not app.is_started:
        raise ApplicationStateError(
            f"application {app.name!r} is not started. Enter it first: async with app: ..."
        )
    return _Handlers(app, exports or app.get_or_none(McpExports) or McpExports(), principal).server()


class _Handlers:
    """The handlers of the methods of the protocol."""

    def __init__(self, app: Application, exports: McpExports, principal: Principal) -> None:
        self._runs = app.get(AgentRuns)
        self._exports = exports
        self._principal = principal
        self._name = exports.name or app.name
        self._catalog = Catalog(self._runs.services, exports)
        self._calls = McpCalls(self._runs, self._catalog, exports)

    def server(self) -> Server[Any]:
        """Return the server with all handlers and the seal of its states."""
        server: Server[Any] = Server(
            self._name,
            version=_version(),
            instructions=self._exports.instructions,
            cache_hints={"tools/list": _LISTS, "prompts/list": _LISTS, "resources/templates/list": _LISTS},
            get_tool_input_schema=self._catalog.input_schema,
            on_list_tools=self._list_tools,
        )
        for method, (params, handler) in self._methods().items():
            server.add_request_handler(method, params, self._handled(handler))
        server.extensions[KEY] = {}
        if self._catalog.is_durable:
            server.extensions[TASKS] = {}
        server.middleware.append(RequestStateBoundary(self._security(), default_audience=self._name))
        return server

    def _methods(self) -> dict[str, tuple[type[types.RequestParams], Any]]:
        """Return the methods with the types of their parameters."""
        prompts, page = Prompts(self._exports.prompts), types.PaginatedRequestParams
        resources = Resources(self._runs, self._catalog, self._exports.resources)
        methods: dict[str, tuple[type[types.RequestParams], Any]] = {
            "tools/call": (types.CallToolRequestParams, self._calls.call),
            "prompts/list": (page, prompts.list),
            "prompts/get": (types.GetPromptRequestParams, prompts.get),
            "completion/complete": (types.CompleteRequestParams, prompts.complete),
            "resources/list": (page, resources.list),
            "resources/templates/list": (page, resources.templates),
            "resources/read": (types.ReadResourceRequestParams, resources.read),
        }
        if not self._catalog.is_durable:
            return methods
        tasks = TaskMethods(self._runs, self._catalog, self._calls, self._exports.poll_seconds)
        return {**methods, **tasks.methods}

    def _security(self) -> RequestStateSecurity:
        """Return the seal of states: by keys derived from the application's, so that every worker opens them.

        Without a key of the application only this process opens what it has sealed.
        """
        known = [hmac.digest(each.secret, _STATE, "sha256") for each in self._runs.services.record_keys]
        return RequestStateSecurity(
            keys=known or [os.urandom(32)],
            ttl=self._exports.state_seconds,
            bind_principal=self._bound_principal,
        )

    def _bound_principal(self, context: Context) -> str:
        principal = principal_of(context, self._principal)
        return f"{principal.tenant}\n{principal.id}"

    async def _list_tools(
        self, context: Context, params: types.PaginatedRequestParams | None
    ) -> types.ListToolsResult:
        return types.ListToolsResult(tools=list(self._catalog.tools))

    def _handled(
        self, handle: Callable[[Context, ParamsT, Principal], Awaitable[ResultT]]
    ) -> Callable[[Context, ParamsT], Awaitable[ResultT]]:
        """Return a handler whose errors are those of the protocol."""

        async def handled(context: Context, params: ParamsT) -> ResultT:
            try:
                return await handle(context, params, self._principal)
            except PilotageError as error:
                raise protocol_error(error) from error
            except (OSError, StoreUnavailable) as error:
                raise store_unreachable() from error

        return handled


def _version() -> str:
    try:
        return version("pilotage")
    except PackageNotFoundError:
        return ""

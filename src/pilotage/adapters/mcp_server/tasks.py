"""The Tasks extension (`io.modelcontextprotocol/tasks`): the task of a call is its run, under the same id.

So a task is stored before its id leaves the process, every worker knows it, and one of another tenant is unknown.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from contextlib import suppress
from typing import Any, TypeAlias

import mcp_types as types
from mcp.server.context import ServerRequestContext
from mcp.shared.exceptions import MCPError
from mcp.shared.inbound import MCP_NAME_HEADER
from pydantic import Field
from starlette.requests import HTTPConnection

from pilotage.adapters.mcp_server import task_view
from pilotage.adapters.mcp_server.callers import Caller
from pilotage.adapters.mcp_server.calls import McpCalls
from pilotage.adapters.mcp_server.catalog import Catalog, ServedTool
from pilotage.adapters.mcp_server.errors import needs_tasks, unknown
from pilotage.adapters.mcp_server.questions import request_of
from pilotage.adapters.mcp_server.results import has_broken_down
from pilotage.agent.principal import Principal
from pilotage.agent.state import AgentState
from pilotage.errors import RunConflictError, RunNotFoundError
from pilotage.runtime.runs import AgentRuns

Context: TypeAlias = ServerRequestContext[Any, Any]


class TaskParams(types.RequestParams):
    """The parameters of a request about one task."""

    task_id: str = Field(max_length=512)


class UpdateTaskParams(TaskParams):
    """The parameters of `tasks/update`: responses to the requests of the task, by their keys."""

    input_responses: dict[str, Any] = Field(default_factory=dict[str, Any])


Method: TypeAlias = Callable[[Context, Any, Principal], Awaitable[dict[str, Any]]]


class TaskMethods:
    """Answers `tasks/get`, `tasks/update` and `tasks/cancel`."""

    def __init__(self, runs: AgentRuns, catalog: Catalog, calls: McpCalls, poll_seconds: float) -> None:
        self._runs = runs
        self._catalog = catalog
        self._calls = calls
        self._poll_seconds = poll_seconds

    @property
    def methods(self) -> dict[str, tuple[type[types.RequestParams], Method]]:
        """The methods, each with the type of its parameters."""
        return {
            "tasks/get": (TaskParams, self.get),
            "tasks/update": (UpdateTaskParams, self.update),
            "tasks/cancel": (TaskParams, self.cancel),
        }

    async def get(self, context: Context, params: TaskParams, principal: Principal) -> dict[str, Any]:
        """Return a task as it is; one whose process has died is taken up here."""
        caller, state, tool = await self._known(context, params, principal)
        rest = await self._calls.follower.look(state.id, caller.principal)
        if rest is None:
            await self._calls.follower.take_up(state.id, caller.principal)
            return task_view.task(state, self._poll_seconds)
        if rest.state.is_terminal:
            return await self._ended(rest.state, tool, caller.principal)
        requests = (
            {each.id: request_of(each, tool.forms) for each in rest.questions} if caller.has_forms else {}
        )
        return task_view.task(rest.state, self._poll_seconds, requests=requests)

    async def update(
        self, context: Context, params: UpdateTaskParams, principal: Principal
    ) -> dict[str, Any]:
        """Store the answers in responses; the task shows what became of them."""
        caller, state, tool = await self._known(context, params, principal)
        responses = {key: _response(each) for key, each in params.input_responses.items()}
        await self._calls.answering.take(state.id, responses, caller.principal, tool.forms)
        return {"resultType": "complete"}

    async def cancel(self, context: Context, params: TaskParams, principal: Principal) -> dict[str, Any]:
        """Cancel the run of a task; nothing happens to one that has ended."""
        caller, state, _ = await self._known(context, params, principal)
        # Where another process drives the run, the cancellation is on its way there.
        with suppress(RunConflictError):
            await self._runs.cancel(state.id, principal=caller.principal)
        return {"resultType": "complete"}

    async def _known(
        self, context: Context, params: TaskParams, principal: Principal
    ) -> tuple[Caller, AgentState, ServedTool]:
        """Return who asks, and the run of a task with its tool.

        Raises:
            MCPError: the client does not know the extension, or there is no such task in its tenant.
        """
        caller = Caller.of(context, principal)
        if not caller.has_tasks:
            raise needs_tasks()
        _check_routing(context, params.task_id)
        try:
            state = await self._runs.get(params.task_id, principal=caller.principal)
        except RunNotFoundError:
            raise unknown("task", params.task_id) from None
        tool = self._catalog.of_agent(state.agent_type)
        if tool is None:
            raise unknown("task", params.task_id)
        return caller, state, tool

    async def _ended(self, state: AgentState, tool: ServedTool, principal: Principal) -> dict[str, Any]:
        result = await self._runs.result(state.id, principal=principal)
        if has_broken_down(state, result):
            words = str((result.error or {}).get("message") or "The run has failed.")
            error = {"code": types.INTERNAL_ERROR, "message": words}
            return task_view.task(state, self._poll_seconds, error=error)
        mapped = await self._calls.results.of(tool, result, principal)
        return task_view.task(state, self._poll_seconds, result=mapped)


def _check_routing(context: Context, task_id: str) -> None:
    """Refuse a request over HTTP whose header for intermediaries names another task, or none.

    Raises:
        MCPError: it does.
    """
    request: object = context.request
    if isinstance(request, HTTPConnection) and request.headers.get(MCP_NAME_HEADER) != task_id:
        raise MCPError(
            code=types.HEADER_MISMATCH,
            message=f"the header {MCP_NAME_HEADER} does not match the task id of the request",
        )


def _response(given: Any) -> object:
    """Return a response of a form; anything else as it is, which answers nothing."""
    with suppress(ValueError):
        return types.ElicitResult.model_validate(given)
    return given

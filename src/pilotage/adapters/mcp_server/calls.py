"""Calls of tools: each is a run. A key of the caller names it, so that the same call again is the same run."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from typing import Any, TypeAlias

import mcp_types as types
from mcp.server.context import ServerRequestContext
from mcp.shared.exceptions import MCPError

from pilotage.adapters.mcp_server.answers import Answering, AskedCall, TakenAnswers, asked
from pilotage.adapters.mcp_server.callers import Caller
from pilotage.adapters.mcp_server.catalog import KEY, Catalog, ServedTool
from pilotage.adapters.mcp_server.ephemeral import EphemeralCalls
from pilotage.adapters.mcp_server.errors import needs_tasks, unknown
from pilotage.adapters.mcp_server.exports import McpExports, McpTasks
from pilotage.adapters.mcp_server.following import RunAtRest, RunFollower
from pilotage.adapters.mcp_server.results import ResultMapping, failure
from pilotage.adapters.mcp_server.task_view import created_task
from pilotage.agent.principal import Principal
from pilotage.errors import AgentDefinitionError, ModelNotFoundError
from pilotage.inbound.limits import InboundLimits, check_body
from pilotage.inbound.problems import RequestRefusedError
from pilotage.jsonvalue import canonical_json, text_digest
from pilotage.runtime.runs import AgentRuns

Context: TypeAlias = ServerRequestContext[Any, Any]
Reply: TypeAlias = types.CallToolResult | types.InputRequiredResult | dict[str, Any]
"""A result, questions to the user of the client, or a task."""
_LONGEST_KEY = 255


class McpCalls:
    """Answers `tools/call`."""

    def __init__(self, runs: AgentRuns, catalog: Catalog, exports: McpExports) -> None:
        self._runs = runs
        self._catalog = catalog
        self._exports = exports
        self._limits = InboundLimits(
            max_body_bytes=exports.max_argument_bytes, max_body_depth=exports.max_argument_depth
        )
        self.follower = RunFollower(runs)
        self.results = ResultMapping(runs)
        self.answering = Answering(runs)
        self._ephemeral = EphemeralCalls(runs)

    async def call(
        self, context: Context, params: types.CallToolRequestParams, principal: Principal
    ) -> Reply:
        """Start the run of a call, or find it, and return its result, its questions, or a task.

        Raises:
            MCPError: there is no such tool, the key or the state is not one of this call, the answer is refused.
            CallerError: what `AgentRuns.start` raises.
        """
        tool = self._catalog.tool(params.name)
        if tool is None:
            raise unknown("tool", params.name)
        caller = Caller.of(context, principal)
        if tool.tasks is McpTasks.REQUIRED and not caller.has_tasks:
            raise needs_tasks()
        try:
            given = tool.input_of(self._bounded(params.arguments or {}))
            if not self._catalog.is_durable:
                return await self._ephemeral.call(
                    tool, given, caller.principal, context.session.report_progress
                )
            state = await self._state_of(tool, given, params, caller)
        except (AgentDefinitionError, ModelNotFoundError) as error:
            return failure(str(error))
        return await self._reply(context, tool, state, caller, params)

    def _bounded(self, arguments: Mapping[str, Any]) -> Mapping[str, Any]:
        """Return arguments within the limits, whatever transport they came by."""
        try:
            text = canonical_json(arguments)
        except (ValueError, RecursionError) as error:
            raise RequestRefusedError("the arguments are no JSON, or nested too deep.") from error
        check_body(text.encode("utf-8", "surrogatepass"), self._limits)
        return arguments

    async def _state_of(
        self, tool: ServedTool, given: Any, params: types.CallToolRequestParams, caller: Caller
    ) -> AskedCall:
        """Return the state of a call: the one that came with it, else the run of its key, else a new run."""
        if params.request_state is not None:
            return await self._known(AskedCall.parse(params.request_state), tool, caller)
        key = _key_of(params)
        handle = await self._runs.start(
            tool.definition.agent_id,
            given,
            principal=caller.principal,
            id=None if key is None else alias_of(caller.principal, key),
        )
        return AskedCall(handle.id, {})

    async def _known(self, state: AskedCall, tool: ServedTool, caller: Caller) -> AskedCall:
        """Return a state, which was opened with our key for this call and this principal."""
        run = await self._runs.get(state.run_id, principal=caller.principal)
        if run.agent_type != tool.definition.agent_id:
            raise unknown("state of tool", tool.tool.name)
        return state

    async def _reply(
        self,
        context: Context,
        tool: ServedTool,
        state: AskedCall,
        caller: Caller,
        params: types.CallToolRequestParams,
    ) -> Reply:
        run_id, responses = state.run_id, params.input_responses or {}
        taken = await self._taken(state.by_question(responses), tool, run_id, caller)
        # Without a state the responses are to what the run asks first: a client may know the forms of a tool.
        early = responses if params.request_state is None else {}
        if tool.tasks in (McpTasks.ALWAYS, McpTasks.REQUIRED) and caller.has_tasks:
            return await self._task(run_id, caller)
        while not taken.is_left_open:
            rest = await self._rest(context, tool, run_id, caller)
            if rest is None:
                return await self._task(run_id, caller)
            if rest.state.is_terminal:
                result = await self._runs.result(run_id, principal=caller.principal)
                return await self.results.of(tool, result, caller.principal)
            if rest.questions and early:
                known = AskedCall.of(rest, tool.forms)
                taken, early = await self._taken(known.by_question(early), tool, run_id, caller), {}
            elif not rest.questions or not caller.has_forms:
                return failure(words_about(rest), rest.state)
            elif caller.is_modern:
                return asked(rest, taken, tool.forms)
            else:
                taken = await self.answering.ask_now(context, rest, caller.principal, tool.forms)
        return await self._left_open(run_id, caller)

    async def _taken(
        self, responses: Mapping[str, object], tool: ServedTool, run_id: str, caller: Caller
    ) -> TakenAnswers:
        return await self.answering.take(run_id, responses, caller.principal, tool.forms)

    async def _rest(
        self, context: Context, tool: ServedTool, run_id: str, caller: Caller
    ) -> RunAtRest | None:
        """Return the run at rest; None where it takes so long that the call becomes a task."""
        waiting = self.follower.at_rest(run_id, caller.principal, context.session.report_progress)
        if not caller.has_tasks or tool.tasks is McpTasks.NEVER:
            return await waiting
        try:
            async with asyncio.timeout(self._exports.task_after_seconds):
                return await waiting
        except TimeoutError:
            return None

    async def _task(self, run_id: str, caller: Caller) -> dict[str, Any]:
        state = await self._runs.get(run_id, principal=caller.principal)
        return created_task(state, self._exports.poll_seconds)

    async def _left_open(self, run_id: str, caller: Caller) -> types.CallToolResult:
        state = await self._runs.get(run_id, principal=caller.principal)
        questions = await self._runs.questions(run_id, principal=caller.principal)
        return failure(words_about(RunAtRest(state, questions)), state)


def _key_of(params: types.CallToolRequestParams) -> str | None:
    """Return the idempotency key of a call.

    Raises:
        MCPError: it is no text, blank, or too long.
    """
    meta: Mapping[str, object] = params.meta or {}
    if KEY not in meta:
        return None
    key = meta[KEY]
    if not isinstance(key, str) or not key.strip() or len(key) > _LONGEST_KEY:
        raise MCPError(
            code=types.INVALID_PARAMS,
            message=f"_meta[{KEY!r}] is no key. Send a text of 1 to {_LONGEST_KEY} characters.",
        )
    return key


def alias_of(principal: Principal, key: str) -> str:
    """Return the alias of a run: keys of different principals never meet, nor those of other ways in."""
    return f"mcp/{text_digest(canonical_json([principal.id, key]))}"


def words_about(rest: RunAtRest) -> str:
    """Return what a run waits for, and how it goes on, for a client that cannot be asked."""
    state = rest.state
    if rest.questions:
        asked = "; ".join(each.prompt for each in rest.questions)
        return (
            f"Run {state.id} waits for a person: {asked} Its question stays open. When it is answered, the same call "
            f"with the same {KEY!r} in _meta gives the result."
        )
    why = state.reason.value if state.reason is not None else state.status.value
    return (
        f"Run {state.id} is interrupted ({why}): {state.current_activity or 'it does not go on by itself'}."
    )

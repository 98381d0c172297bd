"""A call of a server's tool, as actions of its run.

The tool itself acts through recorded actions only, so a crash enters it again: each request to the server, each
question and each look at a task has its row. What may not be repeated is its request, and the row of that says so: its
unknown outcome is looked up, by the application or by the key that the server honours, or a person is asked.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from dataclasses import field
from functools import partial
from typing import Any

from mcp_types import CallToolRequest, CallToolRequestParams

from pilotage.adapters.mcp.catalog import Definition
from pilotage.adapters.mcp.connection import Life, McpConnection, RequestFailedError
from pilotage.adapters.mcp.errors import (
    McpRefusedError,
    McpUnavailableError,
    McpUnknownOutcomeError,
    McpVerdict,
)
from pilotage.adapters.mcp.mapping import reply_of
from pilotage.adapters.mcp.open_calls import QUESTION
from pilotage.adapters.mcp.questions import AskedTool, ToolQuestions, by_question, question_digest
from pilotage.adapters.mcp.replies import REPLY, McpReply, McpReplyKind
from pilotage.adapters.mcp.settings import McpServerSettings, McpTool
from pilotage.adapters.mcp.tasks import OpenTasks, ToolTasks
from pilotage.agent.tools.context import AgentToolRuntimeContext
from pilotage.agent.tools.metadata import DataAccess, Idempotency
from pilotage.jsonvalue import JsonObject, JsonValue, as_object, object_or_empty, to_json_value
from pilotage.runtime import sleep
from pilotage.runtime.door.request import LookUp, OutboundRequest, RequestAttempt, send
from pilotage.runtime.door.tool_call import active_run
from pilotage.schema.validation import misfit_of
from pilotage.values import value

KEY = "io.pilotage/idempotency-key"
"""The key in the `_meta` of a call under which its idempotency key goes along."""

_PAUSES = (0.1, 0.3, 0.9, 2.7)
"""The seconds between the tries of a request that may be sent again."""
_SHORT_SECONDS = 0.25
"""The time until a call goes on whose server asks for nothing but to be asked again."""


@value
class CallRound:
    """One request of a call: the first one, or the next one with the answers to the server's questions."""

    arguments: JsonObject
    answers: JsonObject | None = None
    state: str | None = None
    known: Mapping[str, Mapping[str, Any]] = field(default_factory=dict[str, Mapping[str, Any]])
    """All answers of the call by now, by the digests of their questions."""

    def params(self, name: str, key: str) -> dict[str, Any]:
        """Return the parameters of the request."""
        given: dict[str, Any] = {"name": name, "arguments": self.arguments, "_meta": {KEY: key}}
        if self.answers is not None:
            given["inputResponses"] = self.answers
        if self.state is not None:
            given["requestState"] = self.state
        return given


@value
class StartedServer:
    """What the calls of a started server share: its connection, the tasks under way, and its secrets."""

    settings: McpServerSettings
    connection: McpConnection
    open_tasks: OpenTasks
    secrets: tuple[str, ...] = field(default=(), repr=False)


class CalledTool:
    """One tool of a server, as a described tool calls it."""

    def __init__(
        self,
        server: StartedServer,
        definition: Definition,
        tool: McpTool,
        wire: str,
    ) -> None:
        settings, connection = server.settings, server.connection
        self.definition, self.tool = definition, tool
        self._server, self._settings, self._connection, self._wire = server, settings, connection, wire
        effects, idempotency = tool.effects, tool.idempotency
        reads = effects is not None and effects.data_access is DataAccess.READ and not effects.destructive
        honours = definition.honours_key if tool.honours_key is None else tool.honours_key
        self._reads_only = reads
        self._is_repeatable = reads or idempotency is Idempotency.IDEMPOTENT
        self._honours_key = honours
        self._questions = ToolQuestions(settings, AskedTool(definition.name, wire))
        self._tasks = ToolTasks(
            connection, definition, self._questions, wire, is_repeatable=self._is_repeatable
        )

    async def call(
        self, arguments: JsonObject, runtime_context: AgentToolRuntimeContext | None = None
    ) -> Any:
        """Call the tool and return its result: text, JSON, or a list of texts and media.

        Raises:
            ToolError: the call failed for certain, or the tool reports that it failed.
        """
        key = "" if runtime_context is None else runtime_context.idempotency_key
        call_id = "" if runtime_context is None else runtime_context.call_id
        if (run := active_run()) is not None:
            for secret in self._server.secrets:
                run.redactor.register(secret)
        this = CallRound(arguments)
        for _ in range(self._settings.limits.most_rounds):
            reply = await self._request(this, key)
            if reply.kind is McpReplyKind.TASK:
                task = object_or_empty(object_or_empty(reply.data).get("task"))
                self._server.open_tasks.add(call_id, str(task.get("taskId", "")))
                reply = await self._tasks.outcome(task, key)
                self._server.open_tasks.remove(call_id)
            if reply.kind is McpReplyKind.ERROR:
                raise McpRefusedError(str(reply.content))
            if reply.kind is not McpReplyKind.INPUT:
                return reply.content
            this = await self._answered(this, object_or_empty(reply.data))
        raise McpRefusedError(
            f"MCP server {self._settings.name!r} asks more than {self._settings.limits.most_rounds} times during one "
            f"call of {self.definition.name!r} (McpLimits.most_rounds)."
        )

    async def _answered(self, last: CallRound, asked: JsonObject) -> CallRound:
        """Return the next request of a call, with the answers to the questions of the last reply."""
        requests, state = object_or_empty(asked.get("requests")), asked.get("state")
        answers = await self._questions.answers(requests)
        if not requests:
            await sleep(_SHORT_SECONDS)
        return CallRound(
            last.arguments,
            answers or None,
            state if isinstance(state, str) else None,
            {**last.known, **by_question(requests, answers)},
        )

    async def _request(self, this: CallRound, key: str) -> McpReply:
        shown: dict[str, JsonValue] = {"arguments": this.arguments}
        if this.answers is not None:
            shown["answers"] = this.answers
        request = OutboundRequest(
            self._wire,
            shown,
            Idempotency.IDEMPOTENT if self._is_repeatable else Idempotency.NON_IDEMPOTENT,
            reads_only=self._reads_only,
            reconcile=None if self._is_repeatable else self._reconciler(this),
            codec=REPLY,
        )
        reply = await send(request, partial(self._sent, this), key=key)
        return reply if isinstance(reply, McpReply) else McpReply(McpReplyKind.RESULT, reply)

    def _reconciler(self, this: CallRound) -> LookUp | None:
        """Return the function that finds out what became of a request; None where nothing can."""
        look_up = self.tool.reconcile
        if look_up is not None:

            async def looked_up(key: str) -> object:
                found = await look_up(key, this.arguments)
                return None if found is None else McpReply(McpReplyKind.RESULT, found)

            return looked_up
        if not self._honours_key:
            return None
        return lambda key: self._sent(this, RequestAttempt(key), is_repeatable=True)

    async def _sent(
        self, this: CallRound, attempt: RequestAttempt, *, is_repeatable: bool = False
    ) -> McpReply:
        """Send one request, again only where that cannot do anything twice, and return the reply.

        The request that a person lets be retried begins the call anew, with the answers that are known.

        Raises:
            McpUnavailableError: it was certainly not sent.
            McpUnknownOutcomeError: it may have taken effect.
        """
        is_repeatable = is_repeatable or self._is_repeatable
        if this.state is not None and attempt.number > 1:
            return await self._anew(this, attempt)
        for pause in (*_PAUSES, None):
            try:
                return reply_of(self.definition, await self._raw(this, attempt.key))
            except RequestFailedError as failed:
                if failed.verdict is McpVerdict.REFUSED and this.state is None:
                    return McpReply(McpReplyKind.ERROR, failed.why)
                if failed.verdict is McpVerdict.REFUSED and self._is_repeatable:
                    return await self._anew(this, attempt)
                may_try = failed.verdict is McpVerdict.UNSENT or is_repeatable
                if pause is None or not may_try:
                    raise self._error(failed) from failed
            await asyncio.sleep(pause)
        raise AssertionError("the last try returns or raises")

    async def _anew(self, this: CallRound, attempt: RequestAttempt) -> McpReply:
        """Begin a call again whose state is lost, and answer the questions again that were answered before."""
        again, left = CallRound(this.arguments, known=this.known), self._settings.limits.most_rounds
        while True:
            reply = await self._sent(again, RequestAttempt(attempt.key))
            data = object_or_empty(reply.data)
            requests, state = object_or_empty(data.get("requests")), data.get("state")
            answers = {
                name: this.known.get(question_digest(object_or_empty(each)))
                for name, each in requests.items()
            }
            left -= 1
            if reply.kind is not McpReplyKind.INPUT or not requests or None in answers.values() or not left:
                return reply
            again = CallRound(
                this.arguments,
                as_object(to_json_value(answers)),
                state if isinstance(state, str) else None,
                this.known,
            )

    def _error(self, failed: RequestFailedError) -> Exception:
        server, name = self._settings.name, self.definition.name
        if failed.verdict is McpVerdict.UNSENT:
            return McpUnavailableError(f"{name!r} was not sent to MCP server {server!r}: {failed.why}")
        words = f"the outcome of {name!r} of MCP server {server!r} is unknown: {failed.why}"
        return McpUnavailableError(words) if self._is_repeatable else McpUnknownOutcomeError(words)

    async def _raw(self, this: CallRound, key: str) -> dict[str, Any]:
        life = await self._connection.life()
        if life.is_modern or self._settings.questions == "refuse":
            return await self._connection.request(_call(this.params(self.definition.name, key)), life)
        return await self._with_questions(life, this, key)

    async def _with_questions(self, life: Life, this: CallRound, key: str) -> dict[str, Any]:
        """Send a request to a server of the older era, which asks while the call is under way."""
        if this.state is not None:
            answer = object_or_empty((this.answers or {}).get(QUESTION))
            try:
                return await life.open_calls.go_on(this.state, answer)
            except LookupError:
                if not self._is_repeatable:
                    raise RequestFailedError(
                        McpVerdict.UNKNOWN,
                        "the connection on which it waits for the answer to its question is gone",
                    ) from None
        first = _call(CallRound(this.arguments).params(self.definition.name, key))
        return await life.open_calls.begin(partial(self._connection.request, first, life), this.known)


class ChangedTool(CalledTool):
    """A tool that has changed since it was accepted: models see it as it was, so the arguments may not fit any more."""

    async def call(
        self, arguments: JsonObject, runtime_context: AgentToolRuntimeContext | None = None
    ) -> Any:
        misfit = misfit_of(arguments, self.definition.input_schema)
        if misfit is not None:
            server, name = self._settings.name, self.definition.name
            raise McpRefusedError(
                f"{name!r} of MCP server {server!r} takes other arguments by now: {misfit}. Nothing was sent. It can "
                f"be called as it is now when it is accepted: pilotage mcp approve {server} {name}"
            )
        return await super().call(arguments, runtime_context)


def _call(params: Mapping[str, Any]) -> CallToolRequest:
    return CallToolRequest(params=CallToolRequestParams.model_validate(params, by_name=False))

"""Long work of a server: a task that it answers a call with, asked for until it has ended.

The task's id is in the row of the call's reply before anything waits. Between two looks the run sleeps, and a long
sleep holds no memory; after a crash the task is asked for, and the call is not made again.
"""

from __future__ import annotations

from functools import partial
from typing import Any, Literal

from mcp_types import Request, RequestParams

from pilotage.adapters.mcp.catalog import Definition
from pilotage.adapters.mcp.connection import McpConnection, RequestFailedError
from pilotage.adapters.mcp.errors import McpUnknownOutcomeError, McpVerdict
from pilotage.adapters.mcp.mapping import result_of
from pilotage.adapters.mcp.questions import ToolQuestions
from pilotage.adapters.mcp.replies import REPLY, McpReply, McpReplyKind
from pilotage.agent.tools.metadata import Idempotency
from pilotage.errors import ToolError
from pilotage.jsonvalue import JsonObject, JsonValue, is_object, object_or_empty, to_json_value
from pilotage.runtime import sleep
from pilotage.runtime.door.request import OutboundRequest, RequestAttempt, send

_FIRST_SECONDS, _LONGEST_SECONDS = 1.0, 60.0
_MOST_HINT = 3600.0
_SLOWER = 1.2
_MOST_FAILURES = 10


class _TaskParams(RequestParams):
    task_id: str


class _GetTask(Request[_TaskParams, Literal["tasks/get"]]):
    method: Literal["tasks/get"] = "tasks/get"
    params: _TaskParams
    name_param = "taskId"


class _CancelTask(Request[_TaskParams, Literal["tasks/cancel"]]):
    method: Literal["tasks/cancel"] = "tasks/cancel"
    params: _TaskParams
    name_param = "taskId"


class _UpdateParams(_TaskParams):
    input_responses: dict[str, Any]


class _UpdateTask(Request[_UpdateParams, Literal["tasks/update"]]):
    method: Literal["tasks/update"] = "tasks/update"
    params: _UpdateParams
    name_param = "taskId"


class OpenTasks:
    """The tasks of one server that calls of this process wait for, by the ids of their calls."""

    def __init__(self, connection: McpConnection) -> None:
        self._connection = connection
        self._by_call: dict[str, str] = {}

    def add(self, call_id: str, task_id: str) -> None:
        """Add the task of a call."""
        self._by_call[call_id] = task_id

    def remove(self, call_id: str) -> None:
        """Remove the task of a call, which has ended."""
        self._by_call.pop(call_id, None)

    async def cancel(self, call_id: str) -> bool:
        """Ask the server to cancel the task of a call; return whether there is one.

        Raises:
            RequestFailedError: the server cannot be asked.
        """
        task_id = self._by_call.get(call_id)
        if task_id is None:
            return False
        await self._connection.request(_CancelTask(params=_TaskParams(task_id=task_id)))
        self.remove(call_id)
        return True


class ToolTasks:
    """The tasks of the calls of one tool."""

    def __init__(
        self,
        connection: McpConnection,
        definition: Definition,
        questions: ToolQuestions,
        wire: str,
        *,
        is_repeatable: bool,
    ) -> None:
        self._connection, self._definition, self._questions = connection, definition, questions
        self._wire, self._is_repeatable = wire, is_repeatable

    async def outcome(self, task: JsonObject, key: str) -> McpReply:
        """Return the outcome of a task, when it has one.

        Raises:
            ToolError: the task failed or was cancelled.
        """
        answered, failures, pause = set[str](), 0, _FIRST_SECONDS
        task_id = str(task.get("taskId", ""))
        while True:
            if (reply := self._ended(task)) is not None:
                return reply
            if task.get("status") == "input_required":
                answered |= await self._answer(task_id, task, answered, key)
            hint, pause = _hint_of(task), min(pause * _SLOWER, _LONGEST_SECONDS)
            await sleep(hint or pause)
            try:
                found = await self._look(task_id, key)
            except ToolError as error:
                failures += 1
                if failures < _MOST_FAILURES:
                    continue
                found = await self._unknown(task_id, str(error), key)
            else:
                if found.kind is McpReplyKind.ERROR:
                    found = await self._unknown(task_id, str(found.content), key)
            if found.kind is not McpReplyKind.TASK:
                return found
            task, failures = object_or_empty(object_or_empty(found.data).get("task")), 0

    def _ended(self, task: JsonObject) -> McpReply | None:
        """Return the reply that a task ended with; None while it goes on."""
        match task.get("status"):
            case "completed":
                result = task.get("result")
                # A task that is complete when it is made has its result only when it is asked for.
                return result_of(self._definition, result) if is_object(result) else None
            case "failed":
                error = object_or_empty(task.get("error"))
                why = error.get("message") or task.get("statusMessage") or "no reason given"
                return McpReply(McpReplyKind.ERROR, f"its task failed: {why}")
            case "cancelled":
                return McpReply(
                    McpReplyKind.ERROR, f"its task was cancelled: {task.get('statusMessage') or 'no reason'}"
                )
            case _:
                return None

    async def _answer(self, task_id: str, task: JsonObject, answered: set[str], key: str) -> set[str]:
        """Answer the questions of a task that have no answer yet; the server ignores an answer that comes twice."""
        requests = {
            name: each
            for name, each in object_or_empty(task.get("inputRequests")).items()
            if name not in answered
        }
        if not requests:
            return set()
        answers: dict[str, JsonValue] = await self._questions.answers(requests)
        update = _UpdateTask(params=_UpdateParams(task_id=task_id, input_responses=answers))
        request = OutboundRequest(
            f"{self._wire}.answer", {"task": task_id, "answers": answers}, Idempotency.IDEMPOTENT, codec=REPLY
        )
        await send(request, partial(self._sent, update, McpReplyKind.EMPTY), key=key)
        return set(requests)

    async def _look(self, task_id: str, key: str) -> McpReply:
        request = OutboundRequest(
            f"{self._wire}.task", {"task": task_id}, Idempotency.IDEMPOTENT, reads_only=True, codec=REPLY
        )
        reply = await send(request, partial(self._sent, _get(task_id), McpReplyKind.TASK), key=key)
        return reply if isinstance(reply, McpReply) else McpReply(McpReplyKind.ERROR, str(reply))

    async def _unknown(self, task_id: str, why: str, key: str) -> McpReply:
        """Return what becomes of a task that cannot be asked for: a person is asked where it matters.

        It is the task itself where the server knows it again, also after a person's *retry*.
        """
        if self._is_repeatable:
            return McpReply(
                McpReplyKind.ERROR, f"the task of {self._definition.name!r} cannot be asked for: {why}"
            )
        request = OutboundRequest(
            f"{self._wire}.outcome", {"task": task_id}, Idempotency.NON_IDEMPOTENT, codec=REPLY
        )

        async def act(attempt: RequestAttempt) -> McpReply:
            try:
                found = await self._sent(_get(task_id), McpReplyKind.TASK, attempt)
            except ToolError as error:
                raise self._lost(str(error)) from error
            if found.kind is McpReplyKind.ERROR:
                raise self._lost(why)
            return found

        reply = await send(request, act, key=key)
        return reply if isinstance(reply, McpReply) else McpReply(McpReplyKind.RESULT, reply)

    def _lost(self, why: str) -> McpUnknownOutcomeError:
        return McpUnknownOutcomeError(f"the task of {self._definition.name!r} cannot be asked for: {why}")

    async def _sent(self, message: Request[Any, Any], kind: McpReplyKind, _: RequestAttempt) -> McpReply:
        try:
            raw = await self._connection.request(message)
        except RequestFailedError as failed:
            if failed.verdict is McpVerdict.REFUSED:
                return McpReply(McpReplyKind.ERROR, failed.why)
            raise ToolError(f"the task cannot be asked for: {failed.why}") from failed
        return McpReply(kind, data={"task": to_json_value(raw)} if kind is McpReplyKind.TASK else None)


def _get(task_id: str) -> _GetTask:
    return _GetTask(params=_TaskParams(task_id=task_id))


def _hint_of(task: JsonObject) -> float:
    """Return the seconds between two looks that the server suggests; 0 without a suggestion."""
    hint = task.get("pollIntervalMs")
    return min(hint / 1000, _MOST_HINT) if isinstance(hint, int | float) and hint > 0 else 0.0

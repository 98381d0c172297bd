"""Calls of the older era that are held open while a person answers the server's question.

There a server asks by a request of its own and waits for the answer on the same connection, within the same call. The
call goes on in a task of the connection; to the run the question is a reply like a request for input, with the id of
the open call as its state. An answer that comes after the connection, or this process, finds no such call.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from contextlib import suppress
from typing import Any
from uuid import uuid4

from mcp.client import ClientRequestContext
from mcp_types import ElicitRequestParams, ElicitResult

from pilotage.jsonvalue import json_digest

QUESTION = "question"
"""The key of the question in a request for input."""

Answers = Mapping[str, Mapping[str, Any]]
"""Answers of the same call before, by the digests of their questions."""


class OpenCall:
    """A call under way, and the question that its server waits with."""

    def __init__(self, task: asyncio.Task[dict[str, Any]], known: Answers) -> None:
        self.id = uuid4().hex
        self.task = task
        self.known = known
        self.asked = asyncio.Event()
        self.question: dict[str, Any] | None = None
        self.answer: asyncio.Future[ElicitResult] | None = None

    def reply(self) -> dict[str, Any]:
        """Return the question as a request for input."""
        self.asked.clear()
        return {
            "resultType": "input_required",
            "inputRequests": {QUESTION: {"method": "elicitation/create", "params": self.question}},
            "requestState": self.id,
        }


class OpenCalls:
    """The calls of one connection. A question belongs to the call under way; among several it is not known to which."""

    def __init__(self, seconds: float) -> None:
        self._seconds = seconds
        self._calls: dict[str, OpenCall] = {}

    async def begin(self, request: Callable[[], Awaitable[dict[str, Any]]], known: Answers) -> dict[str, Any]:
        """Return the result of a request, or its first question that `known` has no answer to."""

        async def sent() -> dict[str, Any]:
            return await request()

        call = OpenCall(asyncio.create_task(sent()), known)
        self._calls[call.id] = call
        call.task.add_done_callback(lambda done: self._drop(call.id, done))
        return await self._next(call)

    async def go_on(self, state: str, answer: Mapping[str, Any]) -> dict[str, Any]:
        """Give an open call its answer, and return its result or its next question.

        Raises:
            LookupError: the call is not open here any more.
        """
        call = self._calls.get(state)
        if call is None or call.answer is None or call.answer.done():
            raise LookupError(state)
        call.answer.set_result(ElicitResult.model_validate(answer))
        return await self._next(call)

    async def ask(self, context: ClientRequestContext, params: ElicitRequestParams) -> ElicitResult:
        """Return the answer to a question of the server; one that belongs to no single call is not asked."""
        if len(self._calls) != 1:
            return ElicitResult(action="cancel")
        (call,) = self._calls.values()
        question = params.model_dump(by_alias=True, mode="json", exclude_none=True, exclude={"meta"})
        known = call.known.get(json_digest(question))
        if known is not None:
            return ElicitResult.model_validate(known)
        call.question, call.answer = question, asyncio.get_running_loop().create_future()
        call.asked.set()
        with suppress(TimeoutError):
            async with asyncio.timeout(self._seconds):
                return await call.answer
        return ElicitResult(action="cancel")

    async def close(self) -> None:
        """End all calls."""
        tasks = [call.task for call in self._calls.values()]
        for task in tasks:
            task.cancel()
        if tasks:
            await asyncio.wait(tasks)

    async def _next(self, call: OpenCall) -> dict[str, Any]:
        asked = asyncio.create_task(call.asked.wait())
        try:
            await asyncio.wait({call.task, asked}, return_when=asyncio.FIRST_COMPLETED)
        except asyncio.CancelledError:
            call.task.cancel()
            raise
        finally:
            asked.cancel()
        return call.task.result() if call.task.done() else call.reply()

    def _drop(self, call_id: str, done: asyncio.Task[dict[str, Any]]) -> None:
        self._calls.pop(call_id, None)
        if not done.cancelled():
            done.exception()  # it may have no reader any more

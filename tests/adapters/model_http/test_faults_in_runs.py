"""Faults in the middle of durable runs, on three wires over HTTP: each run completes, and nothing is done twice."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Callable, Sequence
from datetime import datetime, timedelta
from email.utils import format_datetime

import httpx
import pytest

from pilotage import Agent, AgentExecutionSpec, IAgentModel, ToolEffects, agent_tool
from pilotage.adapters.anthropic import AnthropicModel, AnthropicSettings
from pilotage.adapters.model_http.http_server import HttpServer
from pilotage.adapters.openai import (
    ModelRetries,
    OpenAICompatibleModel,
    OpenAICompatibleSettings,
    OpenAIResponsesModel,
)
from pilotage.ids import IClock
from pilotage.runtime import WorkerSettings
from tests.adapters.model_http.replies import WIRES, call, sent, text
from tests.behaviour.bureau import COMPLETED, DURABLE, Bureau, triple
from tests.behaviour.newsdesk import pass_time
from tests.behaviour.office import UNGATED

ONCE = ModelRetries(most=0)
PLACE = OpenAICompatibleSettings("http://h/v1", "m", retries=ONCE, checks_at_start=False)
MESSAGES = AnthropicSettings("m", base_url="http://h/v1", retries=ONCE, checks_at_start=False)
GOOD = '{"text": "first"}'
PAUSE = 90


class Pieces(httpx.AsyncByteStream):
    """A body in pieces; one that is lost breaks off behind them."""

    def __init__(self, pieces: Sequence[bytes], *, is_lost: bool = False) -> None:
        self._pieces, self._is_lost = pieces, is_lost

    async def __aiter__(self) -> AsyncIterator[bytes]:
        for piece in self._pieces:
            yield piece
        if self._is_lost:
            raise httpx.RemoteProtocolError("peer closed connection without sending complete message body")


def streamed(pieces: Sequence[bytes], *, is_lost: bool = False) -> httpx.Response:
    headers = {"content-type": "text/event-stream"}
    return httpx.Response(200, headers=headers, stream=Pieces(pieces, is_lost=is_lost))


class Line(httpx.AsyncBaseTransport):
    """The line to a server: each request gets the next answer, and the time of each is noted."""

    def __init__(self, clock: IClock, *answers: Callable[[datetime], httpx.Response]) -> None:
        self._clock = clock
        self._answers = iter(answers)
        self.asked: list[datetime] = []

    async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
        self.asked.append(self._clock.now())
        return next(self._answers)(self.asked[-1])


def model_on(wire: str, line: Line, clock: IClock) -> IAgentModel:
    if wire == "messages":
        return AnthropicModel(MESSAGES, server=HttpServer(MESSAGES.access, clock, line), clock=clock)
    server = HttpServer(PLACE.access, clock, line)
    make = OpenAICompatibleModel if wire == "chat" else OpenAIResponsesModel
    return make(PLACE, server=server, clock=clock)


Answer = Callable[[datetime], httpx.Response]


def away(_: datetime) -> httpx.Response:
    raise httpx.ConnectError("All connection attempts failed")


def refusing(status: int, message: str) -> Answer:
    return lambda _: httpx.Response(status, json={"error": {"message": message, "type": "error"}})


def later(now: datetime) -> httpx.Response:
    until = format_datetime(now + timedelta(seconds=PAUSE), usegmt=True)
    return httpx.Response(429, headers={"retry-after": until}, json={"error": {"message": "Slow down."}})


def dead_engine(wire: str, half: Sequence[bytes]) -> Answer:
    """What vLLM sends when its engine is killed: an error event, or on the wire of responses half a body."""
    message = "EngineCore encountered an issue. See stack trace (above) for the root cause."
    if wire == "chat":
        error = sent({"error": {"message": message, "type": "InternalServerError", "code": 500}})
        return lambda _: streamed([*half, *error, b"data: [DONE]\n\n"])
    if wire == "messages":
        event = {"type": "error", "error": {"type": "internal_error", "message": message}}
        return lambda _: streamed([*half, f"event: error\ndata: {json.dumps(event)}\n\n".encode()])
    return lambda _: streamed(half, is_lost=True)


def broken(kind: str, wire: str) -> list[Answer]:
    """What a server does until it works again."""
    half = text(wire, "All is no")[:-1]
    faults: dict[str, list[Answer]] = {
        "killed": [lambda _: streamed(half, is_lost=True)] * 3 + [away] * 2,
        "engine killed": [dead_engine(wire, half), refusing(503, "The engine is dead."), away],
        "lost": [lambda _: streamed(half)] * 3,
        "away": [away] * 3,
        "503": [refusing(503, "The engine is currently busy.")] * 3,
        "429 with a date": [later] * 2,
        "no events": [lambda _: httpx.Response(200, html="<html>Bad gateway</html>")] * 2,
        "another wire": [lambda _: streamed(text(WIRES[WIRES.index(wire) - 1], "Hello"))] * 2,
        "arguments no JSON": [lambda _: streamed(call(wire, '{"text": "sec', "c2"))],
        "arguments of another type": [lambda _: streamed(call(wire, '["second"]', "c2"))],
        "raw newline": [lambda _: streamed(call(wire, '{"text": "a\nb"}', "c2"))],
    }
    return faults[kind]


FAULTS = [
    "killed",
    "engine killed",
    "lost",
    "away",
    "503",
    "429 with a date",
    "no events",
    "another wire",
    "arguments no JSON",
    "arguments of another type",
    "raw newline",
]


@pytest.mark.parametrize("fault", FAULTS)
@pytest.mark.parametrize("wire", WIRES)
async def test_a_fault_behind_a_tool_ends_no_run_and_repeats_nothing(wire: str, fault: str) -> None:
    bureau, noted = Bureau(), list[str]()

    @Agent(spec=AgentExecutionSpec(name="clerk", recovery=DURABLE))
    class Clerk:
        """Note things."""

        @agent_tool(effects=ToolEffects.write_state(), approval=UNGATED)
        async def note(self, text: str) -> str:
            """Note a text."""
            noted.append(text)
            return "noted"

    def first(_: datetime) -> httpx.Response:
        return streamed(call(wire, GOOD))

    def last(_: datetime) -> httpx.Response:
        return streamed(text(wire, "All is noted."))

    line = Line(bureau.clock, first, *broken(fault, wire), last)
    worker = (WorkerSettings(poll_seconds=1.0, grace_seconds=0.0), bureau.store.backlog)
    model = model_on(wire, line, bureau.clock)
    async with bureau.process(Clerk, None, *worker, model=model) as runs:
        handle = await runs.start(Clerk, "Note the first.")
        await pass_time(bureau.clock, 800, step=4)
        state = await runs.get(handle.id)
        assert triple(state) == COMPLETED
        assert (await runs.result(handle.id)).output == "All is noted."
    assert noted == (["first", "a\nb"] if fault == "raw newline" else ["first"])
    if fault == "429 with a date":
        pauses = [after - before for before, after in zip(line.asked[1:], line.asked[2:], strict=False)]
        assert min(pauses) >= timedelta(seconds=PAUSE - 1), pauses

"""A server without a network: its answers are bytes in pieces of the test's choice."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from pilotage.adapters.model_http.server import ModelRetries, ModelServer, ModelTimeouts, ServerStream
from pilotage.adapters.openai import ModelServerError, OpenAICompatibleModel, OpenAICompatibleSettings
from pilotage.agent.messages import ModelMessage
from pilotage.agent.model_reply import ModelResponse, ModelStreamEvent
from pilotage.agent.model_request import ModelRequest
from pilotage.errors import PilotageError

PLAIN = ModelRequest([ModelMessage.user("hello")])


class ByteStream(ServerStream):
    """Gives its pieces one by one; what is an error is raised, what is a number is a delay."""

    def __init__(self, pieces: Iterable[bytes | ModelServerError], *, is_event_stream: bool = True) -> None:
        self._pieces = iter(pieces)
        self._is_event_stream = is_event_stream
        self.is_closed = False

    @property
    def is_event_stream(self) -> bool:
        return self._is_event_stream

    async def read(self, within: float) -> bytes:
        piece = next(self._pieces, b"")
        if isinstance(piece, ModelServerError):
            raise piece
        return piece

    async def close(self) -> None:
        self.is_closed = True


class ByteServer(ModelServer):
    """Answers requests with the given answers in turn, the last one again and again."""

    def __init__(self, *answers: Sequence[bytes | ModelServerError] | ModelServerError) -> None:
        self._answers = answers
        self.asked = 0
        self.streams: list[ByteStream] = []

    async def get(self, url: str) -> bytes:
        return await self.post(url, b"")

    async def post(self, url: str, body: bytes) -> bytes:
        pieces = self._next()
        for piece in pieces:
            if isinstance(piece, ModelServerError):
                raise piece
        return b"".join(piece for piece in pieces if isinstance(piece, bytes))

    async def open(self, url: str, body: bytes) -> ServerStream:
        self.streams.append(ByteStream(self._next()))
        return self.streams[-1]

    async def close(self) -> None:
        """There is nothing to let go of."""

    def _next(self) -> Sequence[bytes | ModelServerError]:
        answer = self._answers[min(self.asked, len(self._answers) - 1)]
        self.asked += 1
        if isinstance(answer, ModelServerError):
            raise answer
        return answer


@dataclass
class Told:
    """What came of a reply: events, and a response or an error."""

    events: list[ModelStreamEvent]
    response: ModelResponse | None
    error: PilotageError | None

    @property
    def text(self) -> str:
        return "".join(event.text for event in self.events if event.is_text_delta)

    @property
    def reasoning(self) -> str:
        return "".join(event.reasoning_delta or "" for event in self.events)

    @property
    def calls(self) -> list[tuple[str, object]]:
        return [
            (event.tool_call.name, event.tool_call.arguments)
            for event in self.events
            if event.is_tool_call and event.tool_call
        ]


def model_of(server: ModelServer, most_retries: int = 0) -> OpenAICompatibleModel:
    """A model whose server is a double."""
    settings = OpenAICompatibleSettings(
        "http://127.0.0.1:1/v1",
        "tiny",
        retries=ModelRetries(most=most_retries),
        timeouts=ModelTimeouts(idle=5, first_token=5, request=20),
    )
    return OpenAICompatibleModel(settings, server=server)


async def told(model: OpenAICompatibleModel, request: ModelRequest = PLAIN) -> Told:
    """Read a stream to its end."""
    events: list[ModelStreamEvent] = []
    try:
        async for event in model.stream(request):
            events.append(event)  # noqa: PERF401 - a comprehension would lose them with the failure
    except PilotageError as error:
        return Told(events, None, error)
    return Told(events, events[-1].response, None)


def told_of(pieces: Sequence[bytes | ModelServerError], request: ModelRequest = PLAIN) -> Told:
    """What comes of the pieces of one stream."""
    return asyncio.run(told(model_of(ByteServer(pieces)), request))

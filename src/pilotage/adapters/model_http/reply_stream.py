"""One streamed reply: bytes become events, in the batches of the network."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from contextlib import suppress

from pilotage.adapters.model_http.decoding import LONGEST_EVENT, SseEvent, SseParser
from pilotage.adapters.model_http.errors import ModelServerError, failed
from pilotage.adapters.model_http.server import ModelTimeouts, ServerStream
from pilotage.agent.model_failure import ModelFailure
from pilotage.agent.model_reply import ModelResponse, ModelStreamEvent, ModelUsage
from pilotage.errors import PilotageError

# A connection can be used again if its body is read to the end, which is a few bytes after the last event.
_DRAIN_SECONDS = 0.25
_DRAIN_READS = 4


class WireReader(ABC):
    """Reader of one reply in the words of one wire. Pure: it gets what the server sent, and returns events."""

    is_over: bool = False
    """Whether the server's own end of a stream has been read."""

    @property
    @abstractmethod
    def usage(self) -> ModelUsage:
        """The tokens that the server has counted so far."""

    @abstractmethod
    def read(self, sent: SseEvent) -> Sequence[ModelStreamEvent]:
        """Return the events of one event of the server.

        Raises:
            ModelServerError: it is none, it reports an error, or it contradicts those before it.
        """

    @abstractmethod
    def read_whole(self, data: bytes) -> Sequence[ModelStreamEvent]:
        """Return the events of a body that is not streamed.

        Raises:
            ModelServerError: it is no reply, or reports an error.
        """

    @abstractmethod
    def finish(self, *, with_reasoning: bool = False) -> tuple[ModelResponse, list[ModelStreamEvent]]:
        """Return the response, and the last events, the last of which carries it.

        Raises:
            ModelServerError: the reply has no end, or one without success.
            AgentStructuredOutputError: the answer is not of the type that was asked for.
        """


class ReplyStream:
    """Reader of one reply. Success is a reply that its wire calls complete, without an error, and a body that ended.

    Its errors do not show the `key` of the application.
    """

    def __init__(
        self, stream: ServerStream, reader: WireReader, timeouts: ModelTimeouts, key: str | None = None
    ) -> None:
        self._stream = stream
        self._reader = reader
        self._timeouts = timeouts
        self._key = key
        self._parser = SseParser()
        self._has_begun = False
        self._is_over = False
        self._failure: PilotageError | None = None

    async def next(self) -> Sequence[ModelStreamEvent]:
        """Return the next events, at least one; none at the end of the reply.

        Raises:
            ModelServerError: the reply broke off, stalled, or is none.
            AgentStructuredOutputError: the answer is not of the type that was asked for.
        """
        try:
            return await self._next()
        except ModelServerError as error:
            error.hide(self._key)
            raise

    async def _next(self) -> Sequence[ModelStreamEvent]:
        if self._failure is not None:
            raise self._failure
        while not self._is_over:
            events = await self._read() if self._stream.is_event_stream else await self._read_whole()
            if events:
                self._has_begun = True
                return events
        return ()

    async def close(self) -> None:
        """Close the connection of the reply, which stops its generation."""
        self._is_over = True
        await self._stream.close()

    async def _read(self) -> Sequence[ModelStreamEvent]:
        piece = await self._stream.read(
            self._timeouts.idle if self._has_begun else self._timeouts.first_token
        )
        sent = self._parser.feed(piece) if piece else self._parser.close()
        if piece and len(sent) == 1:
            events = self._reader.read(sent[0])
            return events if not self._reader.is_over else await self._ended(events)
        return await self._read_several(sent, is_end=not piece)

    async def _read_several(self, sent: Sequence[SseEvent], *, is_end: bool) -> Sequence[ModelStreamEvent]:
        events: list[ModelStreamEvent] = []
        try:
            for event in sent:
                events += self._reader.read(event)
                if self._reader.is_over:
                    return await self._ended(events)
            if is_end:
                # The body has come to its end: whether the reply has, is known by its reader.
                return self._finished(events)
        except PilotageError as error:
            if not events:
                raise
            # Events before the failure are returned first, in whatever pieces they arrived.
            self._failure = error
        return events

    async def _ended(self, events: Sequence[ModelStreamEvent]) -> Sequence[ModelStreamEvent]:
        await self._drain()
        try:
            return self._finished(events)
        except PilotageError as error:
            if not events:
                raise
            self._failure = error
        return events

    def _finished(self, events: Sequence[ModelStreamEvent]) -> Sequence[ModelStreamEvent]:
        last = self._reader.finish()[1]
        self._is_over = True
        return [*events, *last]

    async def _drain(self) -> None:
        with suppress(ModelServerError):
            for _ in range(_DRAIN_READS):
                if not await self._stream.read(_DRAIN_SECONDS):
                    return

    async def _read_whole(self) -> Sequence[ModelStreamEvent]:
        """Return the events of a reply that the server sent in one piece."""
        body = bytearray()
        while piece := await self._stream.read(self._timeouts.request):
            body += piece
            if len(body) > LONGEST_EVENT:
                raise failed(ModelFailure.UNREADABLE, f"a body of more than {LONGEST_EVENT:,} bytes")
        self._is_over = True
        return [*self._reader.read_whole(bytes(body)), *self._reader.finish()[1]]

"""One streamed reply: bytes become events, in the batches of the network."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress

from pilotage.adapters.openai.decoding import LONGEST_EVENT, SseEvent, SseParser
from pilotage.adapters.openai.errors import ModelFailure, ModelServerError, failed
from pilotage.adapters.openai.reply_mapping import ReplyReader
from pilotage.adapters.openai.server import ServerStream
from pilotage.adapters.openai.settings import ModelTimeouts
from pilotage.agent.model_reply import ModelStreamEvent
from pilotage.errors import PilotageError

_DONE = b"[DONE]"
# A connection can be used again if its body is read to the end, which is a few bytes after the last event.
_DRAIN_SECONDS = 0.25
_DRAIN_READS = 4


class ReplyStream:
    """Reader of one reply. Success is a finish reason, no error, and the end mark of the server."""

    def __init__(self, stream: ServerStream, reader: ReplyReader, timeouts: ModelTimeouts) -> None:
        self._stream = stream
        self._reader = reader
        self._timeouts = timeouts
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
        if len(sent) == 1 and sent[0].data != _DONE:
            events = self._reader.read(sent[0].data)
        else:
            events = await self._read_several(sent)
        if not piece and not self._is_over:
            raise failed(ModelFailure.BROKEN_STREAM, "it ended without [DONE]")
        return events

    async def _read_several(self, sent: Sequence[SseEvent]) -> Sequence[ModelStreamEvent]:
        events: list[ModelStreamEvent] = []
        try:
            for event in sent:
                if event.data == _DONE:
                    await self._drain()
                    self._is_over = True
                    return events + self._reader.finish()[1]
                events += self._reader.read(event.data)
        except PilotageError as error:
            if not events:
                raise
            # Events before the failure are returned first, in whatever pieces they arrived.
            self._failure = error
        return events

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

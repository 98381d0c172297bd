"""`AgUiRunDriver`: one run as a stream of encoded AG-UI events, for every transport.

Whatever breaks, the client gets closed frames and one end; leaving the stream leaves a durable run as it is.
"""

from __future__ import annotations

import logging
from collections.abc import AsyncGenerator, AsyncIterable, AsyncIterator, Awaitable, Callable, Iterator
from contextlib import aclosing
from typing import Protocol, TypeAlias

from ag_ui.core import RunAgentInput

from pilotage.adapters.agui.bookmark import Bookmark
from pilotage.adapters.agui.encoder import AgUiEncoder, SseEncoder
from pilotage.adapters.agui.projector import BROKEN, AgUiProjector
from pilotage.adapters.agui.stream import FrameStream, Marked, RecentFrames, VoidBookmarkError
from pilotage.agent.events import AgentEvent
from pilotage.agent.run_values import RunAgentInput as CoreRunInput
from pilotage.errors import PilotageError
from pilotage.runtime.events.feed import EventCursor
from pilotage.runtime.events.subscription import Subscription
from pilotage.runtime.journal.interruptions import RunInterruption
from pilotage.runtime.run.opened import OpenedRun

_LOG = logging.getLogger(__name__)

RunDriverFactory: TypeAlias = Callable[
    [CoreRunInput, RunAgentInput, str | None], AsyncIterable[str] | Awaitable[AsyncIterable[str]]
]
"""Makes the stream for one input; `accept` is what the client accepts, where the transport knows."""


class RunOpener(Protocol):
    """Opens runs; an `AgentRunner` does."""

    async def open(self, given: object, /) -> OpenedRun:
        """A run for this input."""
        ...


class AgUiRunDriver(AsyncIterable[str]):
    """Opens a run, reads its events and encodes what the projector makes of them.

    A client that comes back has `seen` some of the stream: it is told what follows, or where that cannot be, everything
    again from RUN_STARTED on.
    """

    def __init__(
        self,
        runner: RunOpener,
        run_input: CoreRunInput,
        agent_id: str,
        projector: AgUiProjector | None = None,
        encoder: AgUiEncoder | None = None,
        *,
        seen: Bookmark | None = None,
        recent: RecentFrames | None = None,
    ) -> None:
        self._runner = runner
        self._input = run_input
        self._agent_id = agent_id
        self._projector = projector or AgUiProjector(
            run_id=run_input.state_id, thread_id=run_input.effective_conversation_id
        )
        self._encoder = encoder or SseEncoder()
        self._seen = seen
        self._recent = recent or RecentFrames()
        self._stream = FrameStream(self._projector)

    def __aiter__(self) -> AsyncIterator[str]:
        return self._frames()

    async def _frames(self) -> AsyncGenerator[str, None]:
        run: OpenedRun | None = None
        last: list[Marked] = []
        try:
            run = await self._runner.open(self._input)
            for each in self._told_before():
                yield self._encoded(each)
            async with aclosing(self._told_of(run)) as told:
                async for each in told:
                    yield self._encoded(each)
        except (Exception, RunInterruption) as error:  # noqa: BLE001 - the top of a stream: its client gets an end
            last = self._broken(error)
        finally:
            if run is not None:
                await run.leave()
        for each in last:
            yield self._encoded(each)

    def _told_before(self) -> Iterator[Marked]:
        """Return the frames after the last one of the client that this process remembers."""
        if self._seen is not None:
            for mark, frame in self._recent.behind(self._seen):
                self._seen = mark
                yield mark, frame
            self._stream = FrameStream(self._projector, self._seen)

    async def _told_of(self, run: OpenedRun) -> AsyncGenerator[Marked, None]:
        try:
            async with aclosing(self._told(run)) as told:
                async for each in told:
                    yield each
        except VoidBookmarkError:
            self._stream, self._seen = FrameStream(self._projector.fresh()), None
            async with aclosing(self._told(run)) as told:
                async for each in told:
                    yield each

    async def _told(self, run: OpenedRun) -> AsyncGenerator[Marked, None]:
        events = run.events()
        origin = _cursor_of(events)
        self._stream.begin(run.id, origin)
        if self._seen is None and origin is not None:
            self._seen = Bookmark(run.id, origin, origin)
        async for event in events:
            for each in self._stream.take(event, _cursor_of(events)):
                yield self._noted(each)
        await run.result()
        for each in self._stream.finish():
            yield self._noted(each)

    def _noted(self, told: Marked) -> Marked:
        mark, frame = told
        if self._seen is not None and mark is not None:
            self._recent.note(self._seen, mark, frame)
            self._seen = mark
        return told

    def _encoded(self, marked: Marked) -> str:
        bookmark, frame = marked
        return self._encoder.encode(frame, str(bookmark) if bookmark is not None else None)

    def _broken(self, error: BaseException) -> list[Marked]:
        if isinstance(error, PilotageError):
            return self._stream.fail(str(error), error.code)
        # What others raise may name what clients should not read.
        _LOG.error("the AG-UI stream of agent %r broke: %s", self._agent_id, type(error).__name__)
        return self._stream.fail("The stream of the run broke.", BROKEN)


def _cursor_of(events: AsyncIterator[AgentEvent]) -> EventCursor | None:
    return EventCursor.parse(events.cursor) if isinstance(events, Subscription) else None

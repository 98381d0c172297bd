"""`AgUiRunDriver`: one run as a stream of encoded AG-UI events, each with its bookmark, for every transport.

A `Bookmark` is the id of a frame, from which the stream goes on exactly, in this process or in another: the stream is
projected anew from its origin, and sent from the bookmark on. If that is impossible, because the process that sent the
frame died before the event was stored, the stream begins again with RUN_STARTED.

After any error, the client gets closed frames and one end; leaving the stream does not affect a durable run.
"""

from __future__ import annotations

import logging
import re
from collections import OrderedDict
from collections.abc import (
    AsyncGenerator,
    AsyncIterable,
    AsyncIterator,
    Awaitable,
    Callable,
    Iterator,
    Sequence,
)
from contextlib import AsyncExitStack, aclosing
from functools import partial
from typing import ClassVar, Protocol, TypeAlias, runtime_checkable
from weakref import WeakKeyDictionary

from ag_ui.core import BaseEvent, RunAgentInput

from pilotage.adapters.agui.encoding import AgUiEncoder, PlainEncoder, SseEncoder, with_cursors
from pilotage.adapters.agui.errors import AgUiRunResolutionError, AgUiThreadBusyError
from pilotage.adapters.agui.projector import BROKEN, AgUiProjector
from pilotage.agent.events import AgentEvent, delta_of, with_text
from pilotage.agent.run_values import RunAgentInput as CoreRunInput
from pilotage.container.application import Application
from pilotage.errors import CallerError, PilotageError
from pilotage.runtime.events.feed import EventCursor
from pilotage.runtime.events.subscription import Subscription
from pilotage.runtime.journal.interruptions import RunInterruption
from pilotage.values import value

_BOOKMARK = re.compile(r"([!-}]{1,200})~([0-9.]{1,60})~([0-9.]{1,60})~(e?)([0-9]{1,6})")
_MOST = 2_000


@value
class Bookmark:
    """A frame of a stream: the run, the cursor where the stream began, the event, and the number of its frame.

    `part` counts the frames of the event from one; zero is the last of them, after which the event is complete. The
    frames of the end come after the last event, and are counted separately.
    """

    run_id: str
    origin: EventCursor
    at: EventCursor
    part: int = 0
    is_of_the_end: bool = False

    def __str__(self) -> str:
        return f"{self.run_id}~{self.origin}~{self.at}~{'e' if self.is_of_the_end else ''}{self.part}"

    @classmethod
    def parse(cls, text: str) -> Bookmark:
        """Return the bookmark that `str` wrote; raise AgUiRunResolutionError for any other text."""
        found = _BOOKMARK.fullmatch(text)
        try:
            if found is not None:
                origin, at = EventCursor.parse(found[2]), EventCursor.parse(found[3])
                return cls(found[1], origin, at, int(found[5]), bool(found[4]))
        except CallerError:
            pass
        raise AgUiRunResolutionError(
            "the last event id is none of a frame that was sent here. Send the id of the last frame, or none to read "
            "the stream from its beginning."
        )

    def is_void(self, reached: EventCursor | None, ahead: EventCursor | None) -> bool:
        """Return whether the frame is void: by the cursor read up to it, and the first one after it.

        None is the beginning, or the end, of the stream.
        """
        if self.is_of_the_end:
            return ahead is not None or self.at not in (self.origin, reached)
        if not self.part:
            return self.at not in (self.origin, reached)
        return ahead is None or (ahead.epoch, ahead.number) != (self.at.epoch, self.at.number)

    def split(self, event: AgentEvent, at: EventCursor) -> tuple[AgentEvent | None, AgentEvent | None]:
        """Return the part of an event before the bookmark, and the part after it."""
        if at.number != self.at.number:
            return (event, None) if at.number < self.at.number else (None, event)
        if self.part and not self.is_of_the_end:
            return None, event
        piece = delta_of(event)
        if piece is None or at.offset <= self.at.offset:
            return event, None
        cut = len(piece[1]) - (at.offset - self.at.offset)
        if cut <= 0:
            return None, event
        return with_text(event, piece[1][:cut]), with_text(event, piece[1][cut:])


Marked: TypeAlias = tuple[Bookmark | None, BaseEvent]
"""A frame, and its bookmark if the run can be read again."""


class VoidBookmarkError(Exception):
    """The bookmark of a client is void: its stream begins again."""


class FrameStream:
    """Frames of the events of a run, in order. Events before `seen` are projected and not returned."""

    def __init__(self, projector: AgUiProjector, seen: Bookmark | None = None) -> None:
        self._projector = projector
        self._seen = seen
        self._run_id = ""
        self._origin: EventCursor | None = None
        self._last: EventCursor | None = None
        self._reached: EventCursor | None = None

    def begin(self, run_id: str, origin: EventCursor | None) -> None:
        """Set the run, and the cursor where the stream begins."""
        self._run_id, self._origin, self._last = run_id, origin, origin

    def take(self, event: AgentEvent, at: EventCursor | None) -> list[Marked]:
        """Return the frames of an event; `at` is the cursor after it. Raise VoidBookmarkError where `seen` is void."""
        seen = self._seen
        if seen is None or at is None:
            return self._marked(event, at)
        before, after = seen.split(event, at)
        if before is not None:
            self._projector.project(before)
            self._reached = at if after is None else seen.at
            self._last = at
        if after is None:
            return []
        self._check(seen, at)
        return self._marked(after, at)[seen.part :]

    def finish(self) -> list[Marked]:
        """Return the last frames. Raise VoidBookmarkError where `seen` is void."""
        return self._last_frames(self._projector.finish)

    def _last_frames(self, frames: Callable[[], list[BaseEvent]]) -> list[Marked]:
        seen = self._seen
        if seen is None:
            return self._ending(frames())
        self._check(seen, None)
        return self._ending(frames())[seen.part :]

    def fail(self, message: str, code: str) -> list[Marked]:
        """End the stream with an error."""
        return self._ending(self._projector.fail(message, code))

    def refuse_message(self, message: str, code: str) -> list[Marked]:
        """End the stream of a message that cannot be taken, with a text that pages show."""
        return self._ending(self._projector.refuse_message(message, code))

    def next_run(self, notices: Sequence[BaseEvent], *, is_last: bool) -> list[Marked]:
        """End an earlier run of the stream, before one with notices. Raise VoidBookmarkError where `seen` is void."""
        return self._last_frames(partial(self._projector.next_run, notices, is_last=is_last))

    def _check(self, seen: Bookmark, ahead: EventCursor | None) -> None:
        if seen.is_void(self._reached, ahead):
            raise VoidBookmarkError
        self._seen = None

    def _marked(self, event: AgentEvent, at: EventCursor | None) -> list[Marked]:
        self._last = at
        frames = self._projector.project(event)
        parts = [*range(1, len(frames)), 0]
        return [(self._mark(part), frame) for part, frame in zip(parts, frames, strict=False)]

    def _ending(self, frames: list[BaseEvent]) -> list[Marked]:
        return [(self._mark(part, is_of_the_end=True), frame) for part, frame in enumerate(frames, start=1)]

    def _mark(self, part: int, *, is_of_the_end: bool = False) -> Bookmark | None:
        if self._last is None or self._origin is None:
            return None
        return Bookmark(self._run_id, self._origin, self._last, part, is_of_the_end)


class RecentFrames:
    """The last frames that this process sent, of all runs, each by its client's run id and the bookmark before it.

    Streams of several clients over one run differ: each has its own ids, and ends where its client's run ends. It is
    only a cache: other frames are projected again.
    """

    _shared: ClassVar[WeakKeyDictionary[Application, RecentFrames]] = WeakKeyDictionary()

    def __init__(self, most: int = _MOST) -> None:
        self._most = most
        self._after: OrderedDict[tuple[str, Bookmark], tuple[Bookmark, BaseEvent]] = OrderedDict()

    @staticmethod
    def of(app: Application) -> RecentFrames:
        """Return the pod of an application, else the frames that all its streams share."""
        return app.get_or_none(RecentFrames) or RecentFrames._shared.setdefault(app, RecentFrames())

    def note(self, client: str, before: Bookmark, mark: Bookmark, frame: BaseEvent) -> None:
        """Add a frame of a client by the bookmark before it; the first one counts."""
        self._after.setdefault((client, before), (mark, frame))
        if len(self._after) > self._most:
            self._after.popitem(last=False)

    def after(self, client: str, seen: Bookmark) -> Iterator[tuple[Bookmark, BaseEvent]]:
        """Return the frames of a client after a bookmark, each with its own."""
        while (following := self._after.get((client, seen))) is not None:
            yield following
            seen, _ = following


_LOG = logging.getLogger(__name__)

RunDriverFactory: TypeAlias = Callable[
    [CoreRunInput, RunAgentInput, str | None], AsyncIterable[str] | Awaitable[AsyncIterable[str]]
]
"""Makes the stream for one input; `accept` is what the client accepts, where the transport knows."""


class StreamedRun(Protocol):
    """A run with the reader that opened it; an `OpenedRun` is one."""

    @property
    def id(self) -> str:
        """Return the id of the run."""
        ...

    def events(self) -> AsyncIterator[AgentEvent]:
        """Return the events of the run."""
        ...

    def result(self) -> Awaitable[object]:
        """Return when the run has ended or waits; raise the error that ended the attempt."""
        ...

    async def leave(self) -> None:
        """Unsubscribe from the run."""
        ...


class RunOpener(Protocol):
    """Opens runs; an `AgentRunner` does."""

    def open(self, given: CoreRunInput, /) -> Awaitable[StreamedRun]:
        """Return a run for this input."""
        ...


@runtime_checkable
class NotedRun(Protocol):
    """A run with frames for the beginning of its stream, and perhaps a run that follows in the same stream.

    With `is_held` another process has it.
    """

    notices: Sequence[BaseEvent]
    is_held: bool
    following: Callable[[], Awaitable[StreamedRun | None]] | None


class AgUiRunDriver(AsyncIterable[str]):
    """One run as a stream of encoded frames.

    A client that reconnects has `seen` a part of the stream: it gets the frames after it or, if that is impossible,
    all of them again from RUN_STARTED on.
    """

    def __init__(
        self,
        runner: RunOpener,
        run_input: CoreRunInput,
        agent_id: str,
        projector: AgUiProjector | None = None,
        encoder: AgUiEncoder | PlainEncoder | None = None,
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
        self._encoder = with_cursors(encoder or SseEncoder())
        self._seen = seen
        self._recent = recent or RecentFrames()
        self._stream = FrameStream(self._projector)

    def __aiter__(self) -> AsyncIterator[str]:
        return self._frames()

    async def _frames(self) -> AsyncGenerator[str, None]:
        run: StreamedRun | None = None
        last: list[Marked] = []
        try:
            run = await self._runner.open(self._input)
            self._announce(run)
            for frame in self._first_frames(run):
                yield self._encoded((None, frame))
            for each in self._cached_frames():
                yield self._encoded(each)
            async with aclosing(self._frames_of(run)) as frames:
                async for each in frames:
                    yield self._encoded(each)
        except (Exception, RunInterruption) as error:  # noqa: BLE001 - the top of a stream: its client gets an end
            last = self._broken(error)
        finally:
            if run is not None:
                await run.leave()
        for each in last:
            yield self._encoded(each)

    def _announce(self, run: StreamedRun) -> None:
        if isinstance(run, NotedRun):
            self._projector.begin(run.notices, is_earlier=run.following is not None)

    def _first_frames(self, run: StreamedRun) -> Sequence[BaseEvent]:
        """Return the frames to send at once: a run that another process holds may have no event for a while.

        A client that reconnects has RUN_STARTED.
        """
        if not isinstance(run, NotedRun) or not run.is_held:
            return ()
        return run.notices if self._seen is not None else self._projector.begin_now()

    def _cached_frames(self) -> Iterator[Marked]:
        """Yield the cached frames after the last one of the client."""
        if self._seen is not None:
            for mark, frame in self._recent.after(self._projector.client_run_id, self._seen):
                self._seen = mark
                yield mark, frame
            self._stream = FrameStream(self._projector, self._seen)

    async def _frames_of(self, run: StreamedRun) -> AsyncGenerator[Marked, None]:
        try:
            async with aclosing(self._read_all(run)) as frames:
                async for each in frames:
                    yield each
        except VoidBookmarkError:
            self._projector = self._projector.fresh()
            self._announce(run)
            self._stream, self._seen = FrameStream(self._projector), None
            async with aclosing(self._read_all(run)) as frames:
                async for each in frames:
                    yield each

    async def _read_all(self, run: StreamedRun) -> AsyncGenerator[Marked, None]:
        """Read a run, and those that follow in the same stream."""
        passed: set[str] = set()
        async with AsyncExitStack() as opened:
            while (following := run.following if isinstance(run, NotedRun) else None) is not None:
                # The cached frames may have come to a run that follows.
                passed.add(run.id)
                is_read = self._seen is not None and self._seen.run_id not in passed
                if not is_read:
                    async with aclosing(self._read(run, is_last=False)) as frames:
                        async for each in frames:
                            yield each
                after = await following()
                if after is None:
                    for each in self._stream.finish():
                        yield self._noted(each)
                    return
                opened.push_async_callback(after.leave)
                notices = after.notices if isinstance(after, NotedRun) else ()
                is_last = not isinstance(after, NotedRun) or after.following is None
                if is_read:
                    self._projector.next_run(notices, is_last=is_last)
                else:
                    for each in self._stream.next_run(notices, is_last=is_last):
                        yield self._noted(each)
                run = after
            async with aclosing(self._read(run)) as frames:
                async for each in frames:
                    yield each

    async def _read(self, run: StreamedRun, *, is_last: bool = True) -> AsyncGenerator[Marked, None]:
        events = run.events()
        origin = _cursor_of(events)
        self._stream.begin(run.id, origin)
        if self._seen is None and origin is not None:
            self._seen = Bookmark(run.id, origin, origin)
        async for event in events:
            for each in self._stream.take(event, _cursor_of(events)):
                yield self._noted(each)
        await run.result()
        if is_last:
            for each in self._stream.finish():
                yield self._noted(each)

    def _noted(self, marked: Marked) -> Marked:
        mark, frame = marked
        if self._seen is not None and mark is not None:
            self._recent.note(self._projector.client_run_id, self._seen, mark, frame)
            self._seen = mark
        return marked

    def _encoded(self, marked: Marked) -> str:
        bookmark, frame = marked
        return self._encoder.encode(frame, str(bookmark) if bookmark is not None else None)

    def _broken(self, error: BaseException) -> list[Marked]:
        if isinstance(error, AgUiThreadBusyError):
            return self._stream.refuse_message(str(error), error.code)
        if isinstance(error, PilotageError):
            return self._stream.fail(str(error), error.code)
        # Messages of other errors may contain data that clients should not read.
        _LOG.error("the AG-UI stream of agent %r broke: %s", self._agent_id, type(error).__name__)
        return self._stream.fail("The stream of the run broke.", BROKEN)


def _cursor_of(events: AsyncIterator[AgentEvent]) -> EventCursor | None:
    return EventCursor.parse(events.cursor) if isinstance(events, Subscription) else None

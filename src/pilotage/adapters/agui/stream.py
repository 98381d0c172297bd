"""`FrameStream`: the frames of one stream with their bookmarks, after the one that a client has; and recent frames."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterator, Sequence
from typing import ClassVar, TypeAlias
from weakref import WeakKeyDictionary

from ag_ui.core import BaseEvent

from pilotage.adapters.agui.bookmark import Bookmark
from pilotage.adapters.agui.projector import AgUiProjector
from pilotage.agent.events import AgentEvent
from pilotage.container.application import Application
from pilotage.runtime.events.feed import EventCursor

_MOST = 2_000
Marked: TypeAlias = tuple[Bookmark | None, BaseEvent]
"""A frame, and its bookmark where the run is one that can be read again."""


class VoidBookmarkError(Exception):
    """The bookmark of a client does not count any more: its stream begins again."""


class FrameStream:
    """Takes the events of a run in order. Events before `seen` are projected and not returned."""

    def __init__(self, projector: AgUiProjector, seen: Bookmark | None = None) -> None:
        self._projector = projector
        self._seen = seen
        self._run_id = ""
        self._origin: EventCursor | None = None
        self._last: EventCursor | None = None
        self._reached: EventCursor | None = None

    def begin(self, run_id: str, origin: EventCursor | None) -> None:
        """The run is known, and where in it the stream begins."""
        self._run_id, self._origin, self._last = run_id, origin, origin

    def take(self, event: AgentEvent, at: EventCursor | None) -> list[Marked]:
        """Return the frames of an event; `at` is the cursor after it.

        Raises:
            VoidBookmarkError: the client has what does not count any more.
        """
        seen = self._seen
        if seen is None or at is None:
            return self._told(event, at)
        before, behind = seen.split(event, at)
        if before is not None:
            self._projector.project(before)
            self._reached = at if behind is None else seen.at
            self._last = at
        if behind is None:
            return []
        self._check(seen, at)
        return self._told(behind, at)[seen.part :]

    def finish(self) -> list[Marked]:
        """The events are over.

        Raises:
            VoidBookmarkError: the client has what does not count any more.
        """
        seen = self._seen
        if seen is None:
            return self._ending(self._projector.finish())
        self._check(seen, None)
        return self._ending(self._projector.finish())[seen.part :]

    def fail(self, message: str, code: str) -> list[Marked]:
        """End the stream with an error."""
        return self._ending(self._projector.fail(message, code))

    def _check(self, seen: Bookmark, ahead: EventCursor | None) -> None:
        if seen.is_void(self._reached, ahead):
            raise VoidBookmarkError
        self._seen = None

    def _told(self, event: AgentEvent, at: EventCursor | None) -> list[Marked]:
        self._last = at
        frames = self._projector.project(event)
        parts = [*range(1, len(frames)), 0]
        return [(self._mark(part), frame) for part, frame in zip(parts, frames, strict=False)]

    def _ending(self, frames: Sequence[BaseEvent]) -> list[Marked]:
        return [(self._mark(part, is_of_the_end=True), frame) for part, frame in enumerate(frames, start=1)]

    def _mark(self, part: int, *, is_of_the_end: bool = False) -> Bookmark | None:
        if self._last is None or self._origin is None:
            return None
        return Bookmark(self._run_id, self._origin, self._last, part, is_of_the_end)


class RecentFrames:
    """The last frames that this process sent, of all runs, each by the bookmark before it.

    Nothing depends on it: frames that are forgotten, or were sent by another process, are projected again.
    """

    _known: ClassVar[WeakKeyDictionary[Application, RecentFrames]] = WeakKeyDictionary()

    def __init__(self, most: int = _MOST) -> None:
        self._most = most
        self._behind: OrderedDict[Bookmark, tuple[Bookmark, BaseEvent]] = OrderedDict()

    @staticmethod
    def of(app: Application) -> RecentFrames:
        """Return the pod of an application, else the frames that all its streams share."""
        return app.get_or_none(RecentFrames) or RecentFrames._known.setdefault(app, RecentFrames())

    def note(self, before: Bookmark, mark: Bookmark, frame: BaseEvent) -> None:
        """Remember a frame by the bookmark before it; the first one counts."""
        self._behind.setdefault(before, (mark, frame))
        if len(self._behind) > self._most:
            self._behind.popitem(last=False)

    def behind(self, seen: Bookmark) -> Iterator[tuple[Bookmark, BaseEvent]]:
        """Return the frames after a bookmark, each with its own."""
        while (told := self._behind.get(seen)) is not None:
            yield told
            seen, _ = told

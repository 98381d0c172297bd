"""`Bookmark`: the id of a frame, from which its stream goes on exactly, in this process or in another. Pure.

A stream is read anew from where it began, and told again from behind the bookmark. Where that cannot be, because the
process that told the frame died before it could keep it, the stream begins again with RUN_STARTED.
"""

from __future__ import annotations

import re

from pilotage.adapters.agui.errors import AgUiRunResolutionError
from pilotage.agent.events import AgentEvent
from pilotage.errors import CallerError
from pilotage.runtime.events.feed import EventCursor
from pilotage.runtime.exposure.deltas import delta_of, with_text
from pilotage.values import value

_BOOKMARK = re.compile(r"([!-}]{1,200})~([0-9.]{1,60})~([0-9.]{1,60})~(e?)([0-9]{1,6})")


@value
class Bookmark:
    """A frame of a stream: the run, where in it the stream began, the event, and which of its frames.

    `part` counts the frames of the event from one; zero is the last of them, behind which the event is told. The frames
    of the end stand behind the last event, and are counted by themselves.
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
        """The bookmark that `str` wrote.

        Raises:
            AgUiRunResolutionError: the text is none.
        """
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
        """Return whether the frame does not count any more: by the cursor read up to it, and the first one after it.

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

"""A client that has what it was told, over any number of connections: what it has comes to the uncut stream."""

from __future__ import annotations

import re
from typing import Any

from tests.adapters.agui.bank import Frame
from tests.adapters.agui.transports import Read

_DELTAS = ("TEXT_MESSAGE_CONTENT", "REASONING_MESSAGE_CONTENT", "TOOL_CALL_ARGS")


class Client:
    """Keeps frames. A stream that begins again is the whole of it: what was there before does not count."""

    def __init__(self, read: list[Read] | None = None) -> None:
        self.read: list[Read] = []
        self.restarts = 0
        self.add(read or [])

    def add(self, read: list[Read]) -> None:
        """Take frames in."""
        for frame_id, frame in read:
            if frame["type"] == "RUN_STARTED" and self.read:
                self.read, self.restarts = [], self.restarts + 1
            self.read.append((frame_id, frame))

    @property
    def last(self) -> str | None:
        """The id of the last frame."""
        return self.read[-1][0] if self.read else None

    @property
    def is_over(self) -> bool:
        """Whether the run has told its end."""
        return bool(self.read) and self.read[-1][1]["type"] == "RUN_FINISHED"

    @property
    def frames(self) -> list[Frame]:
        """What counts of it: deltas joined, superseded text dropped."""
        return joined([frame for _, frame in self.read])


def joined(frames: list[Frame]) -> list[Frame]:
    """Frames without what is superseded; deltas of one text that follow one another are one."""
    together: list[Frame] = []
    for frame in _without_superseded(frames):
        last = together[-1] if together else {}
        if frame["type"] in _DELTAS and {**frame, "delta": ""} == {**last, "delta": ""}:
            together[-1] = {**last, "delta": last["delta"] + frame["delta"]}
        else:
            together.append(frame)
    return together


def anonymous(frames: list[Frame]) -> list[str]:
    """Frames without the ids of runs and the epochs of their owners."""
    return [re.sub(r"@\d+", "", re.sub(r"[0-9a-f]{32}", "run", repr(frame))) for frame in frames]


def _without_superseded(frames: list[Frame]) -> list[Frame]:
    kept: list[Frame] = []
    void: set[tuple[str, Any]] = set()
    for frame in reversed(frames):
        about = {(name, frame.get(name)) for name in ("messageId", "toolCallId") if name in frame}
        if frame["type"] == "CUSTOM" and frame["name"] == "superseded":
            void |= set(frame["value"].items())
        elif not about & void:
            kept.append(frame)
        elif frame["type"] == "TOOL_CALL_START":
            # A call that is asked for again may have the same id: the mark reaches back to the start of one.
            void -= about
    return kept[::-1]

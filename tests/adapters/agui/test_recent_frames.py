"""Frames that were told lately are told again in the same pieces, and no more of them are kept than allowed."""

from __future__ import annotations

from ag_ui.core import RunErrorEvent

from pilotage.adapters.agui import Bookmark
from pilotage.adapters.agui.stream import RecentFrames
from pilotage.runtime.events.feed import START, EventCursor

MARKS = [Bookmark("run-1", START, EventCursor(1, number)) for number in range(5)]
FRAMES = [RunErrorEvent(message=str(number)) for number in range(5)]


def told(most: int) -> RecentFrames:
    recent = RecentFrames(most)
    for before, mark, frame in zip(MARKS, MARKS[1:], FRAMES[1:], strict=False):
        recent.note("client-1", before, mark, frame)
    return recent


def test_frames_follow_one_another_and_what_was_told_first_counts() -> None:
    recent = told(10)
    recent.note("client-1", MARKS[1], MARKS[4], FRAMES[0])
    assert list(recent.after("client-1", MARKS[2])) == [(MARKS[3], FRAMES[3]), (MARKS[4], FRAMES[4])]
    assert [frame for _, frame in recent.after("client-1", MARKS[0])] == FRAMES[1:]
    assert list(recent.after("client-1", MARKS[4])) == []


def test_the_oldest_are_forgotten() -> None:
    recent = told(2)
    assert list(recent.after("client-1", MARKS[0])) == []
    assert [frame for _, frame in recent.after("client-1", MARKS[2])] == FRAMES[3:]
    assert list(told(0).after("client-1", MARKS[3])) == []

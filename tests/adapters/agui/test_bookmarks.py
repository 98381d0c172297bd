"""Bookmarks: where a stream goes on, and when it begins again."""

from __future__ import annotations

import pytest
from ag_ui.core import BaseEvent
from tests.adapters.agui.samples import BY

from pilotage.adapters.agui import AgUiProjector, AgUiRunResolutionError, Bookmark
from pilotage.adapters.agui.stream import FrameStream, VoidBookmarkError
from pilotage.agent import (
    AgentEvent,
    MessageDeltaEvent,
    RunFinishedEvent,
    RunPausedEvent,
    RunStartedEvent,
    StepStartedEvent,
)
from pilotage.agent.state import AgentStateReason
from pilotage.runtime.events.feed import START, EventCursor

Told = list[tuple[AgentEvent, EventCursor]]


def at(text: str) -> EventCursor:
    return EventCursor.parse(text)


def read(told: Told, seen: Bookmark | None = None, *, finish: bool = True) -> list[tuple[str, BaseEvent]]:
    stream = FrameStream(AgUiProjector(), seen)
    stream.begin("run-1", START)
    marked = [each for event, cursor in told for each in stream.take(event, cursor)]
    marked += stream.finish() if finish else []
    return [(str(mark), frame) for mark, frame in marked]


def piece(text: str) -> MessageDeltaEvent:
    return MessageDeltaEvent(BY, "m", text)


WHOLE: Told = [
    (RunStartedEvent(BY), at("1.1.0")),
    (StepStartedEvent(BY, "s"), at("1.2.0")),
    (piece("Good "), at("1.3.5")),
    (piece("day"), at("1.3.8")),
    (RunPausedEvent(BY, AgentStateReason.APPROVAL_REQUIRED, "?", "run-1", "a"), at("1.4.0")),
]
TOGETHER: Told = [*WHOLE[:2], (piece("Good day"), at("1.3.8")), WHOLE[-1]]


@pytest.mark.parametrize("again", [WHOLE, TOGETHER], ids=["in the same pieces", "in one piece"])
def test_a_stream_goes_on_behind_every_frame(again: Told) -> None:
    whole = read(WHOLE)
    assert len({mark for mark, _ in whole}) == len(whole)
    for cut, (mark, _) in enumerate(whole, start=1):
        rest = read(again, Bookmark.parse(mark))
        texts = "".join(getattr(frame, "delta", "") for _, frame in whole[:cut] + rest)
        assert texts.startswith("Good day")
        assert [f.type for _, f in rest if f.type != "TEXT_MESSAGE_CONTENT"] == [
            f.type for _, f in whole[cut:] if f.type != "TEXT_MESSAGE_CONTENT"
        ]


@pytest.mark.parametrize(
    ("seen", "again"),
    [
        ("1.3.8~0", [*WHOLE[:3], (RunFinishedEvent(BY), at("2.4.0"))]),  # of the text only a part was kept
        ("1.3.8~0", [*WHOLE[:2], (piece("Other"), at("2.3.5"))]),  # the text is another one's
        ("1.3.5~1", [*WHOLE[:2], (piece("Other"), at("2.3.5"))]),  # so is the one that had begun
        ("1.3.8~0", WHOLE[:2]),  # there is no text any more
        ("1.3.5~1", WHOLE[:2]),
        ("1.9.0~0", WHOLE),
        ("1.4.0~e1", [*WHOLE, (RunStartedEvent(BY), at("2.5.0"))]),  # what seemed to wait has gone on
    ],
)
def test_what_was_lost_with_its_process_is_void(seen: str, again: Told) -> None:
    with pytest.raises(VoidBookmarkError):
        read(again, Bookmark.parse(f"run-1~0.0.0~{seen}"))


@pytest.mark.parametrize(
    "text", ["", "x", "1.2.3", "r~1.1~1.1.1~0", "r~1.1.1~1.1.1~", "r~0.0.0~1.1.1~0\n", "é~0.0.0~1.1.1~0"]
)
def test_what_is_no_bookmark_is_refused(text: str) -> None:
    with pytest.raises(AgUiRunResolutionError, match="Send the id of the last frame"):
        Bookmark.parse(text)

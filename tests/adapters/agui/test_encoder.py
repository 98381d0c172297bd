"""Events as text: each frame is one event, whatever is in it."""

from __future__ import annotations

import json

import pytest
from ag_ui.core import RunErrorEvent, TextMessageContentEvent

from pilotage.adapters.agui import NdjsonEncoder, SseEncoder, encoder_for, line_of

EVENT = TextMessageContentEvent(message_id="m1", delta="a\nb")
JSON = '{"type":"TEXT_MESSAGE_CONTENT","messageId":"m1","delta":"a\\nb"}'


def test_an_sse_frame_has_its_cursor_as_id() -> None:
    assert SseEncoder().encode(EVENT, "1.2.3") == f"id: 1.2.3\ndata: {JSON}\n\n"
    assert SseEncoder().encode(EVENT) == f"data: {JSON}\n\n"


def test_a_line_has_its_cursor_in_the_metadata_of_the_event() -> None:
    with_cursor = JSON.replace('"messageId"', '"metadata":{"cursor":"1.2.3"},"messageId"')
    assert NdjsonEncoder().encode(EVENT, "1.2.3") == f"{with_cursor}\n"
    assert NdjsonEncoder().encode(EVENT) == f"{JSON}\n"


@pytest.mark.parametrize("frame", [f"id: 1.2.3\ndata: {JSON}\n\n", f"data: {JSON}\n\n", f"{JSON}\n"])
def test_every_frame_becomes_the_same_line(frame: str) -> None:
    assert line_of(frame) == f"{JSON}\n"


@pytest.mark.parametrize("text", ["\ud800", "a\r\ndata: b\n\n", "\u2028", "id: 1\n"])
def test_whatever_the_text_it_comes_back_from_one_frame(text: str) -> None:
    frame = SseEncoder().encode(RunErrorEvent(message=text), "1.1.1")
    assert frame.count("\n") == 3
    assert json.loads(line_of(frame))["message"] == text


@pytest.mark.parametrize(
    ("accept", "content_type"),
    [
        (None, "text/event-stream"),
        ("*/*", "text/event-stream"),
        ("application/x-ndjson", "application/x-ndjson"),
    ],
)
def test_the_client_says_what_it_accepts(accept: str | None, content_type: str) -> None:
    assert encoder_for(accept).content_type == content_type

"""Server-sent events, by the standard."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pilotage.adapters.model_http.decoding import SseEvent, SseParser


def parsed(*pieces: bytes) -> list[SseEvent]:
    parser = SseParser()
    return [event for piece in pieces for event in parser.feed(piece)] + parser.close()


@pytest.mark.parametrize(
    ("body", "events"),
    [
        (b"data: a\n\n", [SseEvent(b"a")]),
        (b"data:a\n\n", [SseEvent(b"a")]),
        (b"data:  a\n\n", [SseEvent(b" a")]),
        (b"data: a\ndata: b\n\n", [SseEvent(b"a\nb")]),
        (b"data: a\n\ndata: b\n\n", [SseEvent(b"a"), SseEvent(b"b")]),
        (b"event: ping\ndata: a\n\n", [SseEvent(b"a", "ping")]),
        (b"id: 7\ndata: a\n\ndata: b\n\n", [SseEvent(b"a", id="7"), SseEvent(b"b", id="7")]),
        (b": comment\n\ndata: a\n\n", [SseEvent(b"a")]),
        (b"event: ping\n\ndata: a\n\n", [SseEvent(b"a")]),
        (b"retry: 10\nunknown: x\nnonsense\ndata: a\n\n", [SseEvent(b"a")]),
        (b"data\n\n", []),
        (b"data:\n\n", []),
        (b"data:\ndata: a\n\n", [SseEvent(b"\na")]),
        (b"data: a\r\n\r\ndata: b\r\r", [SseEvent(b"a"), SseEvent(b"b")]),
        (b"\xef\xbb\xbfdata: a\n\n", [SseEvent(b"a")]),
        (b"data: \xef\xbb\xbfa\n\n", [SseEvent(b"\xef\xbb\xbfa")]),
        (b"id: a\0b\ndata: a\n\n", [SseEvent(b"a")]),
        (b"data: a\ndata: \n\n", [SseEvent(b"a\n")]),
    ],
)
def test_fields_mean_what_the_standard_says(body: bytes, events: list[SseEvent]) -> None:
    assert parsed(body) == events
    assert parsed(*(body[at : at + 1] for at in range(len(body)))) == events


def test_an_event_that_the_end_of_the_stream_cut_is_given_at_the_close() -> None:
    parser = SseParser()
    assert parser.feed(b"data: a\n\ndata: [DONE]") == [SseEvent(b"a")]
    assert parser.close() == [SseEvent(b"[DONE]")]
    assert parser.close() == []


def test_an_event_is_given_as_soon_as_it_is_complete() -> None:
    parser = SseParser()
    assert parser.feed(b"data: a\r") == []
    assert parser.feed(b"\r") == [SseEvent(b"a")]
    assert parser.feed(b"\n") == []
    assert parser.feed(b"data: b\r\n\r") == [SseEvent(b"b")]


def test_an_empty_piece_between_the_two_halves_of_a_line_end_changes_nothing() -> None:
    assert parsed(b"data: a\r", b"", b"\ndata: b\r\n\r\n") == [SseEvent(b"a\nb")]


LINES = st.lists(
    st.sampled_from([b"data: x", b"data:", b"event: e", b"id: 1", b": c", b"", b"", b"z"]), max_size=20
)


@given(LINES, st.sampled_from([b"\n", b"\r", b"\r\n"]), st.lists(st.integers(0, 200), max_size=6))
def test_events_depend_on_the_bytes_alone(lines: list[bytes], end: bytes, cuts: list[int]) -> None:
    body = b"".join(line + end for line in lines)
    bounds = [0, *sorted(min(cut, len(body)) for cut in cuts), len(body)]
    pieces = [body[start:stop] for start, stop in zip(bounds, bounds[1:], strict=False)]  # noqa: RUF007
    assert parsed(*pieces) == parsed(body) == parsed(body.replace(end, b"\n"))

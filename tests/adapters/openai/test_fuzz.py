"""Whatever a server sends and however it comes: the right events or a typed error, never a wrong tool call."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Sequence
from itertools import pairwise
from typing import Any

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from tests.adapters.openai.byte_server import PLAIN, ByteServer, Told, model_of, told_of
from tests.adapters.openai.drips import DrippingTransport, told_by_drips
from tests.adapters.openai.traces import STREAMS, Trace, trace

from pilotage.adapters.model_http.decoding import SseParser
from pilotage.adapters.openai import (
    ModelFailure,
    ModelRetries,
    ModelServerError,
    ModelTimeouts,
    OpenAICompatibleSettings,
)
from pilotage.agent.tools.bind import unreadable_arguments
from pilotage.errors import ModelCallError

SMALL = [each for each in STREAMS if len(each.body) < 10_000 and not each.broke_off]
traces = st.sampled_from(SMALL)
fuzzed = settings(max_examples=100, deadline=None)


def frames_of(recorded: Trace) -> list[bytes]:
    return [frame + b"\n\n" for frame in recorded.body.split(b"\n\n") if frame]


def cut(data: st.DataObject, body: bytes) -> list[bytes]:
    positions = sorted(data.draw(st.lists(st.integers(0, len(body)), max_size=12)))
    bounds = [0, *positions, len(body)]
    return [body[start:end] for start, end in pairwise(bounds) if start < end]


def check_typed(reply: Told) -> None:
    """A reply is whole, or there is an error of ours; no third thing."""
    assert (reply.response is None) == (reply.error is not None)
    assert reply.error is None or isinstance(reply.error, ModelCallError)


@fuzzed
@given(traces, st.data())
def test_the_events_do_not_depend_on_the_cuts(recorded: Trace, data: st.DataObject) -> None:
    at_once, in_pieces = told_of([recorded.body]), told_of(cut(data, recorded.body))
    assert in_pieces.events == at_once.events
    assert str(in_pieces.error) == str(at_once.error)


FAULTS = st.sampled_from(
    [b'{"error": {"message": "out of order", "code": 500}}', b"{", b"[]", b'{"choices": 7}', b"[DONE]"]
)


@fuzzed
@given(traces, FAULTS, st.data())
def test_what_is_told_before_a_failure_does_not_depend_on_the_cuts_either(
    recorded: Trace, fault: bytes, data: st.DataObject
) -> None:
    frames = frames_of(recorded)
    at = data.draw(st.integers(0, len(frames)))
    body = b"".join([*frames[:at], b"data: ", fault, b"\n\n", *frames[at:]])
    at_once, in_pieces = told_of([body]), told_of(cut(data, body))
    assert in_pieces.events == at_once.events
    assert str(in_pieces.error) == str(at_once.error)


@fuzzed
@given(traces, st.data())
def test_duplicated_and_reordered_chunks_make_no_call_that_was_not_sent(
    recorded: Trace, data: st.DataObject
) -> None:
    frames = frames_of(recorded)
    sent = data.draw(st.permutations(frames) | st.lists(st.sampled_from(frames), max_size=30))
    reply = told_of([b"".join(sent)])
    check_typed(reply)
    if reply.error is None:
        assert readable(reply.calls) == calls_in(sent)


@fuzzed
@given(traces, st.data())
def test_two_neighbours_that_change_places_make_no_call_that_was_not_sent(
    recorded: Trace, data: st.DataObject
) -> None:
    sent = frames_of(recorded)
    at = data.draw(st.integers(0, len(sent) - 2))
    sent[at], sent[at + 1] = sent[at + 1], sent[at]
    reply = told_of([b"".join(sent)])
    check_typed(reply)
    if reply.error is None:
        assert readable(reply.calls) == calls_in(sent)


def readable(calls: Sequence[tuple[str, Any]]) -> list[tuple[str, Any]]:
    """The calls that a tool may accept."""
    (mark,) = unreadable_arguments("")
    return [call for call in calls if mark not in call[1]]


def calls_in(frames: Sequence[bytes]) -> list[tuple[str, Any]]:
    """What the frames say up to the last word, put together in the plainest way."""
    names: dict[int, str] = {}
    texts: dict[int, str] = {}
    for frame in frames:
        if frame.startswith(b"data: [DONE]"):
            break
        for choice in json.loads(frame.removeprefix(b"data: ")).get("choices", ()):
            for entry in choice["delta"].get("tool_calls") or () if choice["index"] == 0 else ():
                names.setdefault(entry["index"], entry["function"].get("name", ""))
                texts[entry["index"]] = texts.get(entry["index"], "") + entry["function"].get("arguments", "")
    return [(name, found) for index, name in names.items() if isinstance(found := whole(texts[index]), dict)]


def whole(text: str) -> Any:
    try:
        return json.loads(text or "{}")
    except ValueError:
        return None


HARMLESS = st.sampled_from(
    [b": keep-alive\n", b"event: ping\n\n", b"retry: 10\n", b"nonsense\n", b"id: 7\n", b"\n", b"data\n\n"]
)


@fuzzed
@given(traces, st.data())
def test_what_is_no_data_changes_nothing(recorded: Trace, data: st.DataObject) -> None:
    noisy = b"".join(data.draw(HARMLESS) + frame for frame in frames_of(recorded))
    assert told_of([noisy]).events == told_of([recorded.body]).events


@fuzzed
@given(traces, st.sampled_from([b"\r\n", b"\r"]), st.data())
def test_every_way_to_end_a_line_is_the_same(recorded: Trace, end: bytes, data: st.DataObject) -> None:
    other = recorded.body.replace(b"\n", end)
    assert told_of(cut(data, other)).events == told_of([recorded.body]).events


@fuzzed
@given(traces, st.binary(min_size=1, max_size=40), st.data())
@example(trace("tool_auto_stream"), b"\xff\xfe", None)
def test_garbage_is_a_typed_error_or_nothing(
    recorded: Trace, garbage: bytes, data: st.DataObject | None
) -> None:
    frames = frames_of(recorded)
    at = len(frames) // 2 if data is None else data.draw(st.integers(0, len(frames)))
    reply = told_of([b"".join([*frames[:at], b"data: ", garbage, b"\n\n", *frames[at:]])])
    check_typed(reply)
    if reply.error is None:
        assert reply.calls == told_of([recorded.body]).calls


@fuzzed
@given(traces, st.data())
def test_a_byte_that_was_changed_leads_to_nothing_worse_than_a_typed_error(
    recorded: Trace, data: st.DataObject
) -> None:
    body = bytearray(recorded.body)
    for _ in range(data.draw(st.integers(1, 5))):
        body[data.draw(st.integers(0, len(body) - 1))] = data.draw(st.integers(0, 255))
    check_typed(told_of([bytes(body)]))


@fuzzed
@given(st.binary(max_size=2_000), st.data())
def test_any_bytes_at_all_are_a_typed_error(noise: bytes, data: st.DataObject) -> None:
    reply = told_of(cut(data, noise))
    assert isinstance(reply.error, ModelServerError)


json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=8,
)
KEYS = st.sampled_from(
    ["choices", "delta", "tool_calls", "function", "name", "arguments", "index", "id", "usage", "content"]
)
chunks = st.recursive(
    json_values,
    lambda inner: st.dictionaries(KEYS, inner | st.lists(inner, max_size=2), max_size=4),
    max_leaves=12,
)


@fuzzed
@given(st.lists(chunks, min_size=1, max_size=4))
def test_chunks_of_any_shape_are_a_typed_error(sent: list[Any]) -> None:
    body = b"".join(b"data: %s\n\n" % json.dumps(each).encode() for each in sent)
    reply = told_of([body, b"data: [DONE]\n\n"])
    assert isinstance(reply.error, ModelServerError)


@fuzzed
@given(chunks)
def test_bodies_of_any_shape_are_a_typed_error(body: Any) -> None:
    with pytest.raises(ModelServerError):
        asyncio.run(model_of(ByteServer([json.dumps(body).encode()])).complete(PLAIN))


def test_a_line_without_an_end_is_refused_before_it_fills_the_memory() -> None:
    parser = SseParser(longest_event=10_000)
    for _ in range(10):
        assert parser.feed(b"x" * 1_000) == []
    with pytest.raises(ModelServerError, match="longer than 10,000 bytes") as refused:
        parser.feed(b"x")
    assert refused.value.failure is ModelFailure.UNREADABLE


def test_an_event_of_endlessly_many_lines_is_refused_too() -> None:
    parser = SseParser(longest_event=10_000)
    for _ in range(10):
        assert parser.feed(b"data: " + b"x" * 994 + b"\n") == []
    with pytest.raises(ModelServerError, match="longer than"):
        parser.feed(b"data: x\n")


def test_a_long_line_is_read_in_time_that_grows_with_its_length_alone() -> None:
    parser, length = SseParser(), 200_000
    for _ in range(length):
        assert not parser.feed(b"x")
    assert parser.feed(b"\n") == []


def test_a_deeply_nested_chunk_is_a_typed_error() -> None:
    reply = told_of([b"data: " + b"[" * 100_000 + b"\n\n"])
    assert isinstance(reply.error, ModelServerError)


PATIENT = OpenAICompatibleSettings(
    "http://127.0.0.1:1/v1",
    "tiny",
    timeouts=ModelTimeouts(first_token=30, idle=10, request=120),
    retries=ModelRetries(most=0),
)


@fuzzed
@given(traces, st.lists(st.floats(0, 15), min_size=1, max_size=8), st.floats(0, 40))
def test_a_slow_drip_is_the_right_events_or_a_timeout(
    recorded: Trace, pauses: list[float], before: float
) -> None:
    frames = frames_of(recorded)
    drips = [(pauses[at % len(pauses)], frame) for at, frame in enumerate(frames)]
    transport = DrippingTransport(drips, before)
    reply = told_by_drips(PATIENT, transport)
    check_typed(reply)
    if isinstance(reply.error, ModelServerError) and reply.error.failure is ModelFailure.TIMEOUT:
        assert max(pauses) >= 10 or before + sum(seconds for seconds, _ in drips) >= 30
    else:
        assert reply.events == told_of([recorded.body]).events
    assert transport.stream.is_closed or before >= 30

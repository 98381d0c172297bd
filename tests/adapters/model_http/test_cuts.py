"""Every recorded stream, cut and ended at every byte."""

from __future__ import annotations

import json
from collections.abc import Callable

import pytest

from pilotage.adapters.anthropic.reply_mapping import MessagesReader
from pilotage.adapters.model_http.decoding import SseParser
from pilotage.adapters.model_http.names import WireNames
from pilotage.adapters.model_http.provider import Provider
from pilotage.adapters.model_http.reply_stream import WireReader
from pilotage.adapters.openai.reply_mapping import ReplyReader
from pilotage.adapters.openai.responses_reply import ResponsesReader
from pilotage.agent.messages import ModelMessage
from pilotage.agent.model_reply import ModelResponse
from pilotage.agent.model_request import ModelRequest
from tests.adapters.model_http.cuts import assert_cuts_change_nothing, early_ends, pieces_of
from tests.adapters.model_http.recordings import Recording, recordings
from tests.adapters.openai.traces import STREAMS as CHATS

PLAIN, NAMES, HERE = ModelRequest([ModelMessage.user("x")]), WireNames([], []), Provider("here", "tiny")
READERS: dict[str, Callable[[], WireReader]] = {
    "chat": lambda: ReplyReader(PLAIN, NAMES, HERE),
    "responses": lambda: ResponsesReader(PLAIN, NAMES, HERE),
    "messages": lambda: MessagesReader(PLAIN, NAMES, HERE),
}
STREAMS = [(wire, each) for wire in READERS for each in recordings(wire) if each.is_stream]
IDS = [f"{wire}-{each.id}" for wire, each in STREAMS] + [f"chat-vllm-{each.name}" for each in CHATS]


def without_middle(body: bytes) -> bytes:
    """A stream without the middle of its events: long ones repeat themselves."""
    pieces = pieces_of(body)
    return body if len(pieces) < 120 else b"".join([*pieces[:90], *pieces[-20:]])


BODIES = [(wire, without_middle(each.body)) for wire, each in STREAMS]
BODIES += [("chat", without_middle(each.body)) for each in CHATS]


def whole(wire: str, body: bytes) -> ModelResponse:
    reader, parser = READERS[wire](), SseParser()
    for sent in parser.feed(body) + parser.close():
        reader.read(sent)
    return reader.finish()[0]


@pytest.mark.parametrize(("wire", "body"), BODIES, ids=IDS)
def test_a_stream_is_the_same_cut_at_every_byte(wire: str, body: bytes) -> None:
    assert body.startswith((b"data:", b"event:")), wire
    assert_cuts_change_nothing(body)


@pytest.mark.parametrize(("wire", "body"), BODIES, ids=IDS)
def test_a_stream_that_ends_at_any_byte_is_its_reply_or_a_failure(wire: str, body: bytes) -> None:
    """A reply is complete at the server's last word; on the chat wire that is the reason to finish."""
    for place, response in early_ends(body, READERS[wire]):
        last = {
            "chat": b'"finish_reason":',
            "messages": b'"type":"message_stop"',
            "responses": b'"type":"response.completed"',
        }[wire]
        assert last in body[:place]
        reply = whole(wire, body)
        assert (response.parts, response.finish_reason) == (reply.parts, reply.finish_reason)


def test_all_240_cases_are_recorded_but_the_one_without_an_answer() -> None:
    cases: list[Recording] = [each for wire in ("messages", "responses") for each in recordings(wire)]
    assert len(cases) == 239
    assert sum(each.is_stream for each in cases) == 101
    assert all(json.loads(each.body) for each in cases if not each.is_stream)

"""Every recorded stream, cut and ended at every byte."""

from __future__ import annotations

import json
from collections.abc import Callable

import pytest

from pilotage.adapters.anthropic.reply_mapping import MessagesReader
from pilotage.adapters.model_http.decoding import SseParser
from pilotage.adapters.model_http.error_mapping import server_error
from pilotage.adapters.model_http.errors import ModelServerError
from pilotage.adapters.model_http.names import WireNames
from pilotage.adapters.model_http.provider import Provider
from pilotage.adapters.model_http.reply_stream import WireReader
from pilotage.adapters.openai.reply_mapping import ReplyReader
from pilotage.adapters.openai.responses_reply import ResponsesReader
from pilotage.adapters.openai.served_models import read_models
from pilotage.agent.messages import ModelMessage
from pilotage.agent.model_reply import ModelResponse
from pilotage.agent.model_request import ModelRequest
from tests.adapters.model_http.cuts import assert_cuts_change_nothing, early_ends, pieces_of
from tests.adapters.model_http.recordings import Recording, recording, recordings
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
    return body if len(pieces) < 60 else b"".join([*pieces[:40], *pieces[-15:]])


BODIES = [(wire, each.body) for wire, each in STREAMS] + [("chat", each.body) for each in CHATS]
WHOLE = [
    (wire, each) for wire in READERS for each in recordings(wire) if not each.is_stream and each.is_complete
]


@pytest.fixture
def every(request: pytest.FixtureRequest) -> bool:
    return bool(request.config.getoption("--exhaustive"))


def places(body: bytes, every: bool) -> range:
    """The places at which a body is cut: each of them, or some thirty."""
    return range(0, len(body), 1 if every else max(len(body) // 30, 1))


def whole(wire: str, body: bytes) -> ModelResponse:
    reader, parser = READERS[wire](), SseParser()
    for sent in parser.feed(body) + parser.close():
        reader.read(sent)
    return reader.finish()[0]


@pytest.mark.sample(60)
@pytest.mark.parametrize(("wire", "body"), BODIES, ids=IDS)
def test_a_stream_is_the_same_cut_at_every_byte(wire: str, body: bytes, every: bool) -> None:
    body = body if every else without_middle(body)
    assert body.startswith((b"data:", b"event:")), wire
    assert_cuts_change_nothing(body)


@pytest.mark.sample(60)
@pytest.mark.parametrize(("wire", "body"), BODIES, ids=IDS)
def test_a_stream_that_ends_at_any_byte_is_its_reply_or_a_failure(
    wire: str, body: bytes, every: bool
) -> None:
    """A reply is complete at the server's last word; on the chat wire that is the reason to finish."""
    body = body if every else without_middle(body)
    for place, response in early_ends(body, READERS[wire]):
        last = {
            "chat": b'"finish_reason":',
            "messages": b'"type":"message_stop"',
            "responses": b'"type":"response.completed"',
        }[wire]
        assert last in body[:place]
        reply = whole(wire, body)
        assert (response.parts, response.finish_reason) == (reply.parts, reply.finish_reason)


def test_a_body_that_ends_early_is_a_failure(every: bool) -> None:
    """A refusal that ends early keeps its status, and what it means."""
    for wire, recorded in WHOLE:
        body = recorded.body.rstrip()
        for at in places(body, every):
            if recorded.status == 200:
                with pytest.raises(ModelServerError):
                    READERS[wire]().read_whole(body[:at])
            else:
                cut, known = (server_error(recorded.status, each) for each in (body[:at], body))
                assert (cut.status, cut.retryable) == (known.status, known.retryable)


def test_recorded_lists_of_models_are_read() -> None:
    listed = recording("chat", "llamacpp", "models")
    assert "tiny" in "".join(read_models(listed.body))
    broken = recording("chat", "transformers-serve", "models")
    assert server_error(broken.status, broken.body).retryable


def test_all_240_cases_are_recorded_but_the_one_without_an_answer() -> None:
    cases: list[Recording] = [each for wire in ("messages", "responses") for each in recordings(wire)]
    assert len(cases) == 239
    assert sum(each.is_stream for each in cases) == 101
    assert all(json.loads(each.body) for each in cases if not each.is_stream)

"""What real servers answered on `/v1/messages`: read as its bytes say and as the official client reads it."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Iterator, Sequence
from typing import Any

import pytest

from pilotage.adapters.anthropic import AnthropicModel, AnthropicSettings
from pilotage.adapters.model_http.error_mapping import server_error
from pilotage.adapters.model_http.errors import ModelServerError
from pilotage.adapters.model_http.server import ModelRetries
from pilotage.agent.messages import ModelMessage, ReasoningPart
from pilotage.agent.model_failure import ModelFailure
from pilotage.agent.model_reply import ModelFinishReason, ModelResponse, ModelStreamEvent, ModelUsage
from pilotage.agent.model_request import ModelRequest
from pilotage.errors import PilotageError
from tests.adapters.model_http.recordings import Recording, recording, recordings
from tests.adapters.openai.byte_server import ByteServer, Told

Reason = ModelFinishReason
PLAIN = ModelRequest([ModelMessage.user("x")])
CASES = [each for each in recordings("messages") if each.path == "/v1/messages"]
ANSWERED = [each for each in CASES if each.status == 200 and each.is_complete]
ERRORS = {"msg_err_schema_stream", "msg_kill9_engine", "msg_err_tool_result_orphan_stream"}
"""Streams that may end with an error of the server."""


def by_id(recorded: Recording) -> str:
    return recorded.id


def model_of(*pieces: bytes) -> AnthropicModel:
    settings = AnthropicSettings("tiny", "key", "http://127.0.0.1:1/v1", retries=ModelRetries(most=0))
    return AnthropicModel(settings, server=ByteServer(pieces))


async def told(*pieces: bytes) -> Told:
    events: list[ModelStreamEvent] = []
    try:
        async for event in model_of(*pieces).stream(PLAIN):
            events.append(event)  # noqa: PERF401 - a comprehension would lose them with the failure
    except PilotageError as error:
        return Told(events, None, error)
    return Told(events, events[-1].response, None)


def frames(body: bytes) -> list[Any]:
    """The data of a stream's events, read without our parser."""
    return [json.loads(line[5:]) for line in body.splitlines() if line.startswith(b"data:")]


def expected_text(recorded: Recording, kind: str, key: str) -> str:
    """The text of a kind of delta, or of a kind of block."""
    if recorded.is_stream:
        deltas: Iterator[Any] = (
            each["delta"] for each in frames(recorded.body) if each["type"] == "content_block_delta"
        )
        return "".join(each.get(key, "") for each in deltas if each["type"] == f"{kind}_delta")
    blocks: Sequence[Any] = json.loads(recorded.body)["content"]
    return "".join(each.get(key, "") for each in blocks if each["type"] == kind)


def reply_to(recorded: Recording) -> ModelResponse:
    if recorded.is_stream:
        read = asyncio.run(told(recorded.body))
        assert read.response is not None, read.error
        return read.response
    return asyncio.run(model_of(recorded.body).complete(PLAIN))


@pytest.mark.parametrize("recorded", ANSWERED, ids=by_id)
def test_a_recorded_reply_is_what_its_bytes_say(recorded: Recording) -> None:
    if recorded.name in ERRORS:
        read = asyncio.run(told(recorded.body))
        if isinstance(read.error, ModelServerError):
            return
    reply = reply_to(recorded)
    assert reply.content == expected_text(recorded, "text", "text")
    assert reply.reasoning == expected_text(recorded, "thinking", "thinking")
    assert reply.finish_reason is not None
    assert reply.usage.input_tokens
    assert reply.usage.output_tokens is not None
    assert reply.usage.total_tokens == reply.usage.input_tokens + reply.usage.output_tokens


@pytest.mark.parametrize("recorded", [each for each in CASES if each.status != 200], ids=by_id)
def test_a_recorded_refusal_is_an_error_with_the_servers_words(recorded: Recording) -> None:
    error = server_error(recorded.status, recorded.body)
    assert not error.retryable or recorded.status >= 500
    body = json.loads(recorded.body)
    assert body["error"]["message"][:60].strip().rstrip(".") in str(error)


def test_a_thought_has_its_signature_and_a_call_its_arguments() -> None:
    for name in ("msg_thinking_tool_stream", "msg_thinking_tool"):
        reply = reply_to(recording("messages", "vllm", name))
        thought, call = reply.parts[0], reply.tool_calls[0]
        assert isinstance(thought, ReasoningPart)
        assert thought.state is not None
        assert isinstance(thought.state.data, str)
        assert (call.name, call.arguments) == ("get_weather", {"city": "Oslo", "unit": "c"})
        assert reply.finish_reason is Reason.TOOL_CALLS


def test_what_comes_from_a_cache_is_part_of_the_input() -> None:
    reply = reply_to(recording("messages", "vllm", "msg_cached"))
    assert reply.usage == ModelUsage(214, 4, 218, cached_tokens=128, cache_written_tokens=0)


@pytest.mark.parametrize("server", ["vllm", "llamacpp"])
def test_a_call_that_the_length_cut_is_named_and_not_called(server: str) -> None:
    reply = reply_to(recording("messages", server, "msg_tool_cut_stream"))
    assert (reply.finish_reason, reply.tool_calls) == (Reason.LENGTH, ())
    assert reply.metadata["cut_tool_calls"] == ["get_weather"]


def test_an_engine_that_dies_in_the_middle_is_a_failure_that_may_pass() -> None:
    read = asyncio.run(told(recording("messages", "vllm", "msg_kill9_engine").body))
    assert isinstance(read.error, ModelServerError)
    assert (read.error.failure, read.error.retryable) == (ModelFailure.SERVER_ERROR, True)


def test_a_stop_sequence_is_named() -> None:
    reply = reply_to(recording("messages", "vllm", "msg_stop_sequence_stream"))
    assert reply.finish_reason is Reason.STOP
    assert isinstance(reply.metadata["stop_reason"], str)


def test_every_case_of_both_servers_is_read() -> None:
    assert {each.server for each in CASES} == {"vllm", "llamacpp"}
    assert len(CASES) > 100

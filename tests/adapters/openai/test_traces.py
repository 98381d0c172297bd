"""Every recorded answer of a real server, whole and byte by byte; cuts are in `model_http/test_cuts.py`."""

from __future__ import annotations

import json
from itertools import pairwise

import pytest
from tests.adapters.openai.byte_server import PLAIN, ByteServer, Told, model_of, told_of
from tests.adapters.openai.traces import CHATS, REFUSALS, STREAMS, WHOLE, Trace, trace

from pilotage.adapters.model_http.error_mapping import server_error
from pilotage.adapters.openai import ModelFailure, ModelServerError
from pilotage.adapters.openai.served_models import read_models, read_version
from pilotage.agent.messages import ModelMessage
from pilotage.agent.model_reply import ModelFinishReason, ModelUsage
from pilotage.agent.model_reply import ModelStreamEventKind as Kind
from pilotage.agent.model_request import JsonSchemaConstraint, ModelRequest, StructuredOutputSpec
from pilotage.errors import AgentStructuredOutputError

PARIS = ("get_weather", {"city": "Paris", "unit": "c"})
OSLO = ("get_weather", {"city": "Oslo", "unit": "c"})
SUM = ("add", {"a": 2, "b": 3})
BROKEN = ModelServerError(ModelFailure.BROKEN_STREAM, "connection lost")
Reason = ModelFinishReason


def pieces_of(recorded: Trace, *cuts: int) -> list[bytes | ModelServerError]:
    bounds = [0, *cuts, len(recorded.body)]
    pieces = [recorded.body[start:end] for start, end in pairwise(bounds)]
    return [*filter(None, pieces), *([BROKEN] if recorded.broke_off else [])]


def of_stream(name: str) -> Told:
    return told_of(pieces_of(trace(name)))


def by_name(recorded: Trace) -> str:
    return recorded.name


@pytest.mark.parametrize("recorded", STREAMS, ids=by_name)
def test_a_stream_means_the_same_byte_by_byte(recorded: Trace) -> None:
    at_once = told_of(pieces_of(recorded))
    drop_by_drop = told_of(pieces_of(recorded, *range(1, len(recorded.body))))
    assert drop_by_drop.events == at_once.events
    assert str(drop_by_drop.error) == str(at_once.error)


TEXTS = {
    "chat_stream_usage": ("Hello there, how are you today?", Reason.STOP),
    "chat_stream_no_usage": ("Hello there, how are you today?", Reason.STOP),
    "chat_stream_continuous_usage": ("Hello there, how are you today?", Reason.STOP),
    "chat_unicode_stream": ("Zażółć gęślą jaźń — 東京 🚀🎉 done", Reason.STOP),
    "reasoning_stream": ("\n\nThe answer is 42.", Reason.STOP),
    "reasoning_no_think_stream": ("", Reason.STOP),
}


@pytest.mark.parametrize("name", TEXTS)
def test_a_streamed_text_is_the_text(name: str) -> None:
    reply = of_stream(name)
    text, reason = TEXTS[name]
    assert reply.response is not None
    assert (reply.text, reply.response.content, reply.response.finish_reason) == (text, text, reason)


CALLS = {
    "tool_auto_stream": [PARIS],
    "tool_auto_stream_qwen3_json": [PARIS, SUM],
    "tool_auto_parallel_stream": [PARIS, SUM],
    "tool_auto_parallel_false_stream": [PARIS],
    "tool_auto_strict_stream": [PARIS],
    "tool_named_stream": [PARIS],
    "tool_named_stream_qwen3_json": [PARIS],
    "reasoning_tool_stream": [OSLO],
}


@pytest.mark.parametrize("name", CALLS)
def test_streamed_calls_are_calls_whatever_the_reason_to_finish_says(name: str) -> None:
    reply = of_stream(name)
    assert reply.calls == CALLS[name]
    assert reply.response is not None
    assert reply.response.finish_reason is Reason.TOOL_CALLS
    ids = [call.call_id for call in reply.response.tool_calls]
    assert all(ids)
    assert len(set(ids)) == len(ids)


@pytest.mark.parametrize("name", CALLS)
def test_each_streamed_call_is_told_from_its_start_to_its_end(name: str) -> None:
    reply = of_stream(name)
    for call in reply.response.tool_calls if reply.response else ():
        about = [event for event in reply.events if event.call_id == call.call_id]
        kinds = [event.kind for event in about]
        pieces = [event.tool_call_args_delta or "" for event in about]
        assert (kinds[0], kinds[-2], kinds[-1]) == (
            Kind.TOOL_CALL_START,
            Kind.TOOL_CALL_END,
            Kind.TOOL_CALL_CANDIDATE,
        )
        assert json.loads("".join(pieces)) == call.arguments


@pytest.mark.parametrize("name", ["tool_auto_second_cut_stream", "tool_auto_length_stream_qwen3_json"])
def test_a_call_that_was_cut_is_named_and_not_called(name: str) -> None:
    response = of_stream(name).response
    assert response is not None
    assert response.finish_reason is Reason.LENGTH
    assert response.metadata["cut_tool_calls"]
    assert all(call.arguments for call in response.tool_calls)


def test_thoughts_are_told_as_thoughts() -> None:
    assert of_stream("reasoning_stream").reasoning == "\nI should think first.\n"
    assert of_stream("reasoning_no_think_stream").reasoning.strip()


def test_usage_is_the_last_that_was_said() -> None:
    for name in ("chat_stream_usage", "chat_stream_continuous_usage"):
        response = of_stream(name).response
        assert response is not None
        assert response.usage == ModelUsage(14, 9, 23), name
    response = of_stream("chat_stream_no_usage").response
    assert response is not None
    assert response.usage == ModelUsage()


def test_comments_that_keep_a_connection_alive_are_nothing() -> None:
    recorded = trace("stall_keepalive")
    assert b": keep-alive" in recorded.body
    assert told_of(pieces_of(recorded)).error is None


def test_an_error_in_the_middle_of_a_stream_is_the_servers() -> None:
    error = of_stream("err_tool_strict_bad_schema_stream").error
    assert isinstance(error, ModelServerError)
    assert (error.failure, error.status, error.retryable) == (ModelFailure.REFUSED_REQUEST, 400, False)
    assert "Invalid grammar specification" in str(error)


def test_a_lost_connection_is_no_end() -> None:
    reply = of_stream("kill9_api_server")
    assert isinstance(reply.error, ModelServerError)
    assert (reply.error.failure, reply.error.retryable) == (ModelFailure.BROKEN_STREAM, True)
    assert reply.text


@pytest.mark.parametrize("recorded", WHOLE, ids=by_name)
async def test_a_whole_reply_has_what_its_body_says(recorded: Trace) -> None:
    choice = json.loads(recorded.body)["choices"][0]
    message = choice["message"]
    response = await model_of(ByteServer([recorded.body])).complete(PLAIN)
    assert response.content == (message["content"] or "")
    expected = [
        (call["id"], call["function"]["name"], json.loads(call["function"]["arguments"]))
        for call in message.get("tool_calls", ())
    ]
    assert [(call.call_id, call.name, call.arguments) for call in response.tool_calls] == expected
    reason = choice["finish_reason"] if choice["finish_reason"] == "length" else "stop"
    assert response.finish_reason == ("tool_calls" if expected else reason)
    assert response.metadata.get("reasoning") == (message["reasoning"] or None)


@pytest.mark.parametrize("recorded", WHOLE, ids=by_name)
async def test_a_server_that_does_not_stream_is_read_all_the_same(recorded: Trace) -> None:
    response = await model_of(ByteServer([recorded.body])).complete(PLAIN)
    events = [event async for event in model_of(_NotStreaming([recorded.body])).stream(PLAIN)]
    told = events[-1].response
    assert told is not None
    assert (told.content, told.tool_calls, told.usage) == (
        response.content,
        response.tool_calls,
        response.usage,
    )


class _NotStreaming(ByteServer):
    async def open(self, url: str, body: bytes):  # type: ignore[no-untyped-def]
        stream = await super().open(url, body)
        stream._is_event_stream = False
        return stream


FAILURES = {
    401: ModelFailure.UNAUTHORIZED,
    404: ModelFailure.NOT_FOUND,
    400: ModelFailure.REFUSED_REQUEST,
    503: ModelFailure.OVERLOADED,
}
TOO_LONG = {"err_prompt_too_long", "err_prompt_too_long_stream", "err_max_tokens_too_large"}


@pytest.mark.parametrize("recorded", REFUSALS, ids=by_name)
def test_a_refusal_is_a_typed_error_with_the_servers_words(recorded: Trace) -> None:
    error = server_error(recorded.status, recorded.body)
    is_too_long = recorded.name in TOO_LONG
    assert error.failure is (ModelFailure.CONTEXT_EXCEEDED if is_too_long else FAILURES[recorded.status])
    assert error.retryable is (recorded.status == 503)
    words = json.loads(recorded.body)["error"]
    said = words if isinstance(words, str) else words["message"]
    assert said.rstrip(".")[:500] in str(error)


def test_all_recorded_chats_are_among_these() -> None:
    assert len(STREAMS) + len(WHOLE) + len(REFUSALS) == len(CHATS) > 120


def test_a_path_that_nobody_serves_is_reported_with_the_way_out() -> None:
    recorded = trace("err_not_found_path")
    error = server_error(recorded.status, recorded.body)
    assert error.failure is ModelFailure.NOT_FOUND
    assert "Not Found" in str(error)


def test_the_server_tells_its_models_and_its_version() -> None:
    assert read_models(trace("models").body) == {"tiny": 2048}
    assert read_version(trace("version").body) == "0.32.0"


PERSON = StructuredOutputSpec(JsonSchemaConstraint({"type": "object"}))


@pytest.mark.parametrize("name", ["rf_json_schema_nonstream", "rf_json_object", "so_json", "so_json_string"])
async def test_an_answer_of_a_shape_is_read(name: str) -> None:
    request = ModelRequest([ModelMessage.user("person")], output=PERSON)
    response = await model_of(ByteServer([trace(name).body])).complete(request)
    assert isinstance(response.structured_output, dict)


async def test_an_answer_that_was_cut_has_no_shape() -> None:
    request = ModelRequest([ModelMessage.user("person")], output=PERSON)
    response = await model_of(ByteServer([trace("rf_json_schema_length").body])).complete(request)
    assert (response.structured_output, response.finish_reason) == (None, Reason.LENGTH)


async def test_free_text_where_a_shape_was_asked_for_is_refused() -> None:
    request = ModelRequest([ModelMessage.user("person")], output=PERSON)
    with pytest.raises(AgentStructuredOutputError, match="no JSON"):
        await model_of(ByteServer([trace("chat_nonstream").body])).complete(request)

"""What servers send that the protocol does not foresee: each from a recording, or from bytes made like one."""

from __future__ import annotations

import asyncio
import json
from dataclasses import dataclass
from typing import Any

import pytest
from tests.adapters.model_http.recordings import Recording, recording, recordings
from tests.adapters.openai.byte_server import PLAIN, ByteServer, model_of, told, told_of

from pilotage.adapters.model_http.error_mapping import error_in_stream, server_error
from pilotage.adapters.model_http.names import WireNames
from pilotage.adapters.openai import ModelFailure, ModelServerError, OpenAICompatibleSettings
from pilotage.adapters.openai.dialect import COMMON
from pilotage.adapters.openai.request_mapping import chat_body, names_of
from pilotage.agent.messages import (
    MediaPart,
    ModelMessage,
    ModelToolCall,
    ReasoningPart,
    RefusalPart,
    TextPart,
)
from pilotage.agent.model_reply import ModelFinishReason, ModelResponse, ModelUsage
from pilotage.agent.model_request import (
    CacheOptions,
    ModelRequest,
    ModelToolChoice,
    ReasoningOptions,
    SamplingOptions,
    StructuredOutputSpec,
    ToolCallingSpec,
)
from pilotage.agent.ports.model import ModelCapability
from pilotage.agent.tools.declare import agent_tool
from pilotage.errors import AgentDefinitionError

Reason = ModelFinishReason
CHATS = [each for each in recordings("chat") if each.path == "/v1/chat/completions"]
STREAMS = [each for each in CHATS if each.is_stream]


def frames(*chunks: Any, done: bool = True) -> list[bytes]:
    """A stream of chunks, with its end mark or without."""
    sent = [f"data: {each if isinstance(each, str) else json.dumps(each)}\n\n".encode() for each in chunks]
    return [*sent, b"data: [DONE]\n\n"] if done else sent


def delta(reason: Any = None, **fields: Any) -> dict[str, Any]:
    return {"id": "r", "choices": [{"index": 0, "delta": fields, "finish_reason": reason}]}


def reply_of(*chunks: Any, done: bool = True, request: ModelRequest = PLAIN) -> ModelResponse:
    read = told_of(frames(*chunks, done=done), request)
    assert read.response is not None, read.error
    return read.response


def failure_of(*chunks: Any, done: bool = True) -> ModelFailure:
    read = told_of(frames(*chunks, done=done))
    assert isinstance(read.error, ModelServerError), read.response
    return read.error.failure


@pytest.mark.parametrize(
    "recorded",
    [each for each in CHATS if not each.is_stream and each.status == 200],
    ids=lambda each: each.id,
)
def test_a_recorded_body_is_a_reply(recorded: Recording) -> None:
    reply = asyncio.run(model_of(ByteServer([recorded.body])).complete(PLAIN))
    assert reply.finish_reason is not None
    assert reply.usage.total_tokens


def test_a_stream_may_end_without_its_mark() -> None:
    ended = [each for each in STREAMS if each.server == "transformers-serve" and b"[DONE]" not in each.body]
    assert len(ended) == 7
    for recorded in ended:
        read = told_of([recorded.body])
        assert read.response is not None, read.error
        assert read.response.usage.total_tokens
    assert reply_of(delta(content="hi"), delta("stop"), done=False).content == "hi"
    assert failure_of(delta(content="hi"), done=False) is ModelFailure.BROKEN_STREAM


@pytest.mark.parametrize("missing", ["", None])
def test_an_empty_reason_in_every_chunk_is_none(missing: Any) -> None:
    reply = reply_of(delta(missing, content="a"), delta(missing, content="b"), delta("stop"))
    assert (reply.content, reply.finish_reason) == ("ab", Reason.STOP)


def test_a_reply_with_an_empty_reason_at_its_end_is_complete() -> None:
    reply = reply_of(delta("", content="a"), delta("", content="b"))
    assert (reply.content, reply.finish_reason, reply.finish_word) == ("ab", Reason.OTHER, "")
    body = {"choices": [{"message": {"content": "whole"}, "finish_reason": None}]}
    whole = asyncio.run(model_of(ByteServer([json.dumps(body).encode()])).complete(PLAIN))
    assert (whole.answer, whole.finish_reason) == ("whole", Reason.OTHER)


@pytest.mark.parametrize(
    ("word", "reason"),
    [
        ("MAX_TOKENS", Reason.LENGTH),
        ("SAFETY", Reason.CONTENT_FILTER),
        ("MALFORMED_FUNCTION_CALL", Reason.MALFORMED_CALL),
        ("pause_turn", Reason.PAUSED),
        ("model_context_window_exceeded", Reason.CONTEXT_EXCEEDED),
        ("weariness", Reason.OTHER),
    ],
)
def test_the_words_of_other_wires_are_known_and_an_unknown_one_is_another_reason(
    word: str, reason: ModelFinishReason
) -> None:
    reply = reply_of(delta(content="hi"), delta(word))
    assert reply.finish_reason is reason
    assert reply.finish_word == (word if reason is Reason.OTHER else None)
    assert reply.answer == ("hi" if reason is Reason.OTHER else None)


@pytest.mark.parametrize("word", ["tool_calls", "function_call", "TOOL_USE"])
def test_a_reply_that_says_it_calls_and_does_not_is_a_broken_call(word: str) -> None:
    assert failure_of(delta(content="I will look it up."), delta(word)) is ModelFailure.BROKEN_CALL


def test_content_may_be_a_list_of_parts() -> None:
    thought = {"type": "thinking", "thinking": [{"type": "text", "text": "hm"}]}
    image = {"type": "image_url", "image_url": {"url": "data:image/png;base64,AA=="}}
    reply = reply_of(
        delta(content=[thought]),
        delta(content=[{"type": "text", "text": "a"}, "b", image]),
        delta("stop", content=[{"type": "text", "text": "c"}]),
    )
    picture = MediaPart("image/png", data="AA==")
    assert reply.parts == (ReasoningPart("hm"), TextPart("ab"), picture, TextPart("c"))
    assert (reply.content, reply.reasoning) == ("abc", "hm")


def test_raw_control_characters_are_read() -> None:
    raw = '{"id":"r","choices":[{"index":0,"delta":{"content":"a\tb\x01"},"finish_reason":null}]}'
    assert reply_of(raw, delta("stop")).content == "a\tb\x01"


def test_the_halves_of_a_character_are_joined_and_a_single_half_is_replaced() -> None:
    first = '{"choices":[{"index":0,"delta":{"content":"go \\ud83d"}}]}'
    second = '{"choices":[{"index":0,"delta":{"content":"\\ude80!"}}]}'
    read = told_of(frames(first, second, delta("stop")))
    assert read.response is not None
    assert (read.response.content, read.text) == ("go 🚀!", "go 🚀!")
    alone = reply_of(first, delta("stop"))
    assert alone.content == "go \ufffd"
    alone.content.encode()


def test_halves_in_arguments_are_joined_or_replaced() -> None:
    def piece(text: str, **more: Any) -> dict[str, Any]:
        return delta(tool_calls=[{"index": 0, "function": {"arguments": text, **more}}])

    begun = delta(tool_calls=[{"index": 0, "id": "c", "function": {"name": "look", "arguments": '{"at": "'}}])
    joined = reply_of(begun, piece("\ud83d"), piece('\ude80"}'), delta("tool_calls"))
    assert joined.tool_calls[0].arguments == {"at": "🚀"}
    alone = reply_of(begun, piece('\\ud83d"}'), delta("tool_calls"))
    assert alone.tool_calls[0].arguments == {"at": "\ufffd"}


@pytest.mark.parametrize("arguments", [None, "null", "", "{}"])
def test_null_arguments_are_none(arguments: Any) -> None:
    call = {"index": 0, "id": "c", "function": {"name": "look", "arguments": arguments}}
    reply = reply_of(delta(tool_calls=[call]), delta("tool_calls"))
    assert reply.tool_calls == (ModelToolCall("look", {}, "c"),)


@pytest.mark.parametrize(
    ("status", "message", "code", "failure"),
    [
        (
            429,
            "You exceeded your current quota, please check your plan.",
            "insufficient_quota",
            ModelFailure.QUOTA,
        ),
        (
            429,
            "Rate limit reached for requests per minute.",
            "rate_limit_exceeded",
            ModelFailure.RATE_LIMITED,
        ),
        (429, "You exceeded your current quota. Please retry in 31s.", None, ModelFailure.RATE_LIMITED),
        (429, "Too many requests", None, ModelFailure.RATE_LIMITED),
        (402, "Insufficient Balance", None, ModelFailure.QUOTA),
        (400, "Your credit balance is too low to access the API.", None, ModelFailure.QUOTA),
        (403, "The billing account is disabled.", None, ModelFailure.QUOTA),
        (403, "No access to this model.", None, ModelFailure.UNAUTHORIZED),
        (400, "The response was filtered", "content_filter", ModelFailure.CONTENT_FILTERED),
        (400, "Content Exists Risk", None, ModelFailure.CONTENT_FILTERED),
        (400, "temperature must not be negative", None, ModelFailure.REFUSED_REQUEST),
    ],
)
def test_a_quota_is_no_rate_limit(status: int, message: str, code: str | None, failure: ModelFailure) -> None:
    error = server_error(status, json.dumps({"error": {"message": message, "code": code}}).encode())
    assert error.failure is failure
    assert error.retryable is (failure is ModelFailure.RATE_LIMITED)


def test_a_quota_with_a_time_is_a_rate_limit() -> None:
    body = json.dumps({"error": {"message": "quota exceeded"}}).encode()
    assert server_error(429, body, 30.0).failure is ModelFailure.RATE_LIMITED
    assert server_error(429, body).failure is ModelFailure.QUOTA


TOO_LONG = [
    "This model's maximum context length is 8192 tokens. However, your messages resulted in 9000 tokens.",
    "prompt is too long: 210000 tokens > 200000 maximum",
    "input length and `max_tokens` exceed context limit: 190000 + 20000 > 200000",
    "The input token count (1200000) exceeds the maximum number of tokens allowed (1048576).",
    "request (5012 tokens) exceeds the available context size (4096 tokens), try increasing it",
    "Prompt contains 40000 tokens and 0 draft tokens, too large for model with 32768 maximum context length",
    "too many tokens: total number of tokens in the prompt cannot exceed 4081",
    "Please reduce the length of the messages or completion.",
    "`inputs` tokens + `max_new_tokens` must be <= 4096. Given: 5000 `inputs` tokens and 20 `max_new_tokens`",
    "Input is too long for requested model.",
    "This model's maximum prompt length is 131072 but the request contains 537812 tokens.",
    "The decoder prompt (length 5000) is longer than the maximum model length of 4096.",
    "the number of tokens to keep from the initial prompt is greater than the context length",
    "Invalid request: Your request exceeded model token limit: 8192",
    "tokens in request more than max tokens allowed",
    "prompt token count of 128001 exceeds the limit of 128000",
    "Requested token count exceeds the model's maximum context length of 4096 tokens.",
]


@pytest.mark.parametrize("words", TOO_LONG)
def test_a_request_that_is_too_long_is_known_by_the_words_of_its_server(words: str) -> None:
    error = server_error(
        400, json.dumps({"error": {"message": words, "type": "invalid_request_error"}}).encode()
    )
    assert error.failure is ModelFailure.CONTEXT_EXCEEDED
    assert error_in_stream({"message": words, "code": 400}).failure is ModelFailure.CONTEXT_EXCEEDED


@pytest.mark.parametrize(
    "recorded",
    [
        each
        for wire in ("chat", "responses", "messages")
        for each in recordings(wire)
        if "too_long" in each.name
    ],
    ids=lambda each: f"{each.path}-{each.id}",
)
def test_a_recorded_request_that_was_too_long_is_known(recorded: Recording) -> None:
    if recorded.status == 200:
        return
    assert server_error(recorded.status, recorded.body).failure is ModelFailure.CONTEXT_EXCEEDED


@pytest.mark.parametrize(
    ("given", "chat", "health"),
    [
        (
            "https://host/openai/v1/?api-version=7",
            "https://host/openai/v1/chat/completions?api-version=7",
            "https://host/openai/health?api-version=7",
        ),
        ("http://h?x=1&y=2", "http://h/v1/chat/completions?x=1&y=2", "http://h/health?x=1&y=2"),
        ("http://h/v1", "http://h/v1/chat/completions", "http://h/health"),
    ],
)
def test_the_query_of_an_address_is_that_of_every_page(given: str, chat: str, health: str) -> None:
    settings = OpenAICompatibleSettings(given, "tiny")
    assert (settings.url("/chat/completions"), settings.root("/health")) == (chat, health)


def test_the_address_of_one_page_is_refused_with_a_query_too() -> None:
    with pytest.raises(AgentDefinitionError, match="Leave '/chat/completions' out"):
        OpenAICompatibleSettings("http://h/v1/chat/completions?x=1", "tiny")


@dataclass
class Place:
    """Where to look."""

    city: str
    zoom: int = 3
    near: str | None = None


@agent_tool()
def look(place: Place, again: bool = False, limit: int | None = None) -> str:
    """Look at a place."""
    return f"{place} {again} {limit}"


def body_of(request: ModelRequest) -> dict[str, Any]:
    settings = OpenAICompatibleSettings("http://127.0.0.1:1/v1", "tiny")
    capability = ModelCapability("tiny")
    return chat_body(request, settings, COMMON, capability, names_of(request), streams=True)


ASKED = ModelRequest(
    [ModelMessage.user("x")],
    tools=ToolCallingSpec.from_tools([look]),
    output=StructuredOutputSpec.from_type(Place),
)


def test_optional_fields_are_required_and_nullable_where_schemas_are_strict() -> None:
    function = body_of(ASKED)["tools"][0]["function"]
    parameters = function["parameters"]
    assert function["strict"] is True
    assert parameters["required"] == ["place", "again", "limit"]
    assert parameters["properties"]["again"] == {"type": ["boolean", "null"]}
    place = parameters["properties"]["place"]
    assert place["required"] == ["city", "zoom", "near"]
    assert place["properties"]["zoom"]["type"] == ["integer", "null"]
    assert "default" not in json.dumps(parameters)
    shape = body_of(ASKED)["response_format"]["json_schema"]
    assert (shape["strict"], shape["schema"]["required"]) == (True, ["city", "zoom", "near"])


def test_nulls_that_stand_for_what_was_left_out_do_not_come_back() -> None:
    arguments = {"place": {"city": "Oslo", "zoom": None, "near": None}, "again": None, "limit": None}
    call = {"index": 0, "id": "c", "function": {"name": "look", "arguments": json.dumps(arguments)}}
    reply = reply_of(delta(tool_calls=[call]), delta("tool_calls"), request=ASKED)
    assert reply.tool_calls[0].arguments == {"place": {"city": "Oslo", "near": None}, "limit": None}
    answer = reply_of(
        delta(content='{"city": "Oslo", "zoom": null, "near": null}'), delta("stop"), request=ASKED
    )
    assert answer.output == Place("Oslo")


def test_a_schema_with_open_objects_is_not_strict() -> None:
    @agent_tool()
    def note(facts: dict[str, int], title: str = "") -> str:
        """Note facts."""
        return title

    request = ModelRequest([ModelMessage.user("x")], tools=ToolCallingSpec.from_tools([note]))
    assert "strict" not in body_of(request)["tools"][0]["function"]


def test_options_are_parameters() -> None:
    request = ModelRequest(
        [ModelMessage.user("x")],
        tools=ToolCallingSpec((), parallel=False),
        sampling=SamplingOptions(stop=["END"], seed=7),
        reasoning=ReasoningOptions(effort="low", budget_tokens=10, is_shown=True),
        cache=CacheOptions("talk-1", is_long=True),
    )
    body = body_of(request)
    assert (body["stop"], body["seed"], body["reasoning_effort"]) == (["END"], 7, "low")
    assert (body["prompt_cache_key"], body["prompt_cache_retention"]) == ("talk-1", "24h")
    assert "thinking_token_budget" not in body
    alone = ModelRequest(
        [ModelMessage.user("x")], tools=ToolCallingSpec(ASKED.tool_calling.tools, parallel=False)
    )  # type: ignore[union-attr]
    assert body_of(alone)["parallel_tool_calls"] is False


@pytest.mark.parametrize(
    ("calling", "choice"),
    [
        (ToolCallingSpec.from_tools([look], tool_name="look"), "look"),
        (ToolCallingSpec.from_tools([look], choice=ModelToolChoice.REQUIRED), "required"),
        (ToolCallingSpec.from_tools([look]), None),
    ],
)
def test_a_forced_choice_that_the_reply_did_not_follow_is_in_its_metadata(
    calling: ToolCallingSpec, choice: str | None
) -> None:
    request = ModelRequest([ModelMessage.user("x")], tools=calling)
    reply = reply_of(delta(content="No."), delta("stop"), request=request)
    assert (reply.follows_choice, reply.metadata.get("missed_choice")) == (choice is None, choice)
    called = delta(tool_calls=[{"index": 0, "id": "c", "function": {"name": "look", "arguments": "{}"}}])
    assert reply_of(called, delta("stop"), request=request).follows_choice


def test_a_server_that_calls_another_tool_than_the_forced_one_is_noticed() -> None:
    recorded = recording("chat", "llamacpp", "chat_tool_named_stream")
    forced = recorded.request["tool_choice"]["function"]["name"]
    tools = ToolCallingSpec.from_tools([look], tool_name="look")
    read = told_of([recorded.body], ModelRequest([ModelMessage.user("x")], tools=tools))
    assert read.response is not None
    assert forced not in [name for name, _ in read.calls]
    assert not read.response.follows_choice


def test_a_refusal_is_a_part() -> None:
    reply = reply_of(delta(refusal="I will "), delta(refusal="not."), delta("stop"))
    assert (reply.parts, reply.finish_reason) == ((RefusalPart("I will not."),), Reason.REFUSAL)


def test_every_count_of_a_server_is_in_the_usage() -> None:
    counted = {
        "prompt_tokens": 20,
        "completion_tokens": 9,
        "total_tokens": 29,
        "prompt_tokens_details": {"cached_tokens": 8, "cache_write_tokens": 4, "audio_tokens": 2},
        "completion_tokens_details": {"reasoning_tokens": 5, "audio_tokens": 0},
    }
    reply = reply_of(delta("stop", content="a"), {"choices": [], "usage": counted})
    assert reply.usage == ModelUsage(20, 9, 29, 8, 4, 5, {"input_audio_tokens": 2})
    deepseek = {"prompt_tokens": 20, "completion_tokens": 9, "prompt_cache_hit_tokens": 16}
    assert reply_of(delta("stop"), {"choices": [], "usage": deepseek}).usage.cached_tokens == 16


SETTINGS = OpenAICompatibleSettings("http://127.0.0.1:1/v1", "tiny")


def sent_back(*replies: ModelResponse, settings: OpenAICompatibleSettings = SETTINGS) -> list[dict[str, Any]]:
    """The assistant's messages of a transcript with these replies, each with a result of its calls."""
    messages = [ModelMessage.user("x")]
    for reply in replies:
        messages.append(reply.message)
        messages += [ModelMessage.tool(str(call.call_id), "ok", name=call.name) for call in reply.tool_calls]
    body: Any = chat_body(
        ModelRequest(messages), settings, COMMON, ModelCapability("tiny"), WireNames(["look"]), streams=True
    )
    return [each for each in body["messages"] if each["role"] == "assistant"]


def a_call(**more: Any) -> dict[str, Any]:
    return delta(
        tool_calls=[{"index": 0, "id": "c", "function": {"name": "look", "arguments": "{}"}, **more}]
    )


@pytest.mark.parametrize("field", ["reasoning", "reasoning_content"])
def test_reasoning_goes_back_in_its_field_while_its_turn_is_under_way(field: str) -> None:
    called = reply_of(delta(**{field: "hm "}), delta(**{field: "so"}), a_call(), delta("tool_calls"))
    assert sent_back(called)[0][field] == "hm so"
    answered = reply_of(delta(**{field: "hm"}), delta("stop", content="Done."))
    assert field not in sent_back(answered)[0]
    later: Any = chat_body(
        ModelRequest(
            [ModelMessage.user("x"), called.message, ModelMessage.tool("c", "ok"), ModelMessage.user("y")]
        ),
        SETTINGS,
        COMMON,
        ModelCapability("tiny"),
        WireNames(["look"]),
        streams=True,
    )
    assert field not in later["messages"][1]


def test_the_signature_of_a_thought_goes_back_with_its_call() -> None:
    extra = {"google": {"thought_signature": "c2ln"}}
    called = reply_of(a_call(extra_content=extra), delta("tool_calls"))
    assert sent_back(called)[0]["tool_calls"][0]["extra_content"] == extra
    assert "thought_signature" not in repr(called)


def test_details_of_reasoning_go_back_with_their_message() -> None:
    details = [{"type": "reasoning.encrypted", "data": "abc"}]
    called = reply_of(delta(reasoning="hm", reasoning_details=details), a_call(), delta("tool_calls"))
    assert sent_back(called)[0]["reasoning_details"] == details


@pytest.mark.parametrize(
    "other",
    [
        OpenAICompatibleSettings("http://other/v1", "tiny"),
        OpenAICompatibleSettings("http://127.0.0.1:1/v1", "large"),
    ],
)
def test_nothing_of_one_provider_goes_to_another(other: OpenAICompatibleSettings) -> None:
    called = reply_of(
        delta(reasoning_content="hm", reasoning_details=[{"data": "abc"}]),
        a_call(extra_content={"google": {}}),
        delta("tool_calls"),
    )
    (message,) = sent_back(called, settings=other)
    assert set(message) == {"role", "content", "tool_calls"}
    assert "extra_content" not in message["tool_calls"][0]
    assert other.provider.left_out([called.message]) == ["openai.chat@127.0.0.1/tiny"]
    assert SETTINGS.provider.left_out([called.message]) == []


def test_a_reply_names_the_models_whose_state_was_left_out() -> None:
    called = reply_of(a_call(extra_content={"google": {}}), delta("tool_calls"))
    foreign = ModelToolCall(
        "look", {}, "c", state=OpenAICompatibleSettings("http://o/v1", "m").provider.state("k", 1)
    )
    request = ModelRequest([ModelMessage.user("x"), ModelMessage.assistant("", [foreign]), called.message])
    reply = reply_of(delta("stop", content="a"), request=request)
    assert reply.metadata["state_left_out"] == ["openai.chat@o/m"]


def test_tokens_of_a_reply_that_could_not_be_used_are_counted_as_paid() -> None:
    usage = {"prompt_tokens": 20, "completion_tokens": 9, "total_tokens": 29}
    broken = frames({**delta("tool_calls"), "usage": usage})
    good = frames(delta("stop", content="a"))
    model = model_of(ByteServer(broken, good), most_retries=1)
    read = asyncio.run(told(model))
    assert read.response is not None, read.error
    (paid,) = read.response.metadata["passed_over"]  # type: ignore[misc, union-attr]
    assert paid == {
        "model": "tiny",
        "reason": "broken_call",
        "usage": {"input_tokens": 20, "output_tokens": 9, "total_tokens": 29},
    }

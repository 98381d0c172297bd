"""Servers that do not keep to their wire: a typed failure or the right reply, never a wrong one."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from itertools import permutations
from typing import Any

import pytest

from pilotage.adapters.anthropic import AnthropicSettings
from pilotage.adapters.anthropic.reply_mapping import MessagesReader
from pilotage.adapters.anthropic.request_mapping import counted_body
from pilotage.adapters.model_http.decoding import SseParser
from pilotage.adapters.model_http.errors import ModelServerError
from pilotage.adapters.model_http.names import WireNames
from pilotage.adapters.model_http.provider import Provider
from pilotage.adapters.model_http.reply_stream import WireReader
from pilotage.adapters.openai import OpenAICompatibleSettings
from pilotage.adapters.openai.dialect import COMMON
from pilotage.adapters.openai.reply_mapping import ReplyReader
from pilotage.adapters.openai.request_mapping import chat_body
from pilotage.adapters.openai.responses_reply import ResponsesReader
from pilotage.adapters.openai.responses_request import responses_body
from pilotage.agent.messages import (
    ModelMessage,
    ModelToolCall,
    OpaquePart,
    ProviderState,
    ReasoningPart,
    TextPart,
)
from pilotage.agent.model_reply import ModelResponse, ModelUsage
from pilotage.agent.model_request import ModelRequest
from pilotage.agent.ports.model import ModelCapability
from tests.adapters.model_http.recordings import recording
from tests.adapters.model_http.replies import WIRES, call, sent, text

PLAIN, NAMES, HERE = ModelRequest([ModelMessage.user("x")]), WireNames([], []), Provider("here", "tiny")
READERS: dict[str, Callable[[], WireReader]] = {
    "chat": lambda: ReplyReader(PLAIN, NAMES, HERE),
    "responses": lambda: ResponsesReader(PLAIN, NAMES, HERE),
    "messages": lambda: MessagesReader(PLAIN, NAMES, HERE),
}


def read(wire: str, frames: Sequence[bytes]) -> ModelResponse:
    reader, parser = READERS[wire](), SseParser()
    for event in parser.feed(b"".join(frames)) + parser.close():
        if not reader.is_over:
            reader.read(event)
    return reader.finish()[0]


def read_whole(wire: str, body: bytes) -> ModelResponse:
    reader = READERS[wire]()
    reader.read_whole(body)
    return reader.finish()[0]


@pytest.mark.parametrize(("spoken", "read_as"), [*permutations(WIRES, 2)])
def test_a_stream_of_another_wire_is_a_failure(spoken: str, read_as: str) -> None:
    for frames in (text(spoken, "Good day."), call(spoken, '{"text": "a"}')):
        with pytest.raises(ModelServerError):
            read(read_as, frames)


WHOLE = {
    "chat": recording("chat", "llamacpp", "chat_text"),
    "responses": recording("responses", "llamacpp", "resp_instructions"),
    "messages": recording("messages", "llamacpp", "msg_system"),
}


@pytest.mark.parametrize(("spoken", "read_as"), [*permutations(WIRES, 2)])
def test_a_body_of_another_wire_is_a_failure(spoken: str, read_as: str) -> None:
    assert read_whole(spoken, WHOLE[spoken].body).content
    with pytest.raises(ModelServerError):
        read_whole(read_as, WHOLE[spoken].body)


def counted(wire: str, usage: Any) -> ModelUsage:
    """The usage of a whole body with these counts."""
    body = json.loads(WHOLE[wire].body)
    if usage is None:
        del body["usage"]
    else:
        body["usage"] = usage
    return read_whole(wire, json.dumps(body).encode()).usage


NAMES_OF_COUNTS = {
    "chat": ("prompt_tokens", "completion_tokens"),
    "responses": ("input_tokens", "output_tokens"),
    "messages": ("input_tokens", "output_tokens"),
}


@pytest.mark.parametrize("wire", WIRES)
def test_counts_that_cannot_be_are_unknown_and_not_zero(wire: str) -> None:
    asked, answered = NAMES_OF_COUNTS[wire]
    assert counted(wire, None) == ModelUsage()
    assert counted(wire, []) == ModelUsage()
    for wrong in (-5, "12", 1.5, True, None, {}):
        usage = counted(wire, {asked: wrong, answered: 4})
        assert (usage.input_tokens, usage.output_tokens, usage.total_tokens) == (None, 4, None), wrong
        assert counted(wire, {asked: 7, answered: wrong}).output_tokens is None


def two_calls(*pieces: tuple[int, str]) -> dict[str, list[bytes]]:
    """Two calls whose arguments come in these pieces: (call, text)."""
    whole = ["".join(piece for at, piece in pieces if at == index) for index in (0, 1)]
    chat: list[dict[str, Any]] = [
        {"index": at, "id": f"c{at}", "function": {"name": "note"}} for at in (0, 1)
    ]
    chat += [{"index": at, "function": {"arguments": piece}} for at, piece in pieces]
    deltas = [{"choices": [{"index": 0, "delta": {"tool_calls": [each]}}]} for each in chat]
    items = [
        {"type": "function_call", "id": f"i{at}", "call_id": f"c{at}", "name": "note", "arguments": whole[at]}
        for at in (0, 1)
    ]
    blocks = [{"type": "tool_use", "id": f"c{at}", "name": "note", "input": {}} for at in (0, 1)]
    kind = "response.function_call_arguments.delta"
    return {
        "chat": sent(*deltas, {"choices": [{"index": 0, "delta": {}, "finish_reason": "tool_calls"}]}),
        "responses": sent(
            *(
                {
                    "type": "response.output_item.added",
                    "output_index": at,
                    "item": {**items[at], "arguments": ""},
                }
                for at in (0, 1)
            ),
            *({"type": kind, "output_index": at, "delta": piece} for at, piece in pieces),
            {"type": "response.completed", "response": {"status": "completed", "output": items}},
        ),
        "messages": sent(
            {"type": "message_start", "message": {}},
            *({"type": "content_block_start", "index": at, "content_block": blocks[at]} for at in (0, 1)),
            *(
                {
                    "type": "content_block_delta",
                    "index": at,
                    "delta": {"type": "input_json_delta", "partial_json": piece},
                }
                for at, piece in pieces
            ),
            {"type": "message_delta", "delta": {"stop_reason": "tool_use"}},
            {"type": "message_stop"},
        ),
    }


@pytest.mark.parametrize("wire", WIRES)
def test_arguments_of_two_calls_that_alternate_are_told_apart_or_refused(wire: str) -> None:
    """On the chat wire a call ends where the next one begins."""
    frames = two_calls((0, '{"text"'), (1, '{"te'), (0, ': "a"}'), (1, 'xt": "b"}'))[wire]
    if wire == "chat":
        with pytest.raises(ModelServerError, match="came after its end"):
            read(wire, frames)
        return
    calls = read(wire, frames).tool_calls
    assert [(each.call_id, each.arguments) for each in calls] == [
        ("c0", {"text": "a"}),
        ("c1", {"text": "b"}),
    ]


@pytest.mark.parametrize("wire", WIRES)
def test_arguments_that_were_mixed_up_are_never_those_of_a_call(wire: str) -> None:
    """A piece of one call under the place of the other leaves no JSON: the model gets that as the error of its call."""
    frames = two_calls((0, '{"text"'), (1, ': "a"}'), (0, '{"te'), (1, 'xt": "b"}'))[wire]
    try:
        calls = read(wire, frames).tool_calls
    except ModelServerError:
        return
    assert not any(each.arguments in ({"text": "a"}, {"text": "b"}, {}) for each in calls)


def stored() -> list[ModelMessage]:
    """A conversation with the state of several providers."""
    providers = [
        "openai.chat@h",
        "openai.responses@h",
        "anthropic.messages@h",
        "openai.chat@elsewhere",
        "unknown",
    ]
    parts: list[Any] = []
    for provider in providers:
        for kind in ("signature", "block", "item", "phase", "reasoning_details", "extra_content", "?"):
            state = ProviderState(provider, "m", kind, f"SECRET of {provider}")
            parts += [ReasoningPart("thought", None, state), OpaquePart(state), TextPart("said", state)]
            parts.append(ModelToolCall("note", {}, f"c-{provider}-{kind}", state))
    results = [ModelMessage.tool(each.call_id, "noted") for each in parts if isinstance(each, ModelToolCall)]
    return [ModelMessage.user("go"), ModelResponse.of(parts).message, *results, ModelMessage.user("on")]


@pytest.mark.parametrize(
    ("wire", "own"),
    [("chat", "openai.chat@h"), ("responses", "openai.responses@h"), ("messages", "anthropic.messages@h")],
)
def test_state_of_other_providers_in_a_stored_conversation_is_not_sent(wire: str, own: str) -> None:
    request, capability = ModelRequest(stored()), ModelCapability("m")
    names = WireNames([], ["note"])
    openai = OpenAICompatibleSettings("http://h/v1", "m")
    bodies = {
        "chat": lambda: chat_body(request, openai, COMMON, capability, names, streams=False),
        "responses": lambda: responses_body(
            request, openai, capability, names, Provider("openai.responses@h", "m"), streams=False
        ),
        "messages": lambda: counted_body(request, AnthropicSettings("m", base_url="http://h/v1"), names),
    }
    body = json.dumps(bodies[wire]())
    assert body.count("SECRET of") == body.count(f"SECRET of {own}") > 0
    other = Provider(own, "another model").left_out(request.messages)
    assert f"{own}/m" in other

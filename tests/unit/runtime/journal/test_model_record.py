"""A model's reply survives the way to JSON and back, and its replayed stream adds up to it."""

from __future__ import annotations

import json
from dataclasses import dataclass
from decimal import Decimal
from typing import cast

import pytest

from pilotage import ModelMessage, ModelRequest, StructuredOutputSpec
from pilotage.agent.messages import ModelToolCall
from pilotage.agent.model_reply import ModelFinishReason, ModelResponse, ModelStreamEventKind, ModelUsage
from pilotage.errors import ModelCallError
from pilotage.jsonvalue import JsonObject, canonical_json
from pilotage.runtime.journal.records import (
    decode_failure,
    decode_response,
    encode_failure,
    encode_response,
    replayed_events,
)


@dataclass(frozen=True)
class Offer:
    amount: Decimal


PLAIN = ModelRequest([ModelMessage.user("?")])
TYPED = ModelRequest([ModelMessage.user("?")], output=StructuredOutputSpec.from_type(Offer))
CALLS = (ModelToolCall("pay", {"amount": "5"}, "c-1", {"index": 0}), ModelToolCall("look", {}, None))

REPLIES: list[tuple[str, ModelRequest, ModelResponse]] = [
    ("empty", PLAIN, ModelResponse("")),
    ("text", PLAIN, ModelResponse("Hello ü", finish_reason=ModelFinishReason.STOP)),
    (
        "usage and metadata",
        PLAIN,
        ModelResponse("x", usage=ModelUsage(1, 2, 3), metadata={"id": "r-1", "cached": True}),
    ),
    ("calls", PLAIN, ModelResponse("", tool_calls=CALLS, finish_reason=ModelFinishReason.TOOL_CALLS)),
    (
        "typed output",
        TYPED,
        ModelResponse("{}", structured_output={"amount": "2.50"}, output=Offer(Decimal("2.50"))),
    ),
    ("output without a type", PLAIN, ModelResponse("[1]", structured_output=[1])),
    ("cut short", TYPED, ModelResponse("{", finish_reason=ModelFinishReason.LENGTH)),
]
EACH = pytest.mark.parametrize(
    ("request_", "response"), [row[1:] for row in REPLIES], ids=[row[0] for row in REPLIES]
)


JSON = {
    "empty": "{}",
    "text": '{"content":"Hello \u00fc","finish_reason":"stop"}',
    "usage and metadata": '{"content":"x","metadata":{"cached":true,"id":"r-1"},'
    '"usage":{"input_tokens":1,"output_tokens":2,"total_tokens":3}}',
    "calls": '{"finish_reason":"tool_calls","tool_calls":['
    '{"arguments":{"amount":"5"},"call_id":"c-1","metadata":{"index":0},"name":"pay"},{"arguments":{},"name":"look"}]}',
    "typed output": '{"content":"{}","structured_output":{"amount":"2.50"}}',
    "output without a type": '{"content":"[1]","structured_output":[1]}',
    "cut short": '{"content":"{","finish_reason":"length"}',
}


@pytest.mark.parametrize(("name", "response"), [(name, response) for name, _, response in REPLIES])
def test_a_reply_has_its_json(name: str, response: ModelResponse) -> None:
    assert canonical_json(encode_response(response)) == JSON[name]


@pytest.mark.parametrize(
    ("failure", "text"),
    [
        (ModelCallError("gone"), '{"error":"gone","retryable":false}'),
        (
            ModelCallError("busy", retryable=True, failure="rate_limit"),
            '{"error":"busy","failure":"rate_limit","retryable":true}',
        ),
    ],
)
def test_a_failed_call_has_its_json_and_comes_back_from_it(failure: ModelCallError, text: str) -> None:
    assert canonical_json(encode_failure(failure)) == text
    found = decode_failure(json.loads(text))
    assert (str(found), found.retryable, found.failure) == (str(failure), failure.retryable, failure.failure)


@EACH
def test_a_reply_comes_back_from_its_json_text_as_it_was(
    request_: ModelRequest, response: ModelResponse
) -> None:
    kept = cast(JsonObject, json.loads(canonical_json(encode_response(response))))
    assert decode_response(kept, request_.structured_output) == response


@EACH
def test_a_replayed_stream_adds_up_to_the_reply(request_: ModelRequest, response: ModelResponse) -> None:
    events = list(replayed_events(response, request_))
    *_, last = events
    assert "".join(event.text for event in events if event.is_text_delta) == response.content
    assert [event.tool_call for event in events if event.is_tool_call] == list(response.tool_calls)
    assert (last.kind, last.response, last.usage) == (ModelStreamEventKind.DONE, response, response.usage)

"""Requests on the wire of `/v1/messages`."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import pytest

from pilotage.adapters.anthropic import AnthropicSettings
from pilotage.adapters.anthropic.request_mapping import messages_body, names_of
from pilotage.agent.messages import (
    MediaPart,
    ModelMessage,
    ModelToolCall,
    OpaquePart,
    ProviderState,
    ReasoningPart,
    TextPart,
)
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

SETTINGS = AnthropicSettings("m", "k", "http://h/v1")
OWN = SETTINGS.provider


@agent_tool()
def look(city: str, zoom: int = 3) -> str:
    """Look at a place."""
    return f"{city} {zoom}"


@dataclass
class Answer:
    """An answer."""

    text: str


def body_of(request: ModelRequest, *, parallel: bool = True, streams: bool = False) -> dict[str, Any]:
    capability = ModelCapability("m", parallel_tool_calls=parallel)
    return messages_body(request, SETTINGS, capability, names_of(request), streams=streams)


def test_a_plain_request() -> None:
    request = ModelRequest([ModelMessage.system("Be brief."), ModelMessage.user("Hi")])
    assert body_of(request, streams=True) == {
        "model": "m",
        "max_tokens": 8192,
        "stream": True,
        "system": [{"type": "text", "text": "Be brief."}],
        "messages": [{"role": "user", "content": [{"type": "text", "text": "Hi"}]}],
    }


def test_results_of_one_turn_are_one_message_with_the_results_in_front() -> None:
    calls = [ModelToolCall("look", {"city": "Oslo"}, "c1"), ModelToolCall("look", {"city": "Rome"}, "c2")]
    image = MediaPart("image/png", data="AA==")
    request = ModelRequest(
        [
            ModelMessage.user("Where?"),
            ModelMessage.assistant("Let me look.", calls),
            ModelMessage.tool("c1", [TextPart("there"), image], name="look"),
            ModelMessage.evidence("a note"),
            ModelMessage.tool("c2", "gone", name="look", is_error=True),
            ModelMessage.user("And?"),
        ]
    )
    turns = body_of(request)["messages"]
    assert [each["role"] for each in turns] == ["user", "assistant", "user"]
    assert turns[1]["content"] == [
        {"type": "text", "text": "Let me look."},
        {"type": "tool_use", "id": "c1", "name": "look", "input": {"city": "Oslo"}},
        {"type": "tool_use", "id": "c2", "name": "look", "input": {"city": "Rome"}},
    ]
    source = {"type": "base64", "media_type": "image/png", "data": "AA=="}
    assert turns[2]["content"] == [
        {
            "type": "tool_result",
            "tool_use_id": "c1",
            "content": [{"type": "text", "text": "there"}, {"type": "image", "source": source}],
        },
        {"type": "tool_result", "tool_use_id": "c2", "content": "gone", "is_error": True},
        {"type": "text", "text": "<evidence>\n| a note\n</evidence>"},
        {"type": "text", "text": "And?"},
    ]


def test_thoughts_and_blocks_of_this_provider_go_back_and_no_others() -> None:
    block = {"type": "redacted_thinking", "data": "x"}
    foreign = ProviderState(OWN.name, "other", "signature", "s")
    message = ModelMessage.of(
        [
            ReasoningPart("hm", state=OWN.state("signature", "s")),
            OpaquePart(OWN.state("block", block)),
            ReasoningPart("foreign", state=foreign),
            ReasoningPart("bare"),
            OpaquePart(replace(foreign, kind="block")),
            TextPart("So."),
        ]
    )
    body = body_of(ModelRequest([ModelMessage.user("x"), message]))
    assert body["messages"][1]["content"] == [
        {"type": "thinking", "thinking": "hm", "signature": "s"},
        block,
        {"type": "text", "text": "So."},
    ]
    assert OWN.left_out([message]) == [f"{OWN.name}/other"]


def test_options_are_parameters() -> None:
    request = ModelRequest(
        [ModelMessage.system("s"), ModelMessage.user("x")],
        sampling=SamplingOptions(0.5, 0.9, 100, stop=["END"]),
        reasoning=ReasoningOptions(effort="low", budget_tokens=2048),
        cache=CacheOptions(is_long=True),
        output=StructuredOutputSpec.from_type(Answer),
    )
    body = body_of(request)
    assert (body["temperature"], body["top_p"], body["max_tokens"]) == (0.5, 0.9, 100)
    assert (body["stop_sequences"], body["thinking"]) == (["END"], {"type": "enabled", "budget_tokens": 2048})
    assert body["output_config"]["effort"] == "low"
    assert body["output_config"]["format"]["schema"]["required"] == ["text"]
    mark = {"type": "ephemeral", "ttl": "1h"}
    assert body["system"][-1]["cache_control"] == mark
    assert body["messages"][-1]["content"][-1]["cache_control"] == mark


@pytest.mark.parametrize(
    ("calling", "parallel", "choice"),
    [
        (ToolCallingSpec.from_tools([look]), True, None),
        (ToolCallingSpec.from_tools([look]), False, {"type": "auto", "disable_parallel_tool_use": True}),
        (ToolCallingSpec.from_tools([look], choice=ModelToolChoice.REQUIRED), True, {"type": "any"}),
        (ToolCallingSpec.from_tools([look], choice=ModelToolChoice.NONE), True, {"type": "none"}),
        (ToolCallingSpec.from_tools([look], tool_name="look"), True, {"type": "tool", "name": "look"}),
    ],
)
def test_choices_of_tools(calling: ToolCallingSpec, parallel: bool, choice: object) -> None:
    body = body_of(ModelRequest([ModelMessage.user("x")], tools=calling), parallel=parallel)
    assert body.get("tool_choice") == choice
    (tool,) = body["tools"]
    assert (tool["name"], tool["strict"], tool["input_schema"]["required"]) == (
        "look",
        True,
        ["city"],
    )

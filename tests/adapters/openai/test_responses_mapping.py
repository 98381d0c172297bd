"""Requests on the wire of `/v1/responses`."""

from __future__ import annotations

from typing import Any

from pilotage.adapters.model_http.provider import Provider
from pilotage.adapters.openai import OpenAICompatibleSettings
from pilotage.adapters.openai.request_mapping import names_of
from pilotage.adapters.openai.responses_request import responses_body
from pilotage.agent.messages import (
    MediaPart,
    ModelMessage,
    ModelToolCall,
    ProviderState,
    ReasoningPart,
    TextPart,
)
from pilotage.agent.model_request import (
    CacheOptions,
    ModelRequest,
    ReasoningOptions,
    SamplingOptions,
    StructuredOutputSpec,
    ToolCallingSpec,
)
from pilotage.agent.ports.model import ModelCapability
from pilotage.agent.tools.declare import agent_tool

OWN = Provider("openai.responses@h", "m")


@agent_tool()
def look(city: str, zoom: int = 3) -> str:
    """Look at a place."""
    return f"{city} {zoom}"


def body_of(request: ModelRequest) -> dict[str, Any]:
    settings = OpenAICompatibleSettings("http://h/v1", "m")
    return responses_body(request, settings, ModelCapability("m"), names_of(request), OWN, streams=True)


def test_a_transcript_is_a_list_of_items_and_nothing_is_stored() -> None:
    image = MediaPart("image/png", data="AA==")
    request = ModelRequest(
        [
            ModelMessage.system("Be brief."),
            ModelMessage.user([TextPart("Where?"), image]),
            ModelMessage.of([ReasoningPart("bare"), ModelToolCall("look", {"city": "Oslo"}, "c1")]),
            ModelMessage.tool("c1", [TextPart("there"), image], name="look"),
            ModelMessage.assistant("In Oslo."),
        ]
    )
    body = body_of(request)
    picture = {"type": "input_image", "image_url": "data:image/png;base64,AA=="}
    assert body["input"] == [
        {"role": "system", "content": "Be brief."},
        {"role": "user", "content": [{"type": "input_text", "text": "Where?"}, picture]},
        {"type": "function_call", "call_id": "c1", "name": "look", "arguments": '{"city":"Oslo"}'},
        {
            "type": "function_call_output",
            "call_id": "c1",
            "output": [{"type": "input_text", "text": "there"}, picture],
        },
        {"role": "assistant", "content": "In Oslo."},
    ]
    assert (body["store"], body["include"], body["stream"]) == (False, ["reasoning.encrypted_content"], True)
    assert "previous_response_id" not in body


def test_encrypted_reasoning_of_this_provider_goes_back_and_no_other() -> None:
    item = {"type": "reasoning", "id": "rs", "summary": [], "encrypted_content": "x"}
    foreign = ProviderState("openai.responses@other", "m", "item", item)
    replies = [
        ReasoningPart("", state=OWN.state("item", item)),
        ReasoningPart("", state=foreign),
        TextPart("So."),
    ]
    body = body_of(ModelRequest([ModelMessage.user("x"), ModelMessage.of(replies)]))
    assert body["input"][1:] == [item, {"role": "assistant", "content": "So."}]


def test_options_are_parameters() -> None:
    request = ModelRequest(
        [ModelMessage.user("x")],
        sampling=SamplingOptions(0.5, max_tokens=100),
        reasoning=ReasoningOptions(effort="low", is_shown=True),
        cache=CacheOptions("talk-1"),
        tools=ToolCallingSpec.from_tools([look], tool_name="look", strict=True),
        output=StructuredOutputSpec.from_type(int),
    )
    body = body_of(request)
    assert (body["temperature"], body["max_output_tokens"], body["prompt_cache_key"]) == (0.5, 100, "talk-1")
    assert body["reasoning"] == {"effort": "low", "summary": "auto"}
    (tool,) = body["tools"]
    assert (tool["name"], tool["strict"], tool["parameters"]["required"]) == ("look", True, ["city", "zoom"])
    assert body["tool_choice"] == {"type": "function", "name": "look"}
    assert body["text"]["format"]["type"] == "json_schema"

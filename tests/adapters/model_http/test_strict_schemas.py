"""Strict schemas have what their providers take, whatever the types of tools and answers are."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import date
from decimal import Decimal
from enum import Enum
from typing import Annotated, Any, Literal

import pytest
from pydantic import BaseModel, Field

from pilotage.adapters.anthropic import AnthropicSettings
from pilotage.adapters.anthropic.reply_mapping import MessagesReader
from pilotage.adapters.anthropic.request_mapping import messages_body
from pilotage.adapters.anthropic.request_mapping import names_of as names_on_messages
from pilotage.adapters.model_http.decoding import SseParser
from pilotage.adapters.model_http.names import WireNames
from pilotage.adapters.model_http.provider import Provider
from pilotage.adapters.model_http.reply_stream import WireReader
from pilotage.adapters.model_http.strict_schema import ANTHROPIC, OPENAI, strict_schema
from pilotage.adapters.openai import OpenAICompatibleSettings
from pilotage.adapters.openai.dialect import COMMON
from pilotage.adapters.openai.reply_mapping import ReplyReader
from pilotage.adapters.openai.request_mapping import chat_body, names_of
from pilotage.adapters.openai.responses_reply import ResponsesReader
from pilotage.adapters.openai.responses_request import responses_body
from pilotage.agent.messages import ModelMessage, ModelToolCall
from pilotage.agent.model_reply import ModelResponse
from pilotage.agent.model_request import (
    JsonSchemaConstraint,
    ModelRequest,
    ModelToolSpec,
    ReasoningOptions,
    SamplingOptions,
    StructuredOutputSpec,
    ToolCallingSpec,
)
from pilotage.agent.ports.model import ModelCapability
from pilotage.agent.tools.declare import agent_tool
from pilotage.jsonvalue import JsonValue
from tests.adapters.model_http.provider_rules import refusals_of_anthropic, refusals_of_openai
from tests.adapters.model_http.replies import WIRES, text

NAMES, HERE = WireNames([], []), Provider("here", "tiny")
ASKED = [ModelMessage.user("x")]
M = ModelCapability("m")
PLACE = OpenAICompatibleSettings("http://h/v1", "m")


class Kind(Enum):
    """Kinds."""

    LARGE = "large"
    SMALL = "small"


@dataclass
class Node:
    """A tree."""

    value: int
    children: list[Node] = field(default_factory=list)


class Order(BaseModel):
    """A model of pydantic, which says nothing about other fields."""

    name: Annotated[str, Field(min_length=1, pattern="^a", description="Its name.")]
    count: Annotated[int, Field(ge=1, lt=9)] = 3
    kind: Kind
    level: Literal["x", 1] | None = None


@agent_tool
async def pay(amount: Decimal, to: Annotated[str, Field(max_length=34)], on: date | None = None) -> str:
    """Pay an amount."""
    return to


@agent_tool
async def order(what: Order, tags: set[str], kinds: list[Kind] | None = None) -> str:
    """Order something."""
    return what.name


@agent_tool
async def plant(tree: Node) -> str:
    """Plant a tree."""
    return str(tree.value)


@agent_tool
async def anything(value: JsonValue) -> str:
    """Take anything."""
    return str(value)


@agent_tool
async def open_one(counts: dict[str, int]) -> str:
    """Take counts."""
    return str(counts)


@agent_tool
async def pair(place: tuple[int, str]) -> str:
    """Take a place."""
    return str(place)


TOOLS = [pay, order, plant, anything, open_one, pair]
OUTPUTS: list[Any] = [Order, Node, Decimal, list[Order], Kind]


def bodies(request: ModelRequest) -> dict[str, dict[str, Any]]:
    names = names_of(request)
    provider = Provider("openai.responses@h", "m")
    messages = AnthropicSettings("m", base_url="http://h/v1")
    return {
        "chat": chat_body(request, PLACE, COMMON, M, names, streams=False),
        "responses": responses_body(request, PLACE, M, names, provider, streams=False),
        "messages": messages_body(request, messages, M, names_on_messages(request), streams=False),
    }


def strict_ones(body: dict[str, Any]) -> dict[str, Any]:
    """The strict schemas of a body's tools."""
    tools = [tool.get("function", tool) for tool in body["tools"]]
    schemas = ((tool["name"], tool.get("parameters", tool.get("input_schema"))) for tool in tools)
    return {name: schema for (name, schema), tool in zip(schemas, tools, strict=True) if tool.get("strict")}


def test_tools_are_strict_where_their_schema_has_such_a_form() -> None:
    made = bodies(ModelRequest(ASKED, tools=ToolCallingSpec.from_tools(TOOLS)))
    for wire in ("chat", "responses"):
        strict = strict_ones(made[wire])
        assert [*strict] == ["pay", "order", "plant"]
        assert [refusals_of_openai(each) for each in strict.values()] == [[], [], []]
    strict = strict_ones(made["messages"])
    assert [*strict] == ["pay", "order"]  # no recursion
    assert refusals_of_anthropic([*strict.values()], len(strict)) == []


@pytest.mark.parametrize("output", OUTPUTS, ids=str)
def test_answers_are_of_a_schema_that_the_provider_takes(output: Any) -> None:
    made = bodies(ModelRequest(ASKED, output=StructuredOutputSpec.from_type(output)))
    for shape in (made["chat"]["response_format"]["json_schema"], made["responses"]["text"]["format"]):
        assert shape["strict"]
        assert refusals_of_openai(shape["schema"]) == []
    if output is not Node:
        schema = made["messages"]["output_config"]["format"]["schema"]
        assert refusals_of_anthropic([schema], 0) == []


@pytest.mark.parametrize("wire", WIRES)
@pytest.mark.parametrize(
    ("output", "answer", "expected"),
    [
        (list[int], {"answer": [1, 2]}, [1, 2]),
        (list[int], [1, 2], [1, 2]),
        (Decimal, {"answer": "1.50"}, Decimal("1.50")),
        (dict[str, int], {"answer": 3}, {"answer": 3}),
        (int | None, {"answer": None}, None),
    ],
    ids=str,
)
def test_an_answer_that_is_no_object_is_a_field_of_one(
    wire: str, output: Any, answer: Any, expected: Any
) -> None:
    request = ModelRequest(ASKED, output=StructuredOutputSpec.from_type(output))
    readers: dict[str, WireReader] = {
        "chat": ReplyReader(request, NAMES, HERE, strips_nulls=True),
        "responses": ResponsesReader(request, NAMES, HERE),
        "messages": MessagesReader(request, NAMES, HERE),
    }
    reader, parser = readers[wire], SseParser()
    for event in parser.feed(b"".join(text(wire, json.dumps(answer)))):
        reader.read(event)
    assert reader.finish()[0].output == expected


def test_a_limit_that_the_provider_does_not_enforce_is_said() -> None:
    schema = JsonSchemaConstraint(
        {
            "type": "object",
            "properties": {
                "name": {"type": "string", "minLength": 2, "description": "Its name.", "default": "ab"},
                "count": {"type": "integer", "minimum": 1},
            },
            "required": ["name"],
        }
    ).schema
    fields: Any = (strict_schema(schema, OPENAI) or {})["properties"]
    assert fields["name"] == {"type": "string", "description": "Its name. (minLength: 2)"}
    assert fields["count"] == {"type": ["integer", "null"], "minimum": 1}
    fields = (strict_schema(schema, ANTHROPIC) or {})["properties"]
    assert fields["count"] == {"type": "integer", "description": "(minimum: 1)"}


@pytest.mark.parametrize(
    "field_schema",
    [
        {"allOf": [{"type": "string"}]},
        {"not": {"type": "string"}},
        {"type": "object"},
        {"type": "object", "properties": {"a": {"type": "string"}}, "additionalProperties": True},
        {"type": "object", "properties": {}, "patternProperties": {"^a": {"type": "string"}}},
        {"type": "array"},
        {"enum": [{"a": 1}]},
        {"anyOf": [{"type": "string"}, {}]},
        True,
    ],
    ids=str,
)
def test_what_has_no_strict_form_makes_a_schema_that_is_not_enforced(field_schema: Any) -> None:
    schema = {"type": "object", "properties": {"a": field_schema}, "required": ["a"]}
    assert strict_schema(schema, OPENAI) is None
    assert strict_schema(schema, ANTHROPIC) is None


def tool(number: int, optional: int, unions: int = 0) -> ModelToolSpec:
    fields: dict[str, Any] = {f"f{at}": {"type": "string"} for at in range(optional)}
    fields |= {f"u{at}": {"type": ["string", "integer"]} for at in range(unions)}
    required = [each for each in fields if each.startswith("u")]
    schema = {"type": "object", "properties": fields, "required": required, "additionalProperties": False}
    return ModelToolSpec(f"tool_{number}", JsonSchemaConstraint(schema))


@pytest.mark.parametrize(
    ("tools", "strict"),
    [
        ([tool(number, 0) for number in range(30)], 20),
        ([tool(number, 5) for number in range(6)], 4),
        ([tool(number, 0, 6) for number in range(5)], 2),
        ([tool(0, 25), tool(1, 0)], 1),
    ],
    ids=["tools", "optional fields", "unions", "one large tool"],
)
def test_no_more_is_strict_than_anthropic_takes(tools: Sequence[ModelToolSpec], strict: int) -> None:
    body = bodies(ModelRequest(ASKED, tools=ToolCallingSpec(tools)))["messages"]
    found = strict_ones(body)
    assert (len(found), len(body["tools"])) == (strict, len(tools))
    assert refusals_of_anthropic([*found.values()], len(found)) == []


def test_the_budget_of_reasoning_is_beside_the_longest_reply() -> None:
    thinking = ReasoningOptions(budget_tokens=10_000)
    body = bodies(ModelRequest(ASKED, reasoning=thinking))["messages"]
    assert (body["max_tokens"], body["thinking"]["budget_tokens"]) == (18_192, 10_000)
    own = bodies(ModelRequest(ASKED, reasoning=thinking, sampling=SamplingOptions(max_tokens=12_000)))
    assert own["messages"]["max_tokens"] == 12_000


def test_arguments_have_one_order_whatever_the_model_wrote() -> None:

    def sent(arguments: Any) -> set[str]:
        reply = ModelResponse.of([ModelToolCall("look", arguments, "c1")]).message
        request = ModelRequest([*ASKED, reply, ModelMessage.tool("c1", "seen")])
        return {json.dumps(each) for each in bodies(request).values()}

    assert sent({"z": 1, "a": {"y": 1, "x": 2}}) == sent({"a": {"x": 2, "y": 1}, "z": 1})

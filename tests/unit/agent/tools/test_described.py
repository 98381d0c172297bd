"""Tools that a schema describes: what their arguments are held to, and what is refused."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from pilotage.agent.model_request import ToolCallingSpec
from pilotage.agent.tools import AgentToolRuntimeContext, Idempotency, ToolOptions, described_tool
from pilotage.errors import AgentDefinitionError, AgentToolBindingError
from pilotage.jsonvalue import JsonObject, JsonValue


class Remote: ...


async def act(arguments: JsonObject) -> JsonValue:
    return dict(arguments)


async def with_key(arguments: JsonObject, runtime_context: AgentToolRuntimeContext) -> JsonValue:
    return runtime_context.idempotency_key


def act_at_once(arguments: JsonObject) -> JsonValue:
    return None


def tool(schema: JsonObject, run: Callable[..., object] = act, **options: object) -> object:
    named = ToolOptions(**{"name": "find", **options})  # type: ignore[arg-type]
    return described_tool(run, named, owner=Remote, input_schema=schema)  # type: ignore[arg-type]


NESTED: JsonObject = {
    "type": "object",
    "properties": {
        "where": {"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]},
        "tags": {"type": "array", "items": {"type": "string"}},
        "kind": {"enum": ["a", "b"]},
        "fixed": {"const": 1},
        "either": {"anyOf": [{"type": "integer"}, {"type": "null"}]},
        "several": {"type": ["string", "boolean"]},
        "counts": {"type": "object", "additionalProperties": {"type": "integer"}},
        "free": {"$ref": "#/$defs/whatever"},
    },
    "additionalProperties": False,
}


@pytest.mark.parametrize(
    "arguments",
    [
        {},
        {"where": {"city": "Bergen", "street": "left open"}},
        {"tags": ["x", "y"]},
        {"kind": "b", "fixed": 1, "either": None, "several": True},
        {"either": 3, "several": "text"},
        {"counts": {"a": 1}},
        {"free": {"any": ["thing"]}},
    ],
)
def test_arguments_that_fit_are_bound_as_they_are(arguments: JsonObject) -> None:
    descriptor = described_tool(act, ToolOptions(name="find"), owner=Remote, input_schema=NESTED)
    assert descriptor.bind_invocation(arguments).arguments == arguments


@pytest.mark.parametrize(
    ("arguments", "problem"),
    [
        ({"where": {}}, "'where.city' is missing"),
        ({"tags": ["x", 1]}, "'tags[1]' should be a valid string"),
        ({"kind": "c"}, "'kind' should be 'a' or 'b'"),
        ({"fixed": 2}, "'fixed' should be 1"),
        ({"counts": {"a": "many"}}, "'counts.a' should be a valid integer"),
        ({"other": 1}, "'other' is not a parameter"),
    ],
)
def test_what_does_not_fit_is_named(arguments: JsonObject, problem: str) -> None:
    descriptor = described_tool(act, ToolOptions(name="find"), owner=Remote, input_schema=NESTED)
    with pytest.raises(AgentToolBindingError) as caught:
        descriptor.bind_invocation(arguments)
    assert any(problem in each for each in caught.value.problems), caught.value.problems


def test_an_open_schema_takes_what_it_does_not_name() -> None:
    descriptor = described_tool(act, ToolOptions(name="find"), owner=Remote, input_schema={})
    assert descriptor.bind_invocation({"anything": 1}).arguments == {"anything": 1}


def test_a_key_makes_conditional_idempotency_count() -> None:
    options = ToolOptions(name="find", idempotency=Idempotency.CONDITIONALLY_IDEMPOTENT)
    without = described_tool(act, options, owner=Remote, input_schema={})
    keyed = described_tool(with_key, options, owner=Remote, input_schema={})
    assert without.effective_idempotency is Idempotency.UNKNOWN
    assert keyed.effective_idempotency is Idempotency.CONDITIONALLY_IDEMPOTENT


async def test_outside_a_run_it_is_a_plain_call() -> None:
    descriptor = described_tool(act, ToolOptions(name="find"), owner=Remote, input_schema=NESTED)
    assert await descriptor.callable(kind="a") == {"kind": "a"}  # type: ignore[misc]


@pytest.mark.parametrize(
    ("mistake", "words"),
    [
        (lambda: tool({}, name=None), "described_tool has no name"),
        (lambda: tool({}, act_at_once), "Remote.find: what carries a described tool out must be async"),
        (lambda: tool({}, reconcile="found"), "Remote.find: a described tool has no method to reconcile by"),
        (lambda: tool({"type": "string"}), "Remote.find: the input schema of a tool describes an object"),
        (
            lambda: tool({"properties": {"runtime_context": {}}}),
            "Remote.find: the input schema has a property 'runtime_context'",
        ),
        (lambda: tool({}, effects="none"), "Remote.find: agent_tool.effects is 'none'"),
    ],
)
def test_what_is_wrong_is_refused_where_the_tool_is_made(mistake: Callable[[], object], words: str) -> None:
    with pytest.raises(AgentDefinitionError, match=words):
        mistake()


@pytest.mark.parametrize(
    ("schema", "is_strict"),
    [
        ({"properties": {"a": {}}, "required": ["a"], "additionalProperties": False}, True),
        ({"properties": {"a": {}}, "required": ["a"]}, False),
        ({"properties": {"a": {}, "b": {}}, "required": ["a"], "additionalProperties": False}, False),
    ],
)
def test_a_server_is_asked_to_be_strict_only_where_the_schema_can_be(
    schema: JsonObject, is_strict: bool
) -> None:
    descriptor = described_tool(act, ToolOptions(name="find"), owner=Remote, input_schema=schema)
    (shown,) = ToolCallingSpec.from_tools([descriptor.callable]).tools
    assert shown.parameters.strict is is_strict

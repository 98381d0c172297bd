"""Requests: context in its place, tools, the shape of the answer, capability checks."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from decimal import Decimal
from inspect import isawaitable
from typing import Annotated, Any, cast

import pytest
from pydantic import BaseModel

from pilotage.agent.context import ContextPack, ContextPackRole, render_context_pack
from pilotage.agent.messages import ModelMessage, ModelToolCall
from pilotage.agent.model_request import (
    JsonSchemaConstraint,
    ModelRequest,
    ModelToolChoice,
    ModelToolSpec,
    SamplingOptions,
    StructuredOutputSpec,
    ToolCallingSpec,
)
from pilotage.agent.tools.declare import agent_tool, original_function, tool_calls_go_to
from pilotage.errors import (
    AgentDefinitionError,
    AgentStructuredOutputError,
    AgentToolBindingError,
    AgentToolDispatchError,
)
from pilotage.safety.fields import SecretField

SYSTEM, USER, ANSWER = ModelMessage.system("s"), ModelMessage.user("u"), ModelMessage.assistant("a")
QUESTION = ModelMessage.user("q")


def pack(role: ContextPackRole) -> ContextPack:
    return ContextPack(f"p-{role}", f"content of {role}", "docs", role)


def placed(messages: list[ModelMessage], *roles: ContextPackRole) -> list[tuple[str, str]]:
    request = ModelRequest(messages, context=[pack(role) for role in roles])
    packs = {render_context_pack(pack(role)): f"<{role}>" for role in roles}
    return [(m.role.value, packs.get(m.text, m.text)) for m in request.assemble_messages()]


@pytest.mark.parametrize(
    ("messages", "roles", "expected"),
    [
        ([USER], [], [("user", "u")]),
        ([USER], [ContextPackRole.EVIDENCE], [("evidence", "<evidence>"), ("user", "u")]),
        (
            [SYSTEM, USER, ANSWER, QUESTION],
            [ContextPackRole.MEMORY, ContextPackRole.INSTRUCTION, ContextPackRole.TOOL_RESULT],
            [
                ("system", "s"),
                ("system", "<instruction>"),
                ("user", "u"),
                ("assistant", "a"),
                ("evidence", "<memory>"),
                ("evidence", "<tool_result>"),
                ("user", "q"),
            ],
        ),
        ([SYSTEM], [ContextPackRole.STATE], [("system", "s"), ("evidence", "<state>")]),
        ([QUESTION], [ContextPackRole.SYSTEM], [("system", "<system>"), ("user", "q")]),
    ],
)
def test_context_stands_before_the_question_and_is_nobodys_words(
    messages: list[ModelMessage], roles: list[ContextPackRole], expected: list[tuple[str, str]]
) -> None:
    assert placed(messages, *roles) == expected


def test_a_pack_carries_its_provenance_as_metadata() -> None:
    request = ModelRequest([QUESTION], context=[pack(ContextPackRole.EVIDENCE)])
    (shown, _) = request.assemble_messages()
    assert shown.metadata["context_pack_id"] == "p-evidence"
    assert shown.metadata["source"] == "docs"


def test_tools_and_output_are_short_names() -> None:
    tools, output = ToolCallingSpec(()), StructuredOutputSpec.from_type(int)
    request = ModelRequest([QUESTION], tools=tools, output=output)
    assert request.tool_calling is tools
    assert request.structured_output is output
    assert request == ModelRequest([QUESTION], tool_calling=tools, structured_output=output)


def test_sampling_takes_a_temperature_of_zero() -> None:
    assert SamplingOptions(temperature=0, top_p=1, max_tokens=5).temperature == 0


@dataclass(frozen=True)
class Line:
    item: str
    price: Decimal


@dataclass(frozen=True)
class Order:
    lines: list[Line]
    note: str | None = None


class Verdict(BaseModel):
    best: int


@dataclass(frozen=True)
class Tree:
    children: list[Tree] = field(default_factory=list)


@pytest.mark.parametrize(
    ("output_type", "value", "decoded"),
    [
        (Order, {"lines": [{"item": "a", "price": "1.50"}]}, Order([Line("a", Decimal("1.50"))])),
        (Verdict, {"best": 2}, Verdict(best=2)),
        (list[int], [1, 2], [1, 2]),
        (int, 3, 3),
        (Tree, {"children": [{}]}, Tree([Tree()])),
    ],
)
def test_an_answer_becomes_a_value_of_the_type(output_type: object, value: object, decoded: object) -> None:
    assert StructuredOutputSpec.from_type(output_type).decode(value) == decoded  # type: ignore[arg-type]


def test_the_schema_is_named_and_closed() -> None:
    spec = StructuredOutputSpec.from_type(Line, strict=False)
    assert spec.output_type_name == "Line"
    assert spec.output_type is Line
    assert spec.constraint == JsonSchemaConstraint(
        {
            "title": "Line",
            "type": "object",
            "properties": {"item": {"type": "string"}, "price": {"type": "string", "format": "decimal"}},
            "required": ["item", "price"],
            "additionalProperties": False,
        },
        strict=False,
    )


def test_without_a_type_the_answer_stays_json() -> None:
    assert StructuredOutputSpec(JsonSchemaConstraint({})).decode([1]) == [1]


def test_an_answer_that_does_not_fit_names_every_reason_and_no_value() -> None:
    with pytest.raises(AgentStructuredOutputError) as caught:
        StructuredOutputSpec.from_type(Order).decode({"lines": [{"item": 3, "price": "x"}], "more": "secret"})
    assert [problem.partition(":")[0] for problem in caught.value.problems] == [
        "lines[0].item",
        "lines[0].price",
        "more",
    ]
    assert "secret" not in str(caught.value)
    with pytest.raises(AgentStructuredOutputError, match="the answer: "):
        StructuredOutputSpec.from_type(int).decode("x")


class Workspace:
    def __init__(self) -> None:
        self.files = {"a.txt": "hello"}

    @agent_tool(schema_name="workspace.read")
    async def read(self, path: str) -> str:
        """Read a file."""
        return self.files[path]

    @agent_tool
    def count(self) -> int:
        """Count the files."""
        return len(self.files)

    @agent_tool
    @staticmethod
    def shout(text: str) -> str:
        """Say it louder."""
        return text.upper()

    @agent_tool
    def push(self, token: Annotated[str, SecretField()], branch: str = "main") -> str:
        """Push a branch."""
        return f"{branch} with {token}"


def spec() -> ToolCallingSpec:
    workspace = Workspace()
    return ToolCallingSpec.from_tools([workspace.read, workspace.count, workspace.shout, workspace.push])


def test_the_model_is_shown_name_description_and_schema() -> None:
    read = spec().tools[0]
    assert (read.name, read.description, read.parameters.strict) == ("workspace.read", "Read a file.", True)
    assert read.parameters.schema == {
        "title": "workspace.read.input",
        "type": "object",
        "properties": {"path": {"type": "string"}},
        "required": ["path"],
        "additionalProperties": False,
    }


def test_a_choice_and_a_named_tool_travel_along() -> None:
    forced = ToolCallingSpec.from_tools(
        [Workspace().count], choice=ModelToolChoice.REQUIRED, tool_name="count", strict=False
    )
    assert (forced.choice, forced.tool_name) == (ModelToolChoice.REQUIRED, "count")
    assert not forced.tools[0].parameters.strict


def test_specs_are_equal_by_what_the_model_sees() -> None:
    assert spec() == spec()


@pytest.mark.parametrize(
    ("call", "result"),
    [
        (ModelToolCall("workspace.read", {"path": "a.txt"}), "hello"),
        (ModelToolCall("count", {}), 1),
        (ModelToolCall("shout", {"text": "hey"}), "HEY"),
    ],
)
async def test_a_call_reaches_the_function(call: ModelToolCall, result: object) -> None:
    assert await spec().invoke(call) == result


@pytest.mark.parametrize(
    ("call", "error", "message"),
    [
        (
            ModelToolCall("delete", {}),
            AgentToolDispatchError,
            "there is no tool 'delete' on offer ('workspace.read', 'count', 'shout', 'push').",
        ),
        (
            ModelToolCall("push", {}),
            AgentToolDispatchError,
            "'push' needs token, which a run fills, and there is no run here. Call the method itself and pass them.",
        ),
    ],
)
async def test_a_call_that_cannot_be_dispatched_says_why(
    call: ModelToolCall, error: type[Exception], message: str
) -> None:
    with pytest.raises(error) as caught:
        await spec().invoke(call)
    assert str(caught.value) == message


async def test_arguments_that_do_not_fit_are_refused() -> None:
    with pytest.raises(AgentToolBindingError) as caught:
        await spec().invoke(ModelToolCall("workspace.read", {"file": "a.txt"}))
    assert len(caught.value.problems) == 2


class Run:
    """Stands where a run stands: takes over the calls and fills secrets."""

    def call(
        self, tool: Callable[..., object], args: tuple[object, ...], kwargs: Mapping[str, object]
    ) -> object:
        return original_function(tool)(*args, **kwargs, token="t0k3n")

    async def invoke(
        self, tool: Callable[..., object], arguments: Mapping[str, object], call_id: str | None = None
    ) -> object:
        given = cast(Any, tool)(**arguments)
        return f"{call_id}: {await given if isawaitable(given) else given}"


async def test_inside_a_run_the_run_performs_the_call_and_says_what_the_model_may_see() -> None:
    tools = spec()
    with tool_calls_go_to(Run()):
        call = ModelToolCall("push", {"branch": "dev"}, "call-1")
        assert await tools.invoke(call) == "call-1: dev with t0k3n"


async def test_arguments_are_checked_before_a_run_hears_of_the_call() -> None:
    with tool_calls_go_to(Run()), pytest.raises(AgentToolBindingError):
        await spec().invoke(ModelToolCall("push", {"branch": 7}))


@pytest.mark.parametrize(
    ("define", "message"),
    [
        (lambda: ToolCallingSpec.from_tools([len]), "len is no tool. Mark it with @agent_tool."),
        (
            lambda: ToolCallingSpec.from_tools([Workspace.count]),
            "Workspace.count is a method without its instance. "
            "Hand over the method of an instance: self.tools.count.",
        ),
        (
            lambda: ToolCallingSpec.from_tools([Workspace().count, Workspace().count]),
            "ToolCallingSpec.tools has several tools called 'count'. "
            "Name them apart: @agent_tool(schema_name=...).",
        ),
        (
            lambda: ToolCallingSpec.from_tools([Workspace().count], tool_name="read"),
            "ToolCallingSpec.tool_name is 'read', which is none of its tools ('count').",
        ),
    ],
)
def test_wrong_tools_are_refused(define: Callable[[], object], message: str) -> None:
    with pytest.raises(AgentDefinitionError) as caught:
        define()
    assert str(caught.value) == message


def test_a_tool_has_a_name() -> None:
    with pytest.raises(AgentDefinitionError, match=r"ModelToolSpec\.name is blank"):
        ModelToolSpec("", spec().tools[0].parameters)

"""The tools of a request, and the way from a model's call to the function."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from inspect import isawaitable
from typing import Annotated, Any, cast

import pytest

from pilotage.agent.messages import ModelToolCall
from pilotage.agent.model_request import ModelToolChoice, ModelToolSpec, ToolCallingSpec
from pilotage.agent.tools.declare import agent_tool, original_function, tool_calls_go_to
from pilotage.errors import AgentDefinitionError, AgentToolBindingError, AgentToolDispatchError
from pilotage.safety.fields import SecretField


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

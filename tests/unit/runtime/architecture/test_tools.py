"""Teammates as tools: how they are named and shown, and what a model may ask of them."""

from __future__ import annotations

import pytest

from pilotage import Agent, AgentExecutionSpec
from pilotage.agent.definition import AgentDefinition
from pilotage.agent.delegation import AgentTeammate
from pilotage.agent.messages import ModelToolCall
from pilotage.agent.ports.architecture import AgentRef
from pilotage.errors import AgentToolBindingError
from pilotage.jsonvalue import JsonObject
from pilotage.runtime.children.delegation import Teammate, teammates_of


@Agent(spec=AgentExecutionSpec(name="one", objective="Does one thing."))
class One:
    """Not this."""

    async def execute(self, task: str) -> str:
        return task


@Agent()
class Two:
    """Does another thing.

    In detail.
    """

    async def execute(self, task: str) -> str:
        return task


def definition_of(agent: AgentRef) -> AgentDefinition:
    assert isinstance(agent, type)
    return AgentDefinition.get(agent)


SPEC = AgentExecutionSpec(
    teammates=[
        AgentTeammate("the one", pod=One),
        AgentTeammate("two", pod=Two),
        AgentTeammate("far", card_url="https://example.org"),
    ]
)


def test_teammates_of_the_application_are_tools_that_say_what_they_are_good_for() -> None:
    found = teammates_of(SPEC, definition_of)
    assert list(found) == ["ask_the_one", "ask_two"]
    assert str(found["ask_the_one"].tool.description).endswith("Does one thing.")
    assert str(found["ask_two"].tool.description).endswith("Does another thing.")
    assert found["ask_two"].tool.parameters.schema["required"] == ["task"]


@pytest.mark.parametrize(
    ("capabilities", "names"),
    [(None, ["ask_the_one", "ask_two"]), (("ask_two", "look"), ["ask_two"]), ((), [])],
)
def test_a_run_that_was_given_some_tools_has_those_teammates(
    capabilities: tuple[str, ...] | None, names: list[str]
) -> None:
    assert list(teammates_of(SPEC, definition_of, capabilities)) == names


@pytest.mark.parametrize(
    ("name", "tool_name"),
    [("reader", "ask_reader"), ("the archivist", "ask_the_archivist"), ("a-b.c/d", "ask_a-b_c_d")],
)
def test_a_name_becomes_one_that_models_can_call(name: str, tool_name: str) -> None:
    assert Teammate(name, One, "x").tool_name == tool_name


@pytest.mark.parametrize(
    "arguments", [{}, {"task": ""}, {"task": " "}, {"task": 1}, {"task": "x", "more": 1}, {"what": "x"}]
)
def test_a_teammate_is_asked_one_thing_in_words(arguments: JsonObject) -> None:
    mate = Teammate("reader", One, "x")
    assert mate.task_in(ModelToolCall("ask_reader", {"task": "read"})) == "read"
    with pytest.raises(AgentToolBindingError, match="ask_reader takes one argument, 'task'"):
        mate.task_in(ModelToolCall("ask_reader", arguments))

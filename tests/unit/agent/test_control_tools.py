"""Control calls beside tools, and exits as outputs."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from tests.unit.architectures.plain import PlainTools

from pilotage import ToolEffects, agent_tool
from pilotage.agent.control_tools import ControlTools, Exit, NoTools, control_call
from pilotage.agent.messages import ModelToolCall
from pilotage.agent.ports.architecture import ToolCallOutcome


@agent_tool(effects=ToolEffects.read_only())
def look(what: str) -> str:
    """Look."""
    return f"saw {what}"


@dataclass(frozen=True)
class Jump:
    how: str


async def answered(calls: Sequence[ModelToolCall]) -> list[ToolCallOutcome]:
    return [ToolCallOutcome(call, f"jumped {call.arguments['how']}", ends=True) for call in calls]


JUMP = control_call("jump", Jump, "Jump.", how=["high", "far"])
LOOK_CALL, JUMP_CALL = ModelToolCall("look", {"what": "x"}, "1"), ModelToolCall("jump", {"how": "high"}, "2")


async def test_control_calls_are_answered_and_tools_are_called() -> None:
    tools = ControlTools(PlainTools([look]), [JUMP], answered)
    assert [tool.name for tool in tools.calling.tools] == ["look", "jump"] if tools.calling else False
    outcomes = await tools.call_all([JUMP_CALL, LOOK_CALL])
    assert [(outcome.result, outcome.ends) for outcome in outcomes] == [
        ("jumped high", True),
        ("saw x", False),
    ]
    assert (await tools.call(JUMP_CALL)).result == "jumped high"
    assert (await tools.call(LOOK_CALL)).result == "saw x"


def test_choices_are_in_the_schema() -> None:
    assert JUMP.parameters.schema["properties"] == {"how": {"type": "string", "enum": ["high", "far"]}}


def test_without_controls_the_tools_are_as_they_were() -> None:
    plain = PlainTools([look])
    assert ControlTools(plain, [], answered).calling is plain.calling


async def test_no_tools_offer_nothing_and_say_so() -> None:
    nothing = NoTools(PlainTools([look]))
    assert nothing.calling is None
    (outcome,) = await nothing.call_all([LOOK_CALL])
    assert outcome.error == "there is no tool 'look': none is on offer. Answer in words."


def test_an_exit_is_told_from_an_answer() -> None:
    left = Exit("handoff", {"to": "x"})
    assert Exit.taken_in(left.output) == left
    for answer in ("handoff", None, {"name": "handoff", "arguments": {}}, ["pilotage.exit"]):
        assert Exit.taken_in(answer) is None

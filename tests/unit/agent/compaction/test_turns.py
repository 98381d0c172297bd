"""A call and its results are one unit, wherever the results stand."""

from __future__ import annotations

import pytest
from hypothesis import given
from tests.unit.context.transcripts import a_loop, a_turn, transcripts

from pilotage.agent.compaction import older_than, units_of
from pilotage.agent.messages import ModelMessage, ModelMessageRole, ModelToolCall


def calls(*ids: str | None) -> ModelMessage:
    return ModelMessage.assistant("", [ModelToolCall("search", {}, call_id) for call_id in ids])


SYSTEM, USER, REPLY = ModelMessage.system("s"), ModelMessage.user("u"), ModelMessage.assistant("r")
WITHOUT_ID = ModelMessage(ModelMessageRole.TOOL, "found")


def result(call_id: str) -> ModelMessage:
    return ModelMessage.tool(call_id, "found")


@pytest.mark.parametrize(
    ("messages", "units"),
    [
        pytest.param([], [], id="nothing"),
        pytest.param([SYSTEM, USER, REPLY], [(0,), (1,), (2,)], id="no calls"),
        pytest.param([calls("a", "b"), result("a"), result("b")], [(0, 1, 2)], id="results in order"),
        pytest.param([calls("a", "b"), result("b"), result("a")], [(0, 1, 2)], id="results in another order"),
        pytest.param([calls("a"), USER, result("a")], [(0, 2), (1,)], id="somebody spoke in between"),
        pytest.param(
            [calls("a"), calls("b"), result("a"), result("b")], [(0, 2), (1, 3)], id="calls that overlap"
        ),
        pytest.param(
            [calls("a"), result("a"), calls("a"), result("a")], [(0, 1), (2, 3)], id="an id that comes again"
        ),
        pytest.param([calls(None), WITHOUT_ID, USER], [(0, 1), (2,)], id="no ids"),
        pytest.param([calls("a"), result("x")], [(0, 1)], id="an id that nobody knows"),
        pytest.param([result("a"), calls("a")], [(0,), (1,)], id="a result before any call"),
        pytest.param([calls("a", "b"), result("a")], [(0, 1)], id="a call without its result"),
    ],
)
def test_messages_form_units(messages: list[ModelMessage], units: list[tuple[int, ...]]) -> None:
    assert [unit.members for unit in units_of(messages)] == units


@given(messages=transcripts())
def test_every_message_is_in_exactly_one_unit(messages: list[ModelMessage]) -> None:
    members = [index for unit in units_of(messages) for index in unit.members]
    assert sorted(members) == list(range(len(messages)))


@pytest.mark.parametrize(
    ("messages", "turns", "old"),
    [
        pytest.param(a_loop(3), 3, [], id="as many as are kept"),
        pytest.param(a_loop(3), 5, [], id="fewer than are kept"),
        pytest.param(a_loop(3), 1, [0, 1, 2, 3, 4, 5], id="one is kept"),
        pytest.param(a_loop(1), 0, [0, 1, 2, 3], id="none is kept"),
        pytest.param([USER, REPLY, USER, REPLY, USER], 1, [0, 1], id="a turn keeps its question"),
        pytest.param([USER, *a_turn(0), USER], 1, [], id="only one turn"),
        pytest.param([USER], 1, [], id="no turn"),
    ],
)
def test_old_is_what_stands_before_the_last_turns_and_their_questions(
    messages: list[ModelMessage], turns: int, old: list[int]
) -> None:
    found = older_than(units_of(messages), turns)
    assert sorted(index for unit in found for index in unit.members) == old

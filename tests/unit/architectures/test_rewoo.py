"""Plans of calls: their checks, and how references become arguments."""

from __future__ import annotations

import pytest

from pilotage.agent.model_request import JsonSchemaConstraint, ModelToolSpec
from pilotage.architectures.rewoo import Argument, CallPlan, PlannedCall, call_plan_problems, resolved
from pilotage.jsonvalue import JsonObject, JsonValue

SCHEMA: JsonObject = {"properties": {"what": {"type": "string"}, "how": {}}, "required": ["what"]}
LOOK = ModelToolSpec("look", JsonSchemaConstraint(SCHEMA))


def call(*arguments: Argument, tool: str = "look") -> PlannedCall:
    return PlannedCall("E2", tool, arguments)


@pytest.mark.parametrize(
    ("planned", "words"),
    [
        (call(Argument("what", "x")), []),
        (call(Argument("what", result_of="E1"), Argument("how", 1)), []),
        (call(), ["'E2': 'look' needs 'what'."]),
        (call(Argument("what", "x"), Argument("why", 1)), ["'E2': 'look' takes no argument 'why'."]),
        (call(Argument("what", "x"), Argument("what", "y")), ["'E2': the argument 'what' is given twice."]),
        (call(Argument("what", "x", "E1")), ["'E2': 'what' has a value and a result_of. Give one."]),
        (call(Argument("what", "x", member="m")), ["'E2': 'what' has a member without a result_of."]),
        (call(tool="guess"), ["'E2' calls 'guess', which is no tool. On offer are: 'look'."]),
        (call(Argument("what", result_of="E9")), ["'E2' needs 'E9', which is no step."]),
    ],
)
def test_everything_wrong_with_a_call_is_said(planned: PlannedCall, words: list[str]) -> None:
    first = PlannedCall("E1", "look", [Argument("what", "x")])
    assert call_plan_problems(CallPlan([first, planned]), [LOOK], 5) == words


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        ([Argument("what", "x"), Argument("how", None)], {"what": "x", "how": None}),
        ([Argument("what", result_of="E1")], {"what": {"price": 7}}),
        ([Argument("what", result_of="E1", member="price")], {"what": 7}),
        (
            [Argument("what", result_of="E1", member="size")],
            "not called: the result of 'E1' has no member 'size'.",
        ),
        ([Argument("what", result_of="E0", member="x")], "not called: the result of 'E0' has no member 'x'."),
    ],
)
def test_references_become_results(arguments: list[Argument], expected: JsonValue) -> None:
    assert resolved(call(*arguments), {"E0": "text", "E1": {"price": 7}}) == expected

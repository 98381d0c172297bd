"""Whether a model fits an agent, and how long a context may be."""

from __future__ import annotations

import pytest

from pilotage.agent.context import ContextTokenBudget
from pilotage.agent.definition import AgentDefinition
from pilotage.agent.ports.model import ModelCapability
from pilotage.agent.spec import AgentExecutionSpec
from pilotage.agent.stereotype import Agent
from pilotage.runtime.door.model import misfits, within_length
from pilotage.testing import ScriptedModel


@Agent(spec=AgentExecutionSpec(context_budget=ContextTokenBudget(reserved_output_tokens=500)))
class Writer:
    """Write."""


WRITER = AgentDefinition.get(Writer)


@pytest.mark.parametrize(
    ("capability", "tools", "codes"),
    [
        (ModelCapability("m"), ["a"], []),
        (ModelCapability("m", tools=False), [], []),
        (ModelCapability("m", tools=False), ["a"], ["agent_model_without_tools"]),
        (ModelCapability("m", structured_output=False, parallel_tool_calls=False), ["a"], []),
        (ModelCapability("m", context_tokens=501), [], []),
        (ModelCapability("m", context_tokens=500), [], ["agent_context_too_short"]),
    ],
)
def test_only_what_cannot_be_made_up_for_is_a_problem(
    capability: ModelCapability, tools: list[str], codes: list[str]
) -> None:
    assert [problem.code for problem in misfits(WRITER, tools, capability)] == codes


@pytest.mark.parametrize(
    ("own", "lengths", "bound"),
    [
        (None, [], None),
        (None, [None], None),
        (None, [400, None, 300], 300),
        (200, [400], 200),
        (500, [400], 400),
        (500, [None], 500),
    ],
)
def test_a_budget_is_bounded_by_the_shortest_model(
    own: int | None, lengths: list[int | None], bound: int | None
) -> None:
    models = [ScriptedModel([], capability=ModelCapability("m", context_tokens=each)) for each in lengths]
    budget = ContextTokenBudget(max_tokens=own, reserved_output_tokens=7)
    assert within_length(budget, models) == ContextTokenBudget(max_tokens=bound, reserved_output_tokens=7)

"""Calls that a person rejects count the same against limits, alone in a reply or together with others."""

from __future__ import annotations

from collections.abc import Sequence

import pytest
from tests.behaviour.bureau import Bureau, resumed, started
from tests.behaviour.office import Desk

from pilotage import Agent, AgentExecutionSpec, AgentStatus, RecoveryStrategy
from pilotage.agent import RejectionPolicy
from pilotage.testing import ScriptedModel, calls, says, turn

DURABLE = RecoveryStrategy.ACTION_BOUNDARY


@Agent(spec=AgentExecutionSpec(name="teller", recovery=DURABLE))
class Teller:
    """Refund amounts."""

    def __init__(self, desk: Desk) -> None:
        self.desk = desk


@Agent(spec=AgentExecutionSpec(name="polite", recovery=DURABLE, on_rejection=RejectionPolicy.TELL_MODEL))
class PoliteTeller:
    """Refund amounts."""

    def __init__(self, desk: Desk) -> None:
        self.desk = desk


async def _spent(agent: type[object], amounts: Sequence[int]) -> tuple[AgentStatus, list[int]]:
    """Reject every refund of one reply; return the end, and the tool calls counted at each pause and at the end."""
    bureau = Bureau()
    model = ScriptedModel([turn(*(calls("refund", amount=str(each)) for each in amounts)), says("Done.")])
    async with bureau.process(agent, None, model=model) as runs:
        result, counted = await started(runs, agent), list[int]()
        while result.status is AgentStatus.INTERRUPTED:
            counted.append(result.spent.tool_calls)
            for question in await runs.questions(result.state.id):
                await runs.reject(question.id)
            result = await resumed(runs, result.state.id)
        return result.status, [*counted, result.spent.tool_calls]


@pytest.mark.parametrize("amounts", [[1], [1, 2], [1, 2, 3]], ids=len)
async def test_a_rejection_that_fails_the_run_counts_no_call(amounts: Sequence[int]) -> None:
    assert await _spent(Teller, amounts) == (AgentStatus.FAILED, [0, 0])


@pytest.mark.parametrize("amounts", [[1], [1, 2], [1, 2, 3]], ids=len)
async def test_a_rejection_that_the_model_gets_counts_its_call(amounts: Sequence[int]) -> None:
    assert await _spent(PoliteTeller, amounts) == (AgentStatus.COMPLETED, [0, len(amounts)])

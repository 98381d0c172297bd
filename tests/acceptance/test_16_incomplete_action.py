"""Use case 16: nobody repeats an action that may have happened and may not happen twice: a person is asked."""

from __future__ import annotations

from pilotage import AgentStatus
from pilotage.agent import AgentRecoveryRequest, AgentStateReason, RecoveryDecision
from pilotage.runtime import AgentRuns
from tests.acceptance.dying import LEDGER, process
from tests.acceptance.killed import kill_in_the_middle, taken_up


async def test_a_person_says_what_became_of_it() -> None:
    kill_in_the_middle("book then post_once")
    async with process() as app:
        runs = app.get(AgentRuns)
        (left,) = (await runs.list()).runs
        state = (await (await taken_up(runs, left.id)).result()).state
        assert (state.status, state.reason) == (
            AgentStatus.INTERRUPTED,
            AgentStateReason.RECOVERY_REQUIRES_HITL,
        )
        (question,) = await runs.questions(left.id)
        assert isinstance(question, AgentRecoveryRequest)
        assert question.action_name == "post_once"
        await runs.answer(left.id, question.id, RecoveryDecision.DONE, result="posted once")
        result = await (await runs.resume(left.id)).result()
        assert result.state.status is AgentStatus.COMPLETED
        assert "post_once() gave posted once" in result.output
        await runs.verify(left.id)
    assert LEDGER.read_text().splitlines() == ["booked", "posted once"]

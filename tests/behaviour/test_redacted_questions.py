"""Questions of agents with a redaction policy: their words are redacted, and what binds them to their call is not."""

from __future__ import annotations

from decimal import Decimal

from tests.behaviour.bureau import COMPLETED, Bureau, hired, resumed, started, triple
from tests.behaviour.office import Worker

from pilotage import ApprovalDecision
from pilotage.safety.redaction.policy import StreamingRedactionPolicy, StreamingSensitivePattern


async def test_a_policy_that_matches_digits_leaves_a_question_bound_to_its_call() -> None:
    pattern = StreamingSensitivePattern("number", r"\d{2,}", "<number>")
    bureau, agent = Bureau(), hired(redaction=StreamingRedactionPolicy(patterns=[pattern]))

    async def program(worker: Worker) -> object:
        return str((await worker.desk.refund(Decimal(12345))).amount)

    async with bureau.process(agent, program) as runs:
        waiting = await started(runs, agent)
        (question,) = await runs.questions(waiting.state.id)
        assert "12345" not in str(question.arguments)
        await runs.answer(waiting.state.id, question.id, ApprovalDecision.APPROVE, resume=False)
        assert triple((await resumed(runs, waiting.state.id)).state) == COMPLETED
        assert await runs.verify(waiting.state.id) > 0
    assert bureau.world.done == ["refund 12345"]

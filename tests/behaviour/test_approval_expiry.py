"""The expiry of an approval is judged by the time of the answer, never by the time the run reads it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import timedelta

import pytest
from tests.behaviour.bureau import (
    COMPLETED,
    DEFERRED,
    REJECTED,
    WAITING,
    Bureau,
    hired,
    resumed,
    started,
    triple,
)

from pilotage import ApprovalDecision, RunContext
from pilotage.agent import AgentApprovalBoundaryKind as Boundary
from pilotage.agent import (
    AgentApprovalRequest,
    AgentSignal,
    AgentSignalKind,
    ApprovalSubject,
    IAgentApprovalHandler,
    JsonObject,
    ToolRisk,
)
from pilotage.errors import AnswerConflictError

SECONDS = 300
"""From the question to its expiry."""


class AsksForAWhile(IAgentApprovalHandler):
    """Wants a person to allow every tool call, within five minutes."""

    def __init__(self, bureau: Bureau) -> None:
        self._expires_at = bureau.clock.now() + timedelta(seconds=SECONDS)

    async def request_for(self, context: RunContext, subject: ApprovalSubject) -> AgentApprovalRequest | None:
        if subject.boundary is not Boundary.TOOL_INVOCATION:
            return None
        return AgentApprovalRequest(
            "id", "run", subject.boundary, "May it?", ToolRisk(), "action", expires_at=self._expires_at
        )


@dataclass(frozen=True)
class Case:
    """Answers with the second each of them is given at, and the second at which the run reads them."""

    name: str
    answers: Sequence[tuple[int, ApprovalDecision]]
    read_at: int
    ends: tuple[str, str | None, str | None]


APPROVE, REJECT, DEFER = ApprovalDecision.APPROVE, ApprovalDecision.REJECT, ApprovalDecision.DEFER

CASES = (
    Case("answered in time, read in time", [(10, APPROVE)], 20, COMPLETED),
    Case("answered in the last second, read late", [(SECONDS - 1, APPROVE)], 10 * SECONDS, COMPLETED),
    Case("answered in time, read in the second of expiry", [(10, APPROVE)], SECONDS, COMPLETED),
    Case("answered in the second of expiry", [(SECONDS, APPROVE)], SECONDS, REJECTED),
    Case("answered late", [(SECONDS + 1, APPROVE)], SECONDS + 1, REJECTED),
    Case("rejected in time, read late", [(10, REJECT)], 10 * SECONDS, REJECTED),
    Case("deferred in time, read in time", [(10, DEFER)], 20, DEFERRED),
    Case("deferred in time, read late", [(10, DEFER)], 10 * SECONDS, REJECTED),
    Case("deferred, answered in time, read late", [(10, DEFER), (20, APPROVE)], 10 * SECONDS, COMPLETED),
    Case("deferred in time, answered late", [(10, DEFER), (SECONDS + 1, APPROVE)], SECONDS + 1, REJECTED),
    Case("not answered, read in time", [], SECONDS - 1, WAITING),
    Case("not answered, read late", [], SECONDS, REJECTED),
)


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
async def test_an_answer_counts_if_it_was_given_in_time_whenever_it_is_read(case: Case) -> None:
    bureau, agent = Bureau(), hired()
    handler = AsksForAWhile(bureau)
    async with bureau.process(agent, lambda worker: worker.desk.note("x"), handler) as runs:
        run_id = (await started(runs, agent)).state.id
        (question,) = await runs.questions(run_id)
    now = 0
    for second, decision in case.answers:
        bureau.clock.advance(second - now)
        now = second
        payload: JsonObject = {"request_id": question.id, "decision": decision.value}
        answer = AgentSignal(f"answer-{second}", run_id, AgentSignalKind.APPROVAL_DECISION, payload)
        await bureau.store.signals.append(answer)
    bureau.clock.advance(case.read_at - now)
    async with bureau.process(agent, lambda worker: worker.desk.note("x"), handler) as runs:
        ended = await resumed(runs, run_id)
    assert triple(ended.state) == case.ends
    assert bureau.world.done == (["note x"] if case.ends == COMPLETED else [])


async def test_an_answer_to_an_expired_question_is_a_no_and_its_sender_is_told() -> None:
    bureau, agent = Bureau(), hired()
    async with bureau.process(agent, lambda worker: worker.desk.note("x"), AsksForAWhile(bureau)) as runs:
        run_id = (await started(runs, agent)).state.id
        (question,) = await runs.questions(run_id)
        bureau.clock.advance(SECONDS)
        with pytest.raises(AnswerConflictError, match=r"expired at .*, which rejects it"):
            await runs.approve(question.id)
        assert triple((await resumed(runs, run_id)).state) == REJECTED
    assert bureau.world.done == []

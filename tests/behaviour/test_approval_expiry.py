"""The expiry of an approval is judged by the time of the answer, never by the time the run reads it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import timedelta

import pytest
from tests.behaviour.bureau import COMPLETED, REJECTED, WAITING, Bureau, hired, resumed, started, triple

from pilotage import ApprovalDecision, RunContext
from pilotage.agent import AgentApprovalBoundaryKind as Boundary
from pilotage.agent import AgentApprovalRequest, ApprovalSubject, IAgentApprovalHandler, ToolRisk

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
    Case("deferred in time, read in time", [(10, DEFER)], 20, WAITING),
    Case("deferred in time, read late", [(10, DEFER)], 10 * SECONDS, REJECTED),
    Case("deferred, answered in time, read late", [(10, DEFER), (20, APPROVE)], 10 * SECONDS, COMPLETED),
    Case("deferred in time, answered late", [(10, DEFER), (SECONDS + 1, APPROVE)], SECONDS + 1, REJECTED),
    Case("not answered, read in time", [], SECONDS - 1, WAITING),
    Case("not answered, read late", [], SECONDS, REJECTED),
)


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
async def test_an_answer_counts_if_it_was_given_in_time_whenever_it_is_read(case: Case) -> None:
    bureau, agent = Bureau(), hired()
    async with bureau.process(agent, lambda worker: worker.desk.note("x"), AsksForAWhile(bureau)) as runs:
        waiting = await started(runs, agent)
        (question,) = await runs.approvals(waiting.state.id)
        now = 0
        for second, decision in case.answers:
            bureau.clock.advance(second - now)
            now = second
            await runs.decide(waiting.state.id, question.id, decision)
        bureau.clock.advance(case.read_at - now)
        ended = await resumed(runs, waiting.state.id)
    is_deferred = case.ends == WAITING and bool(case.answers)
    expected = (*WAITING[:2], "approval_deferred") if is_deferred else case.ends
    assert triple(ended.state) == expected
    assert bureau.world.done == (["note x"] if case.ends == COMPLETED else [])

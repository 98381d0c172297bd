"""Runs, results, questions and evidence as clients see them. Pure."""

from __future__ import annotations

from datetime import datetime
from enum import StrEnum
from typing import Any

from pydantic import BaseModel, Field

from pilotage.agent.approval import AgentApprovalRequest
from pilotage.agent.evidence import AgentEvidence, AgentEvidenceKind
from pilotage.agent.ports.repositories import RunPage
from pilotage.agent.recovery_request import AgentRecoveryRequest
from pilotage.agent.run_values import RunResult
from pilotage.agent.signals import AgentSignal, AgentSignalKind
from pilotage.agent.state import AgentState, AgentStateReason, AgentStateTransition, AgentStatus
from pilotage.jsonvalue import to_json_value


class RunView(BaseModel):
    """How a run stands."""

    id: str
    agent_type: str
    status: AgentStatus
    transition: AgentStateTransition | None
    reason: AgentStateReason | None
    current_activity: str | None
    awaits: str | None
    metadata: dict[str, Any]
    created_at: datetime | None
    updated_at: datetime | None
    wake_at: datetime | None


class RunPageView(BaseModel):
    """Some runs, newest first; `cursor` given as `after` leads to the next page."""

    runs: list[RunView]
    cursor: str | None


class ResultView(BaseModel):
    """What a run came to; `output` is there once there is one."""

    run: RunView
    output: Any
    error: dict[str, Any] | None
    interruption_reason: str | None
    turns: int
    usage: dict[str, Any]
    spent: dict[str, Any]
    artifacts: dict[str, Any]


class QuestionKind(StrEnum):
    """Whether something is to be allowed, or to be found out."""

    APPROVAL = "approval"
    RECOVERY = "recovery"


class QuestionView(BaseModel):
    """A question that a run, or a child of it, waits for."""

    id: str
    run_id: str
    kind: QuestionKind
    prompt: str
    action: str
    arguments: dict[str, Any]
    allowed_decisions: list[str]
    attempt: int
    expires_at: datetime | None = None
    late_outcomes: list[Any] = Field(default_factory=list[Any])


class QuestionsView(BaseModel):
    """All questions of a run, in the order they were asked."""

    questions: list[QuestionView]


class EvidenceView(BaseModel):
    """One record of what a run did."""

    id: str
    kind: AgentEvidenceKind
    summary: str | None
    payload: dict[str, Any]
    digest: str | None
    reference: str | None
    created_at: datetime | None


class EvidencesView(BaseModel):
    """All evidence of a run, in order."""

    evidence: list[EvidenceView]


class SignalView(BaseModel):
    """A signal that is on its way to its run."""

    id: str
    run_id: str
    kind: AgentSignalKind


class CancelledView(BaseModel):
    """Whether the call ended the run; where it did not, the run had ended already, or its process is told to end it."""

    cancelled: bool
    is_on_its_way: bool = False


class VerifiedView(BaseModel):
    """How many rows of the run's journal were found to be in order."""

    rows: int


def run_view(state: AgentState) -> RunView:
    """The state of a run; whose tenant it is goes without saying."""
    return RunView(
        id=state.id,
        agent_type=state.agent_type,
        status=state.status,
        transition=state.transition,
        reason=state.reason,
        current_activity=state.current_activity,
        awaits=state.awaits,
        metadata=_object(state.metadata),
        created_at=state.created_at,
        updated_at=state.updated_at,
        wake_at=state.wake_at,
    )


def page_view(page: RunPage) -> RunPageView:
    """A page of runs."""
    return RunPageView(runs=[run_view(state) for state in page.runs], cursor=page.cursor)


def result_view(result: RunResult) -> ResultView:
    """The result of a run, without the exception behind a failure."""
    return ResultView(
        run=run_view(result.state),
        output=to_json_value(result.output),
        error=None if result.error is None else _object(result.error),
        interruption_reason=result.interruption_reason,
        turns=result.turns,
        usage=_object(result.usage),
        spent=_object(result.spent),
        artifacts=_object(result.artifacts),
    )


def question_view(question: AgentApprovalRequest | AgentRecoveryRequest) -> QuestionView:
    """A question with the guarded arguments, which are for people to see."""
    own: dict[str, Any]
    match question:
        case AgentApprovalRequest():
            own = {
                "kind": QuestionKind.APPROVAL,
                "action": question.action_ref,
                "expires_at": question.expires_at,
            }
        case AgentRecoveryRequest():
            action = question.action_name or question.action_id
            late = [to_json_value(each) for each in question.late_outcomes]
            own = {"kind": QuestionKind.RECOVERY, "action": action, "late_outcomes": late}
    return QuestionView(
        id=question.id,
        run_id=question.agent_state_id,
        prompt=question.prompt,
        arguments=_object(question.arguments),
        allowed_decisions=[each.value for each in question.allowed_decisions],
        attempt=question.attempt,
        **own,
    )


def evidence_view(evidence: AgentEvidence) -> EvidenceView:
    """One record."""
    return EvidenceView(
        id=evidence.id,
        kind=evidence.kind,
        summary=evidence.summary,
        payload=_object(evidence.payload),
        digest=evidence.digest,
        reference=evidence.reference,
        created_at=evidence.created_at,
    )


def signal_view(signal: AgentSignal) -> SignalView:
    """A signal without its payload, which the sender knows."""
    return SignalView(id=signal.id, run_id=signal.agent_state_id, kind=signal.kind)


def _object(value: object) -> dict[str, Any]:
    found = to_json_value(value)
    return dict(found) if isinstance(found, dict) else {}

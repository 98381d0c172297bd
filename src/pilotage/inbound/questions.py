"""Questions as clients see them. Pure.

Docstrings and fields of these classes are part of the OpenAPI description.
"""

from __future__ import annotations

from collections.abc import Iterable
from datetime import datetime
from enum import StrEnum
from typing import Any

from pydantic import BaseModel, Field

from pilotage.agent.approval import AgentApprovalRequest
from pilotage.agent.recovery_request import AgentRecoveryRequest, OpenAction, UnknownAttempt
from pilotage.inbound.views import View
from pilotage.runtime.open_questions import QuestionPage


class QuestionKind(StrEnum):
    """Kind of a question: an approval, or the unknown outcome of an action."""

    APPROVAL = "approval"
    RECOVERY = "recovery"


class OpenActionView(View):
    """An open action inside of the one that a question is about; without decisions it needs no answer."""

    action_id: str
    action: str
    arguments: dict[str, Any]
    allowed_decisions: list[str]
    attempt: int

    @classmethod
    def of(cls, action: OpenAction) -> OpenActionView:
        """Return an open action with its guarded arguments."""
        return cls.showing(action, action=action.name)


class UnknownAttemptView(View):
    """An attempt with an unknown outcome: its key, when and by which process it was begun, and the schema of a result.

    `may_be_alive` says whether that process may still be at work on it; null where that is not known.
    """

    idempotency_key: str
    epoch: int
    began_at: datetime | None
    process: str | None
    may_be_alive: bool | None
    result_schema: dict[str, Any] | None

    @classmethod
    def of(cls, begun: UnknownAttempt | None) -> UnknownAttemptView | None:
        """Return an attempt."""
        return None if begun is None else cls.showing(begun)


class QuestionView(View):
    """A question that a run, or a child of it, waits for; `begun` is there if the outcome of an action is unknown.

    `reason` says why it is asked, in the words of the stage of the run that asks; `metadata` has what the application
    added, and which declaration of the tool requires the approval.
    An approval is bound to its terms: whom the run acts for, who may answer, and by which version of the policy it is
    asked.
    """

    id: str
    run_id: str
    kind: QuestionKind
    prompt: str
    action: str
    arguments: dict[str, Any]
    allowed_decisions: list[str]
    attempt: int
    reason: str | None = None
    metadata: dict[str, Any] = Field(default_factory=dict[str, Any])
    expires_at: datetime | None = None
    requested_by: str | None = None
    approver_scope: str | None = None
    policy_version: str | None = None
    late_outcomes: list[Any] = Field(default_factory=list[Any])
    inside: list[OpenActionView] = Field(default_factory=list[OpenActionView])
    begun: UnknownAttemptView | None = None

    @classmethod
    def of(cls, question: AgentApprovalRequest | AgentRecoveryRequest) -> QuestionView:
        """Return a question with its guarded arguments, which are for people to see."""
        match question:
            case AgentApprovalRequest():
                kind, action, begun = QuestionKind.APPROVAL, question.action_ref, None
            case AgentRecoveryRequest():
                kind, action = QuestionKind.RECOVERY, question.action_name or question.action_id
                begun = UnknownAttemptView.of(question.begun)
        inside = [OpenActionView.of(each) for each in getattr(question, "inside", ())]
        return cls.showing(
            question, run_id=question.agent_state_id, kind=kind, action=action, inside=inside, begun=begun
        )


class QuestionsView(BaseModel):
    """All questions of a run, in the order they were asked."""

    questions: list[QuestionView]

    @classmethod
    def of(cls, questions: Iterable[AgentApprovalRequest | AgentRecoveryRequest]) -> QuestionsView:
        """Return the questions of a run."""
        return cls(questions=[QuestionView.of(each) for each in questions])


class QuestionPageView(QuestionsView):
    """Open questions of a tenant; `cursor` given as `after` leads to the next page, which may have more of them."""

    cursor: str | None

    @classmethod
    def of_page(cls, page: QuestionPage) -> QuestionPageView:
        """Return a page of questions."""
        return cls(questions=[QuestionView.of(each) for each in page.questions], cursor=page.cursor)

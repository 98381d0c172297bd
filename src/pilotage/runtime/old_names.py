"""Names of `AgentRuns` that go away in 0.2: each warns, and calls the present one."""

from __future__ import annotations

import warnings
from abc import ABC, abstractmethod

from pilotage.agent.principal import Principal
from pilotage.agent.recovery_request import RecoveryDecision
from pilotage.agent.signals import ApprovalDecision
from pilotage.jsonvalue import JsonValue
from pilotage.runtime.open_questions import Question


class OldNames(ABC):
    """The deprecated methods of `AgentRuns`, over those that replace them."""

    @abstractmethod
    async def questions(self, run_id: str, *, principal: Principal | None = None) -> tuple[Question, ...]:
        """Return the questions of a run."""

    @abstractmethod
    async def answer(
        self,
        run_id: str,
        request_id: str,
        decision: ApprovalDecision | RecoveryDecision,
        *,
        resume: bool = True,
        principal: Principal | None = None,
        **details: JsonValue,
    ) -> None:
        """Answer a question."""

    async def approvals(self, run_id: str, *, principal: Principal | None = None) -> tuple[Question, ...]:
        """Return `questions`; deprecated name, removed in 0.2."""
        _warn_of_old_name("approvals", "questions")
        return await self.questions(run_id, principal=principal)

    async def decide(
        self,
        run_id: str,
        request_id: str,
        decision: ApprovalDecision | RecoveryDecision,
        *,
        principal: Principal | None = None,
        **details: JsonValue,
    ) -> None:
        """Call `answer`; deprecated name, removed in 0.2."""
        _warn_of_old_name("decide", "answer")
        await self.answer(run_id, request_id, decision, resume=True, principal=principal, **details)


def _warn_of_old_name(old: str, new: str) -> None:
    warnings.warn(
        f"AgentRuns.{old}() goes away in 0.2. Use AgentRuns.{new}().", DeprecationWarning, stacklevel=3
    )

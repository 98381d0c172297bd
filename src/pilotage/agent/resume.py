"""How a run that was left goes on, decided from its record.

Pure. Each action leaves a BEFORE and an AFTER row; an action whose last row is BEFORE is open: nobody knows
whether it happened. How open actions combine, in this order:

1. one that only a person can settle (an approval wait, or an action that may not be repeated): REQUIRE_HITL;
2. none of those, but one that may be repeated: RETRY, all open actions again;
3. none open: SKIP_COMPLETED, everything recorded is taken as it is.

The deciding boundary is the first open action of the class that decides, in the order they were begun.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from enum import StrEnum

from pilotage.agent.evidence import AgentEvidence, AgentEvidenceKind
from pilotage.agent.recovery import AgentActionBoundaryStage, AgentResumeBoundary
from pilotage.agent.signals import AgentSignal
from pilotage.agent.state import AgentSituation, AgentState, AgentStatus
from pilotage.errors import AgentDefinitionError
from pilotage.values import value


class AgentResumeAction(StrEnum):
    """What to do with a run that is to go on."""

    START = "start"
    SKIP_COMPLETED = "skip_completed"
    RETRY = "retry"
    REQUIRE_HITL = "require_hitl"
    NOT_RESUMABLE = "not_resumable"
    FINISH_CANCELLATION = "finish_cancellation"


_AUTOMATIC = frozenset(AgentResumeAction) - {AgentResumeAction.REQUIRE_HITL, AgentResumeAction.NOT_RESUMABLE}


@value
class AgentResumePlan:
    """What to do with a run, the state it goes on in, and the actions whose outcome nobody knows."""

    state: AgentState
    action: AgentResumeAction
    boundary: AgentResumeBoundary | None = None
    signals: tuple[AgentSignal, ...] = ()
    open_boundaries: tuple[AgentResumeBoundary, ...] = ()

    @property
    def requires_human_input(self) -> bool:
        """Whether a person has to decide before the run can go on."""
        return self.action is AgentResumeAction.REQUIRE_HITL

    @property
    def can_resume_automatically(self) -> bool:
        """Whether the run can go on without anybody being asked."""
        return self.action in _AUTOMATIC


def plan_agent_resume(
    state: AgentState, evidence: Sequence[AgentEvidence], signals: Sequence[AgentSignal] = ()
) -> AgentResumePlan:
    """Decide how a run goes on from its state and its evidence in the run's sequence.

    The record of a finished run is not even read. A run that was being cancelled finishes its cleanup; its
    open actions say what there is to clean up. Signals are passed on as they are.

    Raises:
        AgentDefinitionError: evidence belongs to another run, or a boundary in it cannot be read.
    """
    given = tuple(signals)
    if state.is_terminal:
        return AgentResumePlan(state, AgentResumeAction.NOT_RESUMABLE, signals=given)
    latest = _latest_rows(state, evidence)
    unfinished = tuple(row for row in latest if row.stage is AgentActionBoundaryStage.BEFORE)
    if state.status is AgentStatus.CANCELLING:
        finish = AgentResumeAction.FINISH_CANCELLATION
        return AgentResumePlan(state, finish, signals=given, open_boundaries=unfinished)
    if not latest:
        return AgentResumePlan(state, AgentResumeAction.START, signals=given)
    action, boundary = _decide(latest, unfinished)
    return AgentResumePlan(_resumed(state, action, boundary), action, boundary, given, unfinished)


def _latest_rows(state: AgentState, evidence: Sequence[AgentEvidence]) -> list[AgentResumeBoundary]:
    """The last row of each action, in the order of those rows."""
    latest: dict[str, AgentResumeBoundary] = {}
    for record in evidence:
        if record.agent_state_id != state.id:
            raise AgentDefinitionError(
                f"plan_agent_resume: evidence {record.id!r} belongs to run {record.agent_state_id!r}, "
                f"not {state.id!r}. Give it the evidence of one run."
            )
        if record.kind is AgentEvidenceKind.ACTION_BOUNDARY:
            row = AgentResumeBoundary.from_evidence(record)
            latest.pop(row.action_id, None)
            latest[row.action_id] = row
    return list(latest.values())


def _decide(
    latest: Sequence[AgentResumeBoundary], unfinished: Sequence[AgentResumeBoundary]
) -> tuple[AgentResumeAction, AgentResumeBoundary]:
    for row in unfinished:
        if not row.may_be_repeated:
            return AgentResumeAction.REQUIRE_HITL, row
    if unfinished:
        return AgentResumeAction.RETRY, unfinished[0]
    return AgentResumeAction.SKIP_COMPLETED, latest[-1]


def _resumed(state: AgentState, action: AgentResumeAction, boundary: AgentResumeBoundary) -> AgentState:
    if action is AgentResumeAction.REQUIRE_HITL:
        # A run that left a row has been running, whatever its state says; only then can it be interrupted.
        state = state.moved_to(AgentSituation.RUNNING).moved_to(AgentSituation.RECOVERY_REQUIRED)
    return replace(state, recovery_marker=boundary.action_id)

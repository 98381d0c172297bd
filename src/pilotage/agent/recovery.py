"""Recovery: the rows around each action, and how a run goes on from them.

Pure. BEFORE says that an action is about to begin, AFTER that its outcome is known; an action whose last row is BEFORE
is open, its outcome unknown. The rows are written as evidence of kind ACTION_BOUNDARY and read back from it. How open
actions combine, in this order:

1. one that only a person can settle (an approval wait, or an action that may not be repeated): REQUIRE_HITL;
2. none of those, but one that may be repeated: RETRY, all open actions again;
3. none open: SKIP_COMPLETED, everything recorded is taken as it is.

The deciding boundary is the first open action of the class that decides, in the order they were begun.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import field, replace
from enum import StrEnum
from typing import TypeVar

from pilotage.agent.evidence import AgentEvidence, AgentEvidenceCandidate, AgentEvidenceKind
from pilotage.agent.signals import AgentSignal
from pilotage.agent.state import AgentSituation, AgentState, AgentStatus
from pilotage.agent.tools.metadata import Idempotency
from pilotage.checks import reject_blank
from pilotage.errors import AgentDefinitionError
from pilotage.jsonvalue import JsonObject, as_object, empty_object, to_json_value
from pilotage.values import value

E = TypeVar("E", bound=StrEnum)


class AgentActionKind(StrEnum):
    """The kinds of action: everything whose outcome a run cannot compute from what it knows."""

    MODEL_CALL = "model_call"
    TOOL_CALL = "tool_call"
    APPROVAL_WAIT = "approval_wait"
    DELEGATION = "delegation"
    SIGNAL = "signal"
    STEP = "step"
    VALUE = "value"


class AgentActionBoundaryStage(StrEnum):
    """The side of an action that a row records."""

    BEFORE = "before"
    AFTER = "after"


@value
class AgentActionBoundaryCheckpoint:
    """One row of an action's boundary, before it is recorded.

    `idempotency` is the effective one: what the action can really do is taken into account. An action that only reads
    is written as IDEMPOTENT; so is a model call, unless the model acts on its own.
    """

    action_id: str
    action_kind: AgentActionKind
    stage: AgentActionBoundaryStage
    idempotency: Idempotency = Idempotency.UNKNOWN
    metadata: JsonObject = field(default_factory=empty_object)

    def __post_init__(self) -> None:
        reject_blank(self, action_id=self.action_id)

    @classmethod
    def before_model_call(
        cls,
        action_id: str,
        *,
        idempotency: Idempotency = Idempotency.UNKNOWN,
        metadata: JsonObject | None = None,
    ) -> AgentActionBoundaryCheckpoint:
        """Return the row before a model call."""
        stage = AgentActionBoundaryStage.BEFORE
        return cls(action_id, AgentActionKind.MODEL_CALL, stage, idempotency, metadata or {})

    @classmethod
    def after_model_call(
        cls,
        action_id: str,
        *,
        idempotency: Idempotency = Idempotency.UNKNOWN,
        metadata: JsonObject | None = None,
    ) -> AgentActionBoundaryCheckpoint:
        """Return the row after a model call, when the reply is complete."""
        stage = AgentActionBoundaryStage.AFTER
        return cls(action_id, AgentActionKind.MODEL_CALL, stage, idempotency, metadata or {})

    @classmethod
    def before_tool_call(
        cls, action_id: str, *, idempotency: Idempotency, metadata: JsonObject | None = None
    ) -> AgentActionBoundaryCheckpoint:
        """Return the row before a tool call."""
        stage = AgentActionBoundaryStage.BEFORE
        return cls(action_id, AgentActionKind.TOOL_CALL, stage, idempotency, metadata or {})

    @classmethod
    def after_tool_call(
        cls, action_id: str, *, idempotency: Idempotency, metadata: JsonObject | None = None
    ) -> AgentActionBoundaryCheckpoint:
        """Return the row after a tool call, when its outcome is known."""
        stage = AgentActionBoundaryStage.AFTER
        return cls(action_id, AgentActionKind.TOOL_CALL, stage, idempotency, metadata or {})

    @classmethod
    def before_approval_wait(
        cls, action_id: str, *, metadata: JsonObject | None = None
    ) -> AgentActionBoundaryCheckpoint:
        """Return the row before a question to a person; asking twice is not the same as asking once."""
        stage = AgentActionBoundaryStage.BEFORE
        return cls(
            action_id, AgentActionKind.APPROVAL_WAIT, stage, Idempotency.NON_IDEMPOTENT, metadata or {}
        )

    @classmethod
    def after_approval_wait(
        cls, action_id: str, *, metadata: JsonObject | None = None
    ) -> AgentActionBoundaryCheckpoint:
        """Return the row after a question to a person, when the answer is known."""
        stage = AgentActionBoundaryStage.AFTER
        return cls(
            action_id, AgentActionKind.APPROVAL_WAIT, stage, Idempotency.NON_IDEMPOTENT, metadata or {}
        )

    def to_evidence_candidate(self, summary: str | None = None) -> AgentEvidenceCandidate:
        """Return the row as a record of the run."""
        payload = as_object(to_json_value(self))
        return AgentEvidenceCandidate(AgentEvidenceKind.ACTION_BOUNDARY, payload, summary)


_REPEATABLE = frozenset({Idempotency.IDEMPOTENT, Idempotency.CONDITIONALLY_IDEMPOTENT})
# Reading a clock again changes nothing, and a signal whose consumption was not recorded is still pending.
_ALWAYS_REPEATABLE = frozenset({AgentActionKind.VALUE, AgentActionKind.SIGNAL})


@value
class AgentResumeBoundary:
    """One recorded row of an action's boundary, and the evidence it was read from."""

    action_id: str
    action_kind: AgentActionKind
    stage: AgentActionBoundaryStage
    idempotency: Idempotency
    evidence_id: str

    @classmethod
    def from_evidence(cls, evidence: AgentEvidence) -> AgentResumeBoundary:
        """Read a row back.

        Raises:
            AgentDefinitionError: the payload is not that of a boundary.
        """
        action_id = evidence.payload.get("action_id")
        if not isinstance(action_id, str) or not action_id.strip():
            raise AgentDefinitionError(
                f"Evidence {evidence.id!r} has the action_id {action_id!r}. Use the id of the action."
            )
        return cls(
            action_id,
            _member(evidence, "action_kind", AgentActionKind),
            _member(evidence, "stage", AgentActionBoundaryStage),
            _member(evidence, "idempotency", Idempotency),
            evidence.id,
        )

    @property
    def may_be_repeated(self) -> bool:
        """Whether the action may run again although its outcome is unknown."""
        if self.action_kind is AgentActionKind.APPROVAL_WAIT:
            return False
        return self.action_kind in _ALWAYS_REPEATABLE or self.idempotency in _REPEATABLE


def _member(evidence: AgentEvidence, name: str, members: type[E]) -> E:
    given = evidence.payload.get(name)
    member = next((each for each in members if each.value == given), None)
    if member is None:
        raise AgentDefinitionError(
            f"Evidence {evidence.id!r} has the {name} {given!r}. Use one of: {', '.join(members)}."
        )
    return member


class AgentResumeAction(StrEnum):
    """The ways to go on with a run."""

    START = "start"
    SKIP_COMPLETED = "skip_completed"
    RETRY = "retry"
    REQUIRE_HITL = "require_hitl"
    NOT_RESUMABLE = "not_resumable"
    FINISH_CANCELLATION = "finish_cancellation"


_AUTOMATIC = frozenset(AgentResumeAction) - {AgentResumeAction.REQUIRE_HITL, AgentResumeAction.NOT_RESUMABLE}


@value
class AgentResumePlan:
    """The plan to go on with a run: what to do, the state to go on in, and the actions of unknown outcome."""

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
        """Whether the run can go on without a person."""
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
    """Return the last row of each action, in the order of those rows."""
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

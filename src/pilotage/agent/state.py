"""The durable state of a run: where it is, how it got there, and where it may go from here.

Pure: values and one table. A run is its `AgentState`; every change of status passes the table, so a
finished run never reopens.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import field
from datetime import datetime
from enum import Enum, StrEnum
from functools import cache

from pilotage.checks import reject_naive, reject_negative
from pilotage.errors import AgentDefinitionError
from pilotage.filling import changing
from pilotage.jsonvalue import JsonObject, empty_object
from pilotage.markdown import code, fenced, summary
from pilotage.values import value


class AgentStatus(StrEnum):
    """The status of a run, as coarse as a list of runs needs it."""

    CREATED = "created"
    ACTIVE = "active"
    INTERRUPTED = "interrupted"
    CANCELLING = "cancelling"
    COMPLETED = "completed"
    FAILED = "failed"
    CANCELLED = "cancelled"

    @property
    def is_terminal(self) -> bool:
        """True when the run has ended for good."""
        return self in _TERMINAL


class AgentStateTransition(StrEnum):
    """The step that led to the present status."""

    PENDING = "pending"
    RUNNING = "running"
    WAITING_APPROVAL = "waiting_approval"
    CANCELLING = "cancelling"
    CANCELLED = "cancelled"
    COMPLETED = "completed"
    FAILED = "failed"
    TIMED_OUT = "timed_out"
    INTERRUPTED = "interrupted"


class AgentStateReason(StrEnum):
    """Why a run is where it is, when the status alone does not say it."""

    APPROVAL_REQUIRED = "approval_required"
    APPROVAL_REJECTED = "approval_rejected"
    APPROVAL_DEFERRED = "approval_deferred"
    EXECUTION_FAILED = "execution_failed"
    USER_INTERRUPTED = "user_interrupted"
    TIMEOUT = "timeout"
    CANCELLATION_REQUESTED = "cancellation_requested"
    CANCELLATION_CLEANUP_FAILED = "cancellation_cleanup_failed"
    RECOVERY_REQUIRES_HITL = "recovery_requires_hitl"
    AUTH_REQUIRED = "auth_required"
    INPUT_WITHDRAWN = "input_withdrawn"
    POISONED = "poisoned"
    MODEL_UNAVAILABLE = "model_unavailable"
    DIVERGED = "diverged"
    LIMIT_REACHED = "limit_reached"


_S, _T, _R = AgentStatus, AgentStateTransition, AgentStateReason

_TERMINAL = frozenset({_S.COMPLETED, _S.FAILED, _S.CANCELLED})

_ALLOWED: Mapping[AgentStatus, frozenset[AgentStatus]] = {
    _S.CREATED: frozenset({_S.ACTIVE, _S.CANCELLING, _S.FAILED}),
    _S.ACTIVE: frozenset({_S.ACTIVE, _S.INTERRUPTED, _S.CANCELLING, _S.COMPLETED, _S.FAILED}),
    _S.INTERRUPTED: frozenset({_S.ACTIVE, _S.INTERRUPTED, _S.CANCELLING, _S.FAILED}),
    _S.CANCELLING: frozenset({_S.CANCELLING, _S.CANCELLED, _S.FAILED}),
    _S.COMPLETED: frozenset(),
    _S.FAILED: frozenset(),
    _S.CANCELLED: frozenset(),
}


class AgentSituation(Enum):
    """The situations a run can be in; each is one triple of status, transition and reason."""

    CREATED = (_S.CREATED, _T.PENDING, None)
    RUNNING = (_S.ACTIVE, _T.RUNNING, None)
    WAITING_FOR_APPROVAL = (_S.INTERRUPTED, _T.WAITING_APPROVAL, _R.APPROVAL_REQUIRED)
    APPROVAL_DEFERRED = (_S.INTERRUPTED, _T.WAITING_APPROVAL, _R.APPROVAL_DEFERRED)
    APPROVAL_REJECTED = (_S.FAILED, _T.FAILED, _R.APPROVAL_REJECTED)
    CANCELLING = (_S.CANCELLING, _T.CANCELLING, _R.CANCELLATION_REQUESTED)
    CANCELLED = (_S.CANCELLED, _T.CANCELLED, _R.CANCELLATION_REQUESTED)
    CANCELLATION_CLEANUP_FAILED = (_S.FAILED, _T.FAILED, _R.CANCELLATION_CLEANUP_FAILED)
    TIMED_OUT = (_S.FAILED, _T.TIMED_OUT, _R.TIMEOUT)
    FAILED = (_S.FAILED, _T.FAILED, _R.EXECUTION_FAILED)
    RECOVERY_REQUIRED = (_S.INTERRUPTED, _T.INTERRUPTED, _R.RECOVERY_REQUIRES_HITL)
    USER_INTERRUPTED = (_S.INTERRUPTED, _T.INTERRUPTED, _R.USER_INTERRUPTED)
    POISONED = (_S.INTERRUPTED, _T.INTERRUPTED, _R.POISONED)
    MODEL_UNAVAILABLE = (_S.INTERRUPTED, _T.INTERRUPTED, _R.MODEL_UNAVAILABLE)
    DIVERGED = (_S.INTERRUPTED, _T.INTERRUPTED, _R.DIVERGED)
    LIMIT_REACHED = (_S.INTERRUPTED, _T.INTERRUPTED, _R.LIMIT_REACHED)
    COMPLETED = (_S.COMPLETED, _T.COMPLETED, None)

    def __init__(
        self, status: AgentStatus, transition: AgentStateTransition, reason: AgentStateReason | None
    ) -> None:
        self.status = status
        self.transition = transition
        self.reason = reason

    @classmethod
    def of(
        cls,
        status: AgentStatus,
        transition: AgentStateTransition | None,
        reason: AgentStateReason | None,
    ) -> AgentSituation | None:
        """Return the situation of a triple, or None where there is none."""
        triple = (status, transition, reason)
        return next((each for each in cls if (each.status, each.transition, each.reason) == triple), None)


_OF_INTERRUPTIONS = frozenset({"divergence", "damage", "poison", "seal_missing", "limit"})
"""The keys in the metadata of a run for the facts of the interruption that it is in."""


def can_move(current: AgentStatus, target: AgentStatus) -> bool:
    """Return whether a run may go from one status to another."""
    return target in _ALLOWED[current]


@value
class AgentState:
    """One run: its identity, its situation and the references a reader needs.

    `wake_at` is when a waiting run goes on even without an answer, `awaits` the kind of message that its program
    waits for.
    """

    id: str
    agent_type: str
    status: AgentStatus
    transition: AgentStateTransition | None = None
    reason: AgentStateReason | None = None
    current_activity: str | None = None
    input_ref: str | None = None
    output_ref: str | None = None
    pending_signal_count: int = 0
    last_event_cursor: str | None = None
    recovery_marker: str | None = None
    metadata: JsonObject = field(default_factory=empty_object)
    created_at: datetime | None = None
    updated_at: datetime | None = None
    tenant_id: str = "default"
    wake_at: datetime | None = None
    awaits: str | None = None

    def __post_init__(self) -> None:
        reject_negative(self, pending_signal_count=self.pending_signal_count)
        reject_naive(self, created_at=self.created_at, updated_at=self.updated_at, wake_at=self.wake_at)

    @property
    def is_terminal(self) -> bool:
        """True when the run has ended for good."""
        return self.status.is_terminal

    def _repr_markdown_(self) -> str:
        """Return how a notebook shows the run."""
        line = summary(self.status, (self.agent_type, self.reason, code(self.id)))
        return f"{line}\n\n{fenced(self.current_activity)}" if self.current_activity else line

    def moved_to(
        self,
        situation: AgentSituation,
        *,
        activity: str | None = None,
        metadata: JsonObject | None = None,
        wake_at: datetime | None = None,
    ) -> AgentState:
        """Return this state in another situation, with `metadata` added to what it has.

        `wake_at` belongs to the new situation: what an earlier one waited for is over, and so is what it awaited. A run
        that goes on has no facts of an interruption any more, and one that has ended no activity.

        Raises:
            AgentDefinitionError: the table of transitions does not allow the step.
        """
        if not can_move(self.status, situation.status):
            allowed = ", ".join(sorted(_ALLOWED[self.status])) or "nothing: it has ended"
            raise AgentDefinitionError(
                f"run {self.id!r} is {self.status} and cannot become {situation.status}. Allowed: {allowed}."
            )
        activity, known = self.current_activity if activity is None else activity, self.metadata
        if situation is AgentSituation.RUNNING and not _OF_INTERRUPTIONS.isdisjoint(known):
            known = {name: each for name, each in known.items() if name not in _OF_INTERRUPTIONS}
        return _moved()(
            self,
            status=situation.status,
            transition=situation.transition,
            reason=situation.reason,
            current_activity=None if situation.status in _TERMINAL else activity,
            metadata={**known, **metadata} if metadata else known,
            wake_at=wake_at,
            awaits=None,
        )


@cache
def _moved() -> Callable[..., AgentState]:
    """Makes states from states: what was checked there is not checked again."""
    changed = ("status", "transition", "reason", "current_activity", "metadata", "wake_at", "awaits")
    return changing(AgentState, *changed)

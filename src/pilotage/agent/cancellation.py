"""Cancellation: a run stops, cleans up what it had begun, and reports the outcome.

A cancel signal moves the run to CANCELLING; hooks for its open model streams, tools and delegates run concurrently
under one deadline; the report of their outcomes ends the run as CANCELLED or, if one failed, as FAILED. Everything but
running the hooks is pure.
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import Awaitable, Callable, Collection, Sequence
from dataclasses import field
from enum import StrEnum
from typing import TypeAlias

from pilotage.agent.evidence import AgentEvidenceCandidate, AgentEvidenceKind
from pilotage.agent.signals import AgentSignal, AgentSignalKind
from pilotage.agent.state import AgentSituation, AgentState, AgentStatus
from pilotage.checks import reject_blank, reject_not_positive
from pilotage.errors import AgentDefinitionError, PilotageError
from pilotage.jsonvalue import JsonObject, as_object, empty_object, to_json_value
from pilotage.values import value

CLEANUP_TIMEOUT_CODE = "cancellation_cleanup_timeout"
CLEANUP_CANCELLED_CODE = "cancellation_cleanup_cancelled"

_Running: TypeAlias = "asyncio.Task[AgentCancellationCleanupResult]"
_WORD_START = re.compile(r"(?<=[a-z0-9])(?=[A-Z])")


async def run_cleanup_hooks(
    state: AgentState,
    signal: AgentSignal,
    tasks: Sequence[AgentCancellationCleanupTask],
    deadline_seconds: float | None,
) -> tuple[AgentCancellationCleanupResult, ...]:
    """Return the outcome of each hook, in the order of the tasks."""
    running = [asyncio.create_task(task.run(state=state, signal=signal)) for task in tasks]
    late = await _wait(running, deadline_seconds)
    return tuple(
        _late_outcome(task, deadline_seconds) if hook in late else _outcome_of(task, hook)
        for task, hook in zip(tasks, running, strict=True)
    )


async def _wait(running: Sequence[_Running], deadline_seconds: float | None) -> set[_Running]:
    """Wait for the hooks until the deadline; return those that missed it, cancelled."""
    if not running:
        return set()
    try:
        _, late = await asyncio.wait(running, timeout=deadline_seconds)
    except asyncio.CancelledError:
        await _stop(running, deadline_seconds)
        raise
    await _stop(late, deadline_seconds)
    return late


async def _stop(running: Collection[_Running], grace_seconds: float | None) -> None:
    for hook in running:
        hook.cancel()
    if running:
        stopped, _ = await asyncio.wait(running, timeout=grace_seconds)
        for hook in stopped:
            # The event loop reports an exception that is never retrieved.
            _ = hook.cancelled() or hook.exception()


def _late_outcome(
    task: AgentCancellationCleanupTask, deadline_seconds: float | None
) -> AgentCancellationCleanupResult:
    message = f"The cleanup did not end within {deadline_seconds} seconds."
    return _failed(task, CLEANUP_TIMEOUT_CODE, message)


def _outcome_of(task: AgentCancellationCleanupTask, hook: _Running) -> AgentCancellationCleanupResult:
    # A hook that stops a task and awaits it ends cancelled itself; that is its outcome, not ours.
    if hook.cancelled():
        return _failed(task, CLEANUP_CANCELLED_CODE, "The cleanup was cancelled from within.")
    error = hook.exception()
    if error is None:
        return hook.result()
    if not isinstance(error, Exception):
        raise error
    return _failed(task, error_code_of(error), str(error) if str(error).strip() else type(error).__name__)


def _failed(task: AgentCancellationCleanupTask, code: str, message: str) -> AgentCancellationCleanupResult:
    return AgentCancellationCleanupResult.failed(
        target_kind=task.target_kind,
        target_ref=task.target_ref,
        error_code=code,
        message=message,
        metadata=task.metadata,
    )


def error_code_of(error: Exception) -> str:
    """Return the code of an exception: its own, or the name of its class in lower case."""
    return (
        error.code if isinstance(error, PilotageError) else _WORD_START.sub("_", type(error).__name__).lower()
    )


class AgentCancellationTargetKind(StrEnum):
    """The kinds of targets that a cancellation stops."""

    MODEL_STREAM = "model_stream"
    TOOL_EXECUTION = "tool_execution"
    DELEGATE_EXECUTION = "delegate_execution"


class AgentCancellationCleanupStatus(StrEnum):
    """The status of the cleanup of one target."""

    SUCCEEDED = "succeeded"
    FAILED = "failed"
    SKIPPED = "skipped"


def check_cancel_signal(state: AgentState, signal: AgentSignal) -> None:
    """Refuse a signal that does not cancel this run.

    Raises:
        AgentDefinitionError: the signal is of another kind or belongs to another run.
    """
    if signal.kind is not AgentSignalKind.CANCEL:
        raise AgentDefinitionError(f"Signal {signal.id!r} is of kind {signal.kind.value!r}. Send a 'cancel'.")
    if signal.agent_state_id != state.id:
        raise AgentDefinitionError(
            f"Signal {signal.id!r} is for run {signal.agent_state_id!r}, not {state.id!r}."
        )


def text_in(signal: AgentSignal, name: str) -> str | None:
    """Return the text under a key of the payload; anything else counts as not given."""
    value = signal.payload.get(name)
    return value if isinstance(value, str) else None


@value
class AgentCancellationRequest:
    """The request to a cleanup hook: the target, its run, and the reason."""

    state_id: str
    signal_id: str
    target_kind: AgentCancellationTargetKind
    target_ref: str
    reason: str | None = None
    requested_by: str | None = None
    metadata: JsonObject = field(default_factory=empty_object)

    def __post_init__(self) -> None:
        reject_blank(self, state_id=self.state_id, signal_id=self.signal_id, target_ref=self.target_ref)
        reject_blank(self, reason=self.reason, requested_by=self.requested_by)

    @classmethod
    def from_signal(
        cls,
        *,
        state: AgentState,
        signal: AgentSignal,
        target_kind: AgentCancellationTargetKind,
        target_ref: str,
        metadata: JsonObject | None = None,
    ) -> AgentCancellationRequest:
        """Return the request that a cancel signal of this run makes for one target.

        Raises:
            AgentDefinitionError: the signal is no cancel signal or belongs to another run.
        """
        check_cancel_signal(state, signal)
        return cls(
            state_id=state.id,
            signal_id=signal.id,
            target_kind=target_kind,
            target_ref=target_ref,
            reason=text_in(signal, "reason"),
            requested_by=text_in(signal, "requested_by"),
            metadata=metadata or {},
        )

    def to_payload(self) -> JsonObject:
        """Return the request as JSON, every key present."""
        return as_object(to_json_value(self))


@value
class AgentCancellationCleanupResult:
    """The result of one cleanup hook."""

    target_kind: AgentCancellationTargetKind
    target_ref: str
    status: AgentCancellationCleanupStatus
    reason: str | None = None
    error_code: str | None = None
    message: str | None = None
    metadata: JsonObject = field(default_factory=empty_object)

    def __post_init__(self) -> None:
        reject_blank(self, target_ref=self.target_ref, reason=self.reason, error_code=self.error_code)
        reject_blank(self, message=self.message)

    @classmethod
    def succeeded(
        cls,
        *,
        target_kind: AgentCancellationTargetKind,
        target_ref: str,
        reason: str | None = None,
        metadata: JsonObject | None = None,
    ) -> AgentCancellationCleanupResult:
        """Return the result of a target that is stopped and cleaned up."""
        status = AgentCancellationCleanupStatus.SUCCEEDED
        return cls(target_kind, target_ref, status, reason, metadata=metadata or {})

    @classmethod
    def failed(
        cls,
        *,
        target_kind: AgentCancellationTargetKind,
        target_ref: str,
        error_code: str,
        message: str,
        metadata: JsonObject | None = None,
    ) -> AgentCancellationCleanupResult:
        """Return the result of a target that could not be cleaned up."""
        return cls(
            target_kind,
            target_ref,
            AgentCancellationCleanupStatus.FAILED,
            error_code=error_code,
            message=message,
            metadata=metadata or {},
        )

    @classmethod
    def skipped(
        cls,
        *,
        target_kind: AgentCancellationTargetKind,
        target_ref: str,
        reason: str,
        metadata: JsonObject | None = None,
    ) -> AgentCancellationCleanupResult:
        """There was nothing to clean up."""
        status = AgentCancellationCleanupStatus.SKIPPED
        return cls(target_kind, target_ref, status, reason, metadata=metadata or {})

    @property
    def failed_cleanup(self) -> bool:
        """Whether this outcome makes the cancellation fail."""
        return self.status is AgentCancellationCleanupStatus.FAILED

    def to_payload(self) -> JsonObject:
        """Return the outcome as JSON, every key present."""
        return as_object(to_json_value(self))


AgentCancellationCleanupCallable: TypeAlias = Callable[
    [AgentCancellationRequest], Awaitable[AgentCancellationCleanupResult]
]


@value
class AgentCancellationCleanupTask:
    """A hook and the target it cleans up."""

    target_kind: AgentCancellationTargetKind
    target_ref: str
    cleanup: AgentCancellationCleanupCallable
    metadata: JsonObject = field(default_factory=empty_object)

    def __post_init__(self) -> None:
        reject_blank(self, target_ref=self.target_ref)

    async def run(self, *, state: AgentState, signal: AgentSignal) -> AgentCancellationCleanupResult:
        """Await the hook; whatever it raises is the caller's.

        Raises:
            AgentDefinitionError: the signal is not this run's, or the outcome names another target.
        """
        request = AgentCancellationRequest.from_signal(
            state=state,
            signal=signal,
            target_kind=self.target_kind,
            target_ref=self.target_ref,
            metadata=self.metadata,
        )
        result = await self.cleanup(request)
        if (result.target_kind, result.target_ref) != (self.target_kind, self.target_ref):
            raise AgentDefinitionError(
                f"The cleanup of {self.target_kind.value} {self.target_ref!r} answered for "
                f"{result.target_kind.value} {result.target_ref!r}. Answer with the target of the request."
            )
        return result


@value
class AgentCancellationCleanupReport:
    """The results of a whole cleanup, in the order of the tasks."""

    state_id: str
    signal_id: str
    outcomes: tuple[AgentCancellationCleanupResult, ...] = ()

    def __post_init__(self) -> None:
        reject_blank(self, state_id=self.state_id, signal_id=self.signal_id)

    @property
    def cleanup_succeeded(self) -> bool:
        """Whether nothing failed; having nothing to do counts as success."""
        return not self.failed_outcomes

    @property
    def failed_outcomes(self) -> tuple[AgentCancellationCleanupResult, ...]:
        """The outcomes that failed."""
        return tuple(outcome for outcome in self.outcomes if outcome.failed_cleanup)

    def to_payload(self) -> JsonObject:
        """Return the report as JSON."""
        return {
            "state_id": self.state_id,
            "signal_id": self.signal_id,
            "cleanup_succeeded": self.cleanup_succeeded,
            "outcomes": tuple(outcome.to_payload() for outcome in self.outcomes),
        }

    def to_evidence_candidate(self, summary: str | None = None) -> AgentEvidenceCandidate:
        """Return the report as a record of the run."""
        return AgentEvidenceCandidate(AgentEvidenceKind.CANCELLATION, self.to_payload(), summary)


def begin_agent_cancellation(state: AgentState, signal: AgentSignal) -> AgentState:
    """Return the run on its way to being cancelled, with the principal that requested it and the reason.

    Raises:
        AgentDefinitionError: the signal does not cancel this run, or the run has ended.
    """
    check_cancel_signal(state, signal)
    return state.moved_to(
        AgentSituation.CANCELLING,
        metadata={
            "cancellation_signal_id": signal.id,
            "cancellation_reason": text_in(signal, "reason"),
            "cancellation_requested_by": text_in(signal, "requested_by"),
        },
    )


def complete_agent_cancellation(state: AgentState, report: AgentCancellationCleanupReport) -> AgentState:
    """Return the cancelled run: CANCELLED after a good cleanup, FAILED after a bad one.

    Raises:
        AgentDefinitionError: the report is about another run, or the run is not being cancelled.
    """
    if report.state_id != state.id:
        raise AgentDefinitionError(f"The cleanup report is about run {report.state_id!r}, not {state.id!r}.")
    if state.status is not AgentStatus.CANCELLING:
        raise AgentDefinitionError(
            f"run {state.id!r} is {state.status}, so its cancellation cannot end. "
            "Begin it first: begin_agent_cancellation(state, signal)."
        )
    succeeded = report.cleanup_succeeded
    situation = AgentSituation.CANCELLED if succeeded else AgentSituation.CANCELLATION_CLEANUP_FAILED
    return state.moved_to(situation, metadata={"cancellation_cleanup": report.to_payload()})


async def run_agent_cancellation_cleanup(
    *,
    state: AgentState,
    signal: AgentSignal,
    tasks: Sequence[AgentCancellationCleanupTask],
    deadline_seconds: float | None = None,
) -> AgentCancellationCleanupReport:
    """Run all hooks at once and report how each of them fared, in the order of the tasks.

    A hook that raises is a failed outcome. One that is past the deadline is cancelled and a failed outcome;
    one that ignores even that is waited for as long again and then abandoned.

    Raises:
        AgentDefinitionError: the signal does not cancel this run, or the deadline is not positive.
    """
    check_cancel_signal(state, signal)
    reject_not_positive("run_agent_cancellation_cleanup", deadline_seconds=deadline_seconds)
    from pilotage.agent.cancellation import run_cleanup_hooks  # noqa: PLC0415 - importing asyncio is slow

    outcomes = await run_cleanup_hooks(state, signal, tasks, deadline_seconds)
    return AgentCancellationCleanupReport(state.id, signal.id, outcomes)

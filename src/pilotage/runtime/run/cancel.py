"""Ending a cancelled run: the cancellation is recorded, the work is stopped and cleaned up, then the run ends.

Child runs end before their parents. A call that was under way gets a result with an unknown outcome, which is not a
failure.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from dataclasses import replace
from functools import partial
from typing import TypeVar

from pilotage.agent.cancellation import (
    AgentCancellationCleanupReport,
    AgentCancellationCleanupResult,
    AgentCancellationCleanupTask,
    AgentCancellationRequest,
    AgentCancellationTargetKind,
    begin_agent_cancellation,
    complete_agent_cancellation,
    error_code_of,
    run_agent_cancellation_cleanup,
)
from pilotage.agent.evidence import AgentEvidence, AgentEvidenceCandidate, AgentEvidenceKind
from pilotage.agent.ports.handlers import IAgentCancellationCleanup
from pilotage.agent.principal import RunContext
from pilotage.agent.recovery import AgentActionKind
from pilotage.agent.signals import AgentSignal, AgentSignalKind
from pilotage.agent.state import AgentSituation, AgentState, AgentStatus
from pilotage.agent.tools.declare import OutsideRuns
from pilotage.jsonvalue import JsonObject, canonical_json, text_digest
from pilotage.runtime.door.run import Run
from pilotage.runtime.exposure.redactor import is_foreign
from pilotage.runtime.journal import stored_words as words
from pilotage.runtime.journal.interruptions import EndRefused, RunInterruption
from pilotage.runtime.journal.ledger import Ledger
from pilotage.runtime.journal.scope import Action
from pilotage.values import value

T = TypeVar("T")

CLEANUP_SECONDS = 30.0

UnderWay = tuple[Action, int]

_TARGETS = {
    AgentActionKind.MODEL_CALL: AgentCancellationTargetKind.MODEL_STREAM,
    AgentActionKind.DELEGATION: AgentCancellationTargetKind.DELEGATE_EXECUTION,
}


@value
class Cleanup:
    """The clean-up of a cancelled run's open actions.

    `cancel_child` ends the child run of an open delegation. `threads` returns the names of sync tools that cannot be
    stopped. `seconds` is the time limit for all `hooks` together. `describe` returns the text of an exception, raised
    at a place, for readers. `refusal` is the reason of a person against the clean-up: then no hook is called.
    """

    context: RunContext
    describe: Callable[[BaseException, str], str]
    hooks: tuple[IAgentCancellationCleanup, ...] = ()
    cancel_child: Callable[[Action], Awaitable[None]] | None = None
    threads: Callable[[], Sequence[str]] = tuple
    seconds: float = CLEANUP_SECONDS
    refusal: str | None = None


async def begin_cancellation(ledger: Ledger, signal: AgentSignal, *, is_stored: bool = True) -> None:
    """Record that the run is being cancelled, and consume the signal if it is stored; a parent's signal is not."""
    state = ledger.state
    if state.status is AgentStatus.CREATED:
        state = state.moved_to(AgentSituation.RUNNING)
    ledger.change_state(begin_agent_cancellation(state, signal))
    if is_stored:
        ledger.consume_signal(signal.id)
    await ledger.barrier()


async def finish_cancellation(
    run: Run,
    under_way: Sequence[UnderWay],
    cleanup: Cleanup | None,
    prepare: Callable[[AgentState], None],
) -> AgentState:
    """Clean up, close the actions under way and end the run; safe to repeat after a crash.

    `under_way` are the actions with rows. What else this attempt has stopped is cleaned up as well: open streams of
    models and read-only tools, which leave no row. Another attempt, after a crash, does not know of them.

    `prepare` adds the last events to the commit that ends the run.
    """
    ledger = run.ledger
    report = await _cleaned_up(run, under_way, cleanup)
    run.outcomes.close_as_unknown(under_way)

    async def finish() -> AgentState:
        ledger.mark_end()
        ledger.add_evidence(_evidence_of(ledger, report))
        record_audit(run)
        closed, ended = ledger.close_signals(), complete_agent_cancellation(ledger.state, report)
        ledger.change_state(replace(ended, metadata={**ended.metadata, **closed}) if closed else ended)
        prepare(ledger.state)
        await ledger.barrier()
        return ledger.state

    return await despite_signals(run, finish)


def record_audit(run: Run) -> None:
    """Add evidence of the audit of all texts that this attempt streamed, if its agent has a redaction policy."""
    audit = run.redactor.stream_audit
    if audit is not None:
        found = AgentEvidenceCandidate(
            AgentEvidenceKind.OUTPUT_GUARD, audit.to_evidence_payload(), "the audit of the streamed texts"
        )
        run.ledger.add_evidence(_evidence(run.ledger, found))


def _evidence_of(ledger: Ledger, report: AgentCancellationCleanupReport) -> AgentEvidence:
    outcome = "succeeded" if report.cleanup_succeeded else "failed"
    return _evidence(ledger, report.to_evidence_candidate(f"the clean-up of the cancelled run {outcome}"))


def _evidence(ledger: Ledger, found: AgentEvidenceCandidate) -> AgentEvidence:
    """Return evidence of the end of an attempt; each has its own."""
    run_id = ledger.run.run_id
    evidence_id = f"{run_id}:{found.kind.value}@{ledger.epoch}"
    digest = text_digest(canonical_json(found.payload))
    return replace(found, digest=digest).to_evidence(evidence_id=evidence_id, agent_state_id=run_id)


async def despite_signals(run: Run, finish: Callable[[], Awaitable[T]]) -> T:
    """Return the result of ending a run that goes on with no signal: a new one is read, and is too late."""
    while True:
        try:
            return await finish()
        except EndRefused:
            run.events.take_back()
            if run.read_signals is not None:
                await run.read_signals()


async def end_children(
    cleanup: Cleanup | None, under_way: Sequence[UnderWay]
) -> list[AgentCancellationCleanupResult]:
    """End the child runs of open delegations; return a failed result for each child that cannot be ended."""
    if cleanup is None or cleanup.cancel_child is None:
        return []
    failed: list[AgentCancellationCleanupResult] = []
    for action, _ in under_way:
        if action.kind is not AgentActionKind.DELEGATION:
            continue
        try:
            await cleanup.cancel_child(action)
        except (Exception, RunInterruption) as error:  # noqa: BLE001 - the parent ends regardless of the error
            failed.append(_not_ended(action, cleanup.describe(error, f"{action.id} clean-up")))
    return failed


async def _cleaned_up(
    run: Run, under_way: Sequence[UnderWay], cleanup: Cleanup | None
) -> AgentCancellationCleanupReport:
    state = run.ledger.state
    signal_id = str(state.metadata.get(words.CANCELLATION_SIGNAL_ID) or "cancellation")
    if cleanup is None:
        return AgentCancellationCleanupReport(state.id, signal_id)
    children = await end_children(cleanup, under_way)
    begun = {action.id: action for action, _ in (*under_way, *run.stopped.values())}
    if cleanup.refusal is not None:
        refused = [_refused(action, cleanup.refusal) for action in begun.values()]
        return AgentCancellationCleanupReport(state.id, signal_id, (*children, *refused))
    tasks = [_task(cleanup, hook, action) for hook in cleanup.hooks for action in begun.values()]
    signal = AgentSignal(signal_id, state.id, AgentSignalKind.CANCEL, _payload_of(state))
    report = await run_agent_cancellation_cleanup(
        state=state, signal=signal, tasks=tasks, deadline_seconds=cleanup.seconds
    )
    running = [_still_running(name) for name in cleanup.threads()]
    return AgentCancellationCleanupReport(state.id, signal_id, (*children, *report.outcomes, *running))


def _payload_of(state: AgentState) -> JsonObject:
    """Return the payload of the signal that cancelled a run, as its state records it; blank texts are left out."""
    recorded = {
        "reason": state.metadata.get(words.CANCELLATION_REASON),
        "requested_by": state.metadata.get(words.CANCELLATION_REQUESTED_BY),
    }
    return {key: text for key, text in recorded.items() if isinstance(text, str) and text.strip()}


def _not_ended(action: Action, message: str) -> AgentCancellationCleanupResult:
    return AgentCancellationCleanupResult.failed(
        target_kind=AgentCancellationTargetKind.DELEGATE_EXECUTION,
        target_ref=action.id,
        error_code="child_not_ended",
        message=message,
    )


def _refused(action: Action, why: str) -> AgentCancellationCleanupResult:
    return AgentCancellationCleanupResult.failed(
        target_kind=_target_kind(action),
        target_ref=action.id,
        error_code="cleanup_rejected",
        message=why,
    )


def _target_kind(action: Action) -> AgentCancellationTargetKind:
    return _TARGETS.get(action.kind, AgentCancellationTargetKind.TOOL_EXECUTION)


def _task(cleanup: Cleanup, hook: IAgentCancellationCleanup, action: Action) -> AgentCancellationCleanupTask:
    return AgentCancellationCleanupTask(_target_kind(action), action.id, partial(_ask, cleanup, hook))


async def _ask(
    cleanup: Cleanup, hook: IAgentCancellationCleanup, request: AgentCancellationRequest
) -> AgentCancellationCleanupResult:
    try:
        with OutsideRuns():
            result = await hook.clean_up(cleanup.context, request)
    except Exception as error:
        if not is_foreign(error):
            raise
        return AgentCancellationCleanupResult.failed(
            target_kind=request.target_kind,
            target_ref=request.target_ref,
            error_code=error_code_of(error),
            message=cleanup.describe(error, f"{request.target_ref} clean-up"),
        )
    return result or AgentCancellationCleanupResult.skipped(
        target_kind=request.target_kind, target_ref=request.target_ref, reason="nothing to clean up"
    )


def _still_running(tool: str) -> AgentCancellationCleanupResult:
    return AgentCancellationCleanupResult.skipped(
        target_kind=AgentCancellationTargetKind.TOOL_EXECUTION,
        target_ref=tool,
        reason="its thread cannot be stopped and still runs",
    )

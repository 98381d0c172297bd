"""The one way to the world: `perform` looks an effect up in the record, admits it, records it and carries it out.

Barriers stand only where the rules of durability want them: before anything that is not read-only begins, its own row
and everything before it are committed.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Sequence
from dataclasses import replace
from typing import Any

from pilotage.agent.ports.journal import JournalRow
from pilotage.agent.recovery import AgentActionBoundaryStage, AgentResumeBoundary
from pilotage.agent.recovery_request import (
    RecoveryCancelled,
    RecoveryDone,
    RecoveryFailed,
    RecoveryRetried,
)
from pilotage.agent.state import AgentSituation, AgentStatus
from pilotage.errors import ToolError
from pilotage.jsonvalue import JsonValue
from pilotage.runtime.door.hooks import NoAnswerError
from pilotage.runtime.door.outcome import executed_arguments
from pilotage.runtime.door.run import RefusedError, Run, Stage
from pilotage.runtime.effect import MODEL_CALL, NO_OUTCOME, NOTHING, QUESTION, Effect
from pilotage.runtime.journal.interruptions import Paused, RecordDamaged, RunEnded, RunInterruption, damage_of
from pilotage.runtime.journal.record_fields import DamagedRecordError, decode_row
from pilotage.runtime.journal.recording import RecordedAction
from pilotage.runtime.journal.recovery import AskHuman, FetchAgain, Reconcile, Repeat, Reuse, recovery_for
from pilotage.runtime.journal.scope import inside
from pilotage.runtime.people.questions import (
    ApprovalQuestion,
    Question,
    RecoveryQuestion,
    ResultQuestion,
    obey_recovery,
    recovery_label,
)
from pilotage.runtime.people.requests import fits

# Looking a member up costs as much as a call.
_INTERRUPTED = AgentStatus.INTERRUPTED
_UNKNOWN = object()
"""The answer of a tool that cannot say what became of an attempt."""


async def perform(run: Run, effect: Effect) -> Any:
    """Return the result of an effect: the recorded one, or that of carrying it out now.

    Raises:
        ToolError: the effect failed for certain.
        RunInterruption: this attempt at the run ends here.
    """
    kind, scope = effect.kind, effect.scope
    if not kind.is_tracked:
        run.ledger.check_alive()
        recorded = run.replay.take(effect.action) if run.replay.has_record else None
        return await (_begin(run, effect) if recorded is None else _recover(run, effect, recorded))
    liveness = run.replay.liveness
    effect.task = liveness.begin(scope)
    try:
        if kind.is_call:
            if run.open_streams:
                for stream in run.streams_at(scope.path):
                    await stream.drain()
            if run.at_boundary is not None and not effect.action.is_read_only:
                await run.at_boundary(effect)
        recorded = run.replay.take(effect.action) if run.replay.has_record else None
        result = await (_begin(run, effect) if recorded is None else _recover(run, effect, recorded))
    except DamagedRecordError as error:
        # No exception for the program: it must not take a damaged record for a failed call.
        damaged = RecordDamaged(damage_of(error))
        liveness.ended(scope, damaged)
        raise damaged from error
    except BaseException as end:
        liveness.ended(scope, end)
        raise
    liveness.ended(scope)
    return result


def ask_ahead(run: Run, effects: Sequence[Effect]) -> None:
    """Ask the questions about effects that must wait for another one, so that all can be answered at once."""
    for effect in effects:
        if run.replay.knows(effect.action.id):
            continue
        if effect.ask is not None:
            _put(run, ApprovalQuestion(run.questions, effect, effect.ask))
        elif effect.is_deferred:
            _put(run, ResultQuestion(run.questions, effect))


def _put(run: Run, question: Question) -> None:
    """Ask a question without taking an answer: the answer is taken when the effect begins."""
    recorded = run.replay.take(question.action)
    if recorded is None:
        run.outcomes.write_before(question)
    elif recorded.after is None:
        question.take_up(recorded.row)
    else:
        return
    run.questions.wait_for(question.request)


async def _begin(run: Run, effect: Effect) -> object:
    """Carry an effect out for the first time, once all stages that look at it let it pass."""
    if run.events.is_replaying:
        run.go_live()
    kind, stage = effect.kind, None
    stages = run.admission.stages[kind]
    try:
        for stage in stages:
            waiting = stage.admit(run, effect)
            if waiting is not None:
                await waiting
    except BaseException as end:
        if stage is not None:
            await _give_back(run, effect, stages[: stages.index(stage)])
        if isinstance(end, RefusedError):
            raise _refused(run, effect, str(end)) from end
        raise
    if kind.is_call and effect.reservation is not None:
        # Before it begins: where the journal settles the budget, its BEFORE row and the settlement are one commit.
        await effect.settle(kind.counts)
    return await _carry_out(run, effect)


async def _give_back(run: Run, effect: Effect, stages: Sequence[Stage]) -> None:
    """Give back the reservations of stages for an effect that a later stage refused."""
    for stage in stages:
        giving_back = stage.give_back(run, effect)
        if giving_back is not None:
            await giving_back


def _refused(run: Run, effect: Effect, reason: str) -> Exception:
    """Record that an effect must not begin; the record counts, now and in replay."""
    error = effect.refused(reason)
    if not isinstance(error, ToolError):
        return error
    if not effect.is_counted and effect.kind.counts is not NOTHING:
        run.spending.absorb(effect.kind.counts)
    return run.outcomes.ended(effect, error)


def _carry_out(run: Run, effect: Effect) -> Awaitable[object]:
    """Begin an effect that is admitted: recorded before it acts, unless it only reads."""
    kind = effect.kind
    if kind.is_call and effect.is_deferred:
        return _result_from_caller(run, effect)
    if run.ledger.state.status is _INTERRUPTED and (kind.is_call or kind is MODEL_CALL):
        run.mark_running()
    if effect.action.is_read_only:
        return _act(run, effect)
    run.outcomes.write_before(effect)
    return _act(run, effect) if kind is QUESTION else _dispatch(run, effect)


async def _dispatch(run: Run, effect: Effect) -> object:
    """Perform an effect that is recorded as begun, once the row is committed and the lease is certain."""
    run.outcomes.begin(effect)
    await run.ledger.barrier()
    await run.ensure_lease()
    return await _act(run, effect)


async def _result_from_caller(run: Run, effect: Effect) -> object:
    """Return the result of a call that the caller of the run carries out: nothing is dispatched, nothing unknown."""
    answer = obey_recovery(await perform(run, ResultQuestion(run.questions, effect)))
    if not isinstance(answer, RecoveryDone):
        raise TypeError(f"a deferred call is answered with its result, not with {type(answer).__name__}")
    result = effect.decode(answer.result)
    run.learn(effect)
    return run.outcomes.done(effect, result).result


def _act(run: Run, effect: Effect) -> Awaitable[object]:
    """Carry an effect out, and record its outcome.

    Raises:
        ToolError: it failed for certain.
        RunInterruption: this attempt at the run ends here; also where the outcome is unknown.
    """
    if effect.kind.is_call:
        return _act_for_program(run, effect)
    return _act_for_run(run, effect) if effect.is_recorded else effect.act()


async def _act_for_run(run: Run, effect: Effect) -> object:
    """Carry out an effect of the run itself: its errors are no outcomes."""
    result = await effect.act()
    return result if result is NO_OUTCOME else run.outcomes.done(effect, result).result


async def _act_for_program(run: Run, effect: Effect) -> object:
    """Carry a call of the program out: its errors are outcomes, and a call cut short may have taken effect."""
    try:
        with inside(effect.action.id, effect.task):
            acting, telemetry = effect.act(), run.telemetry
            result = await (acting if telemetry.is_idle else telemetry.observed(effect.action, acting))
    except RunInterruption:
        raise
    except ToolError as error:
        run.learn(effect)
        raise run.outcomes.failed(effect, error) from error.__cause__
    except asyncio.CancelledError:
        await _leave_to_people(run, effect)
        raise
    except Exception as error:
        if effect.action.may_be_repeated:
            run.learn(effect)
            raise run.outcomes.failed(effect, error) from error
        return await _find_out(run, effect)
    outcome = run.outcomes.done(effect, result)
    run.learn(effect)
    if run.hooks is not None:
        await run.hooks.after_call(run.context, effect, outcome.view)
    return outcome.result


async def _leave_to_people(run: Run, effect: Effect) -> None:
    """Ask about a call that was cancelled and may have taken effect: the program must not go on as if it had not."""
    liveness = run.replay.liveness
    is_ending = run.ledger.state.status is AgentStatus.CANCELLING or liveness.is_ending
    if effect.action.may_be_repeated or is_ending:
        return
    try:
        await perform(run, RecoveryQuestion(run.questions, effect, effect.attempt))
    except Paused as pause:
        liveness.pause(effect.scope, pause)
        liveness.end(pause)


async def _find_out(run: Run, effect: Effect) -> object:
    """Determine the unknown outcome of a call that raised: ask the tool's reconciler, else a person."""
    found = await _reconcile(run, effect)
    if found is _UNKNOWN:
        return await _ask_people(run, effect)
    if found is None:
        error = ToolError(f"{effect.action.name!r} did not take effect")
        raise run.outcomes.failed(effect, error)
    return _found_out(run, effect, found)


async def _reconcile(run: Run, effect: Effect) -> object:
    """Return the reconciled outcome of an attempt: its result, None if it did not happen, or `_UNKNOWN`."""
    if effect.reconcile is None:
        return _UNKNOWN
    try:
        return await effect.reconcile(run.idempotency_key(effect))
    except Exception:  # noqa: BLE001 - a tool that cannot say leaves it unknown
        return _UNKNOWN


def _found_out(run: Run, effect: Effect, result: object) -> object:
    """Record a result that was found out: as if the call had just given it."""
    run.learn(effect)
    return run.outcomes.done(effect, result).result


async def _ask_people(run: Run, effect: Effect) -> object:
    """Return the result of a call with an unknown outcome, from its handler, an answer or a repetition."""
    number, known = effect.attempt, None
    late: tuple[JsonValue, ...] = ()
    if not run.replay.knows(f"{effect.action.id}/{recovery_label(number)}"):
        known = await _handler_answer(run, effect, number)
        if known is None and run.outcomes.late is not None:
            late = await run.outcomes.late.about(effect.action.id, number)
    question = RecoveryQuestion(run.questions, effect, number, late, known)
    answer = obey_recovery(await perform(run, question))
    if isinstance(answer, RecoveryDone):
        return _found_out(run, effect, effect.decode(answer.result))
    effect.attempt = answer.attempt
    return await _carry_out(run, effect)


async def _handler_answer(run: Run, effect: Effect, number: int) -> RecoveryRetried | RecoveryDone | None:
    """Return the answer of the application's recovery handler about an unknown outcome; None asks a person.

    Raises:
        RunEnded: the handler ends the run.
    """
    handler, action = run.ports.recovery_handler, effect.action
    if handler is None:
        return None
    boundary = AgentResumeBoundary(
        action.id, action.kind, AgentActionBoundaryStage.BEFORE, action.idempotency, action.id
    )
    try:
        answer = await run.ports.caller.ask(handler.decide, run.context, boundary)
    except NoAnswerError:
        return None
    match answer:
        case None:
            return None
        case RecoveryRetried():
            # The number of an attempt is the run's to give: no other attempt has had it.
            return replace(answer, action_id=action.id, attempt=number + 1)
        case RecoveryDone():
            known = replace(answer, action_id=action.id)
            return known if fits(effect, known) else None
        case RecoveryFailed(comment=comment):
            words = f"the recovery handler decided that the run failed: {comment or 'no reason given'}"
            raise RunEnded(AgentSituation.FAILED, words)
        case RecoveryCancelled(comment=comment):
            words = f"the recovery handler cancelled the run: {comment or 'no reason given'}"
            raise RunEnded(AgentSituation.CANCELLING, words)


async def _recover(run: Run, effect: Effect, recorded: RecordedAction) -> object:
    """Return the outcome of a recorded effect, or bring it to its end now.

    Raises:
        ToolError: it failed for certain.
        RunInterruption: this attempt at the run ends here.
    """
    recovery = recovery_for(effect.action, recorded, can_reconcile=effect.reconcile is not None)
    if isinstance(recovery, Reuse):
        return _reuse(run, effect, recovery.row)
    if isinstance(effect, Question):
        effect.take_up(recorded.row)
        return await _act(run, effect)
    if not effect.kind.is_call:
        # A reply of a model that could not be recorded is requested again.
        return await _begin(run, effect)
    for stage in run.admission.again[effect.kind]:
        waiting = stage.admit(run, effect)
        if waiting is not None:
            await waiting
    run.spending.absorb(effect.kind.counts)
    if isinstance(recovery, FetchAgain):
        return await _read_again(run, effect)
    effect.attempt, effect.arguments = recovery.attempt, executed_arguments(recorded)
    match recovery:
        case Repeat():
            return await _repeat(run, effect)
        case Reconcile():
            return await _reconciled(run, effect)
        case AskHuman():
            return await _ask_people(run, effect)


def _reuse(run: Run, effect: Effect, row: JournalRow) -> object:
    """Return a recorded outcome: it was paid for, and the program knows it."""
    if effect.kind.counts is not NOTHING:
        run.spending.absorb(effect.kind.counts)
    if effect.kind.is_call:
        run.learn(effect)
        run.learn_inside(effect)
        if effect.descriptor is not None and effect.descriptor.secrets:
            run.secrets_to_recall.append(effect.descriptor)
    return decode_row(row, effect.reuse)


async def _read_again(run: Run, effect: Effect) -> object:
    """Repeat a read with a result that could not be recorded; the program gets it like a recorded one."""
    run.learn(effect)
    try:
        with inside(effect.action.id, effect.task):
            result = await effect.act()
    except (RunInterruption, ToolError):
        raise
    except Exception as error:
        raise ToolError(f"{type(error).__name__}: {error}") from error
    return run.outcomes.as_recorded(effect, result)


async def _repeat(run: Run, effect: Effect) -> object:
    """Make the same attempt again. Its BEFORE row is an old one, so ownership is proven anew."""
    run.mark_running()
    run.outcomes.begin(effect)
    await run.ledger.prove_ownership()
    await run.ensure_lease()
    return await _act(run, effect)


async def _reconciled(run: Run, effect: Effect) -> object:
    """Ask the tool after a crash; an attempt that it does not know of has not happened, and is made now."""
    found = await _reconcile(run, effect)
    if found is _UNKNOWN:
        return await _ask_people(run, effect)
    if found is None:
        return await _repeat(run, effect)
    return _found_out(run, effect, found)

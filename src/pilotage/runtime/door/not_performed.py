"""Effects that are not carried out: refused, waiting for an event outside, or begun with an unknown outcome."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine, Sequence
from dataclasses import replace
from types import NoneType
from typing import Any, NoReturn

from pilotage.agent.recovery import AgentActionBoundaryStage, AgentResumeBoundary
from pilotage.agent.recovery_request import RecoveryCancelled, RecoveryDone, RecoveryFailed, RecoveryRetried
from pilotage.agent.state import AgentSituation
from pilotage.errors import QuestionDeclinedError, ToolError
from pilotage.jsonvalue import JsonObject, JsonValue
from pilotage.runtime.door.hooks import NoAnswerError
from pilotage.runtime.door.run import RefusedError, RejectedError, Run, Stage
from pilotage.runtime.effect import NOTHING, Effect
from pilotage.runtime.journal import stored_words as words
from pilotage.runtime.journal.interruptions import Paused, RunEnded, TriedAgain
from pilotage.runtime.journal.question_record import decode_recovery_answer
from pilotage.runtime.journal.recording import RecordedAction
from pilotage.runtime.journal.recovery import (
    AskHuman,
    Reconcile,
    Recovery,
    Repeat,
    open_actions,
    recovery_for,
)
from pilotage.runtime.people.questions import RecoveryQuestion, recovery_label
from pilotage.runtime.people.requests import fits, is_recovery


async def turned_away(run: Run, effect: Effect, stages: Sequence[Stage], end: BaseException) -> NoReturn:
    """Raise the refusal of a stage, after the stages before it have given their reservations back.

    Raises:
        BaseException: the error that the program gets, or the interruption of the run.
    """
    for stage in stages:
        giving_back = stage.give_back(run, effect)
        if giving_back is not None:
            await giving_back
    try:
        if isinstance(end, RefusedError):
            raise _refused(run, effect, effect.refused(str(end))) from end
        if isinstance(end, RejectedError):
            raise _refused(run, effect, effect.rejected(end.rejection)) from end
        raise end
    finally:
        # The traceback refers to this frame: without the name, both are freed without the collector.
        del end


def _refused(run: Run, effect: Effect, error: BaseException) -> BaseException:
    """Record that an effect must not begin; the record counts, now and in replay."""
    if not isinstance(error, ToolError):
        return error
    if not effect.is_counted and effect.kind.counts is not NOTHING:
        run.spending.absorb(effect.kind.counts)
    run.learn_cut(effect)
    return run.outcomes.ended(effect, error)


async def parked(run: Run, effect: Effect, pause: Paused) -> NoReturn:
    """Wait for an event outside of the run; a question that the program does not wait for any more is withdrawn.

    Raises:
        CancelledError: the program cut the call short.
        RunInterruption: the run pauses, or the attempt is over.
    """
    call = effect.call
    if call is None or run.replay.over is not None or run.replay.liveness.is_ending:
        raise pause
    if effect.when_parked is not None:
        effect.when_parked()
    asked = run.questions.open
    is_unknown = any(is_recovery(asked[wait]) for wait in pause.wait_ids if wait in asked)
    may_withdraw = pause.may_withdraw and not is_unknown
    try:
        await run.replay.park(call, pause, may_withdraw=may_withdraw)
    except asyncio.CancelledError:
        if call.cut_at is not None:
            run.outcomes.cut(effect, run.questions.withdraw(pause.wait_ids))
            await effect.abandon()
        raise
    raise AssertionError("a parked call does not return")


async def until_it_may_act(run: Run, effect: Effect) -> None:
    """Wait for the end of the record, if the effect was entered earlier only to ask about it."""
    if effect.call is not None and effect.call.is_only_asked:
        await run.replay.hold_again(effect.call)


async def until_owned(run: Run, effect: Effect, committed: Coroutine[Any, Any, None]) -> None:
    """Return when a row is committed and the lease is certain.

    The program does not cut a call short here that has acted in an earlier attempt, itself or by calls inside of it.
    """
    call = effect.call
    if call is not None and (call.has_inside or (call.has_begun and not effect.action.may_be_repeated)):
        await run.replay.to_end(_owned(run, committed))
    else:
        await committed
        await run.ensure_lease()


async def _owned(run: Run, committed: Coroutine[Any, Any, None]) -> None:
    await committed
    await run.ensure_lease()


_ANSWERS = (RecoveryRetried, RecoveryDone, RecoveryFailed, RecoveryCancelled, NoneType)


UNKNOWN = object()
"""The answer of a tool that cannot say what became of an attempt."""


def recovery_of(run: Run, effect: Effect, recorded: RecordedAction) -> Recovery:
    """Return how to recover an effect; one that a pause suspended is entered again, over the record of its inside."""
    recovery = recovery_for(effect.action, recorded, can_reconcile=effect.reconcile is not None)
    is_unknown = isinstance(recovery, AskHuman | Reconcile)
    if is_unknown and run.replay.is_suspended(effect.action.id, recorded.attempt):
        return Repeat(recorded.attempt, is_suspended=True)
    return recovery


async def reconcile(run: Run, effect: Effect) -> object:
    """Return the reconciled outcome of an attempt: its result, None if it did not happen, or `UNKNOWN`."""
    if effect.reconcile is None:
        return UNKNOWN
    try:
        found = await effect.reconcile(run.idempotency_key(effect))
        return found if found is None else run.outcomes.outcome_of(effect, found).result
    except Exception:  # noqa: BLE001 - a tool that cannot say leaves it unknown
        return UNKNOWN


async def question_about(run: Run, effect: Effect, attempt: int) -> RecoveryQuestion:
    """Return the question about an attempt with an unknown outcome, with the handler's answer where it gives one.

    Raises:
        RunEnded: the handler ends the run.
    """
    known = None
    late: tuple[JsonValue, ...] = ()
    if not run.replay.knows(f"{effect.action.id}/{recovery_label(attempt)}"):
        known = await _handler_answer(run, effect, attempt)
        if known is None and run.outcomes.late is not None:
            late = await run.outcomes.late.about(effect.action.id, attempt)
    question = RecoveryQuestion(run.questions, effect, attempt, late, known)
    question.inside = open_actions(run.replay, effect.action.id)
    return question


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
        answer = await run.ports.caller.ask(_ANSWERS, handler.decide, run.context, boundary)
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
            reason = f"the recovery handler decided that the run failed: {comment or 'no reason given'}"
            raise RunEnded(AgentSituation.FAILED, reason)
        case RecoveryCancelled(comment=comment):
            reason = f"the recovery handler cancelled the run: {comment or 'no reason given'}"
            raise RunEnded(AgentSituation.CANCELLING, reason)


def tried_again(run: Run, effect: Effect) -> TriedAgain:
    """Leave a call to the next attempt, which enters it again over the calls that it made in this one."""
    run.outcomes.leave_unknown(effect)
    at = run.ports.clock.now().isoformat()
    return TriedAgain(reason=f"{effect.action.name!r} is tried again", facts={words.WAKE_AT: at})


def refuse_declined(run: Run, effect: Effect, answer: JsonObject) -> None:
    """Record that a person declined to answer a question of the program.

    Raises:
        QuestionDeclinedError: that is the answer.
    """
    declined = decode_recovery_answer(answer)
    if isinstance(declined, RecoveryFailed):
        run.learn_given(effect)
        raise run.outcomes.failed(effect, QuestionDeclinedError(declined.comment or "no reason given"))


def record_given(run: Run, effect: Effect, result: object) -> object:
    """Record a result that a reconciler or a person gave, as if the call had just returned it."""
    run.outcomes.close_inside(effect.action.id)
    run.learn_given(effect)
    return run.outcomes.done(effect, result).result

"""Recovery of unknown outcomes: the tool's reconciler, then the application's recovery handler, then a person."""

from __future__ import annotations

from dataclasses import replace
from types import NoneType

from pilotage.agent.recovery import AgentActionBoundaryStage, AgentResumeBoundary
from pilotage.agent.recovery_request import (
    RecoveryCancelled,
    RecoveryDone,
    RecoveryFailed,
    RecoveryRetried,
)
from pilotage.agent.state import AgentSituation
from pilotage.jsonvalue import JsonValue
from pilotage.runtime.door.hooks import NoAnswerError
from pilotage.runtime.door.run import Run
from pilotage.runtime.effect import Effect
from pilotage.runtime.journal import stored_words as words
from pilotage.runtime.journal.interruptions import RunEnded, TriedAgain
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
from pilotage.runtime.people.requests import fits

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


def record_given(run: Run, effect: Effect, result: object) -> object:
    """Record a result that a reconciler or a person gave, as if the call had just returned it."""
    run.outcomes.close_inside(effect.action.id)
    run.learn_given(effect)
    return run.outcomes.done(effect, result).result

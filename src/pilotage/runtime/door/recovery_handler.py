"""The application's recovery handler: answers a question about an unknown outcome before a person is asked."""

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
from pilotage.runtime.door.hooks import NoAnswerError
from pilotage.runtime.door.run import Run
from pilotage.runtime.effect import Effect
from pilotage.runtime.journal import stored_words as words
from pilotage.runtime.journal.interruptions import RunEnded, TriedAgain
from pilotage.runtime.people.requests import fits

_ANSWERS = (RecoveryRetried, RecoveryDone, RecoveryFailed, RecoveryCancelled, NoneType)


async def handler_answer(run: Run, effect: Effect, number: int) -> RecoveryRetried | RecoveryDone | None:
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

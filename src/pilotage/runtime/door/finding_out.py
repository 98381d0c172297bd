"""What became of an action that nobody wrote down: the tool may know, a handler, a late owner, else a person."""

from __future__ import annotations

from pilotage.agent.recovery_request import RecoveryDone, RecoveryRetried
from pilotage.jsonvalue import JsonValue
from pilotage.runtime.actions.call import Attempt, Call
from pilotage.runtime.door.late_outcomes import LateOutcomes
from pilotage.runtime.door.questions import fits
from pilotage.runtime.door.waits import Waits
from pilotage.runtime.gate.gate import Gate


class Unknown:
    """Nobody can say whether it happened."""


async def asked_of_its_tool(call: Call, attempt: Attempt) -> object:
    """What the tool knows of an attempt: its result, None for what has not happened, `Unknown` where it cannot say."""
    if call.reconcile is None:
        return Unknown()
    try:
        return await call.reconcile(attempt.idempotency_key)
    except Exception:  # noqa: BLE001 - who cannot say leaves it unknown
        return Unknown()


async def asked_of_people(
    call: Call, attempt: int, waits: Waits, gate: Gate, late: LateOutcomes | None
) -> RecoveryRetried | RecoveryDone:
    """What the application's handler or a person says of an attempt.

    Raises:
        Paused: nobody has said anything yet.
        RunEnded: the answer ends the run.
    """
    if not waits.is_new(call, attempt):
        return waits.recovered(call, attempt)
    answer = await gate.recovery_answer(call, attempt)
    if answer is not None and (not isinstance(answer, RecoveryDone) or fits(call, answer)):
        waits.answered_by_handler(call, attempt, answer)
        return answer
    told: tuple[JsonValue, ...] = () if late is None else await late.about(call.action.id, attempt)
    return waits.recovered(call, attempt, told)

"""An action that an earlier attempt at the run has begun: reused, or brought to its end."""

from __future__ import annotations

from pilotage.agent.ports.journal import JournalRow
from pilotage.agent.recovery import AgentActionKind
from pilotage.errors import ToolError
from pilotage.runtime.actions.call import Attempt, Call
from pilotage.runtime.actions.interruptions import RunInterruption
from pilotage.runtime.actions.scope import inside
from pilotage.runtime.door.doing import act, ask_people, begin, found_out
from pilotage.runtime.door.effects import Effects
from pilotage.runtime.door.finding_out import Unknown, asked_of_its_tool
from pilotage.runtime.door.outcomes import executed_arguments, recorded_result
from pilotage.runtime.gate.spending import ONE_TOOL_CALL
from pilotage.runtime.journal.recording import RecordedAction
from pilotage.runtime.journal.recovery import (
    AskHuman,
    Begin,
    FetchAgain,
    Reconcile,
    Repeat,
    Reuse,
    recovery_for,
)


async def recovered(effects: Effects, call: Call, recorded: RecordedAction) -> object:
    """What came of a recorded action, or comes of it now.

    Raises:
        ToolError: it failed for certain.
        RunInterruption: this attempt at the run ends here.
    """
    recovery = recovery_for(call.action, recorded, can_reconcile=call.reconcile is not None)
    if isinstance(recovery, Reuse):
        return _reused(effects, call, recovery.row)
    if effects.switches is not None:
        await effects.switches.check(call.tool_name)
    if not isinstance(recovery, Begin) and call.action.kind is AgentActionKind.TOOL_CALL:
        effects.spending.absorb(ONE_TOOL_CALL)
    match recovery:
        case FetchAgain():
            effects.know(call)
            return await _read_again(effects, call)
        case Begin():
            effects.begin_anew()
            return await begin(effects, call)
        case Repeat(number):
            return await _again(effects, call, _taken_up(effects, call, number, recorded))
        case Reconcile(number):
            return await _reconciled(effects, call, _taken_up(effects, call, number, recorded))
        case AskHuman(number):
            return await ask_people(effects, call, _taken_up(effects, call, number, recorded))


def _taken_up(effects: Effects, call: Call, number: int, recorded: RecordedAction) -> Attempt:
    """The attempt that was under way, with the arguments it was begun with; the time must allow it."""
    effects.check_time()
    return effects.attempt(call, number, executed_arguments(recorded))


def _reused(effects: Effects, call: Call, row: JournalRow) -> object:
    """What came of a call that was done: it was paid for, and the program knows it."""
    if call.action.kind is AgentActionKind.TOOL_CALL:
        effects.spending.absorb(ONE_TOOL_CALL)
    effects.know(call)
    effects.know_inside(call)
    if call.descriptor is not None and call.descriptor.secrets:
        effects.unrecalled.append(call.descriptor)
    return recorded_result(call, row)


async def _read_again(effects: Effects, call: Call) -> object:
    """What was read before, once more: the program gets it as it would have got the recorded one."""
    try:
        with inside(call.action.id):
            result = await call.act(effects.attempt(call, 1, None))
    except (RunInterruption, ToolError):
        raise
    except Exception as error:
        raise ToolError(f"{type(error).__name__}: {error}") from error
    return effects.outcomes.as_recorded(call, result)


async def _again(effects: Effects, call: Call, attempt: Attempt) -> object:
    """The same attempt once more. Its BEFORE row is an old one, so ownership is proven anew."""
    effects.go_on()
    effects.outcomes.begin(call, attempt.number)
    await effects.ledger.prove()
    await effects.be_sure()
    return await act(effects, call, attempt)


async def _reconciled(effects: Effects, call: Call, attempt: Attempt) -> object:
    """After a crash: the tool may know; what it does not know of has not happened, and is done now."""
    found = await asked_of_its_tool(call, attempt)
    match found:
        case Unknown():
            return await ask_people(effects, call, attempt)
        case None:
            return await _again(effects, call, attempt)
        case _:
            return found_out(effects, call, attempt, found)

"""One action from the gate to its outcome: ask who must be asked, write it down, do it, write down what came of it.

Barriers only where the rules of durability want them.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable

from pilotage.agent.ports.journal import JournalStage
from pilotage.agent.recovery import AgentActionKind
from pilotage.agent.recovery_request import RecoveryDone
from pilotage.agent.state import AgentStatus
from pilotage.errors import ToolError
from pilotage.jsonvalue import JsonObject
from pilotage.runtime.actions.call import Attempt, Call
from pilotage.runtime.actions.interruptions import Paused, RunInterruption
from pilotage.runtime.actions.scope import inside
from pilotage.runtime.door.effects import Effects
from pilotage.runtime.door.finding_out import Unknown, asked_of_its_tool, asked_of_people
from pilotage.runtime.gate.spending import NOTHING, ONE_TOOL_CALL
from pilotage.runtime.gate.verdicts import Ask, Deny, GateVerdict


def begin(effects: Effects, call: Call) -> Awaitable[object]:
    """Do something for the first time; what is not allowed, or has to wait for a person, never begins."""
    if not effects.gate.is_open:
        return _begin_behind_the_gate(effects, call)
    _count(effects, call)
    arguments = _allowed(effects, call, effects.gate.trusts(call, effects.trust))
    return _begin(effects, call, effects.attempt(call, 1, arguments))


async def _begin_behind_the_gate(effects: Effects, call: Call) -> object:
    is_tool = call.action.kind is AgentActionKind.TOOL_CALL
    reserved = await effects.gate.reserve(ONE_TOOL_CALL) if is_tool else None
    used = NOTHING
    try:
        _count(effects, call)
        was_asked = effects.was_asked(call.action.id)
        verdict = await effects.gate.before_call(call, effects.trust, was_asked=was_asked)
        arguments = _allowed(effects, call, verdict)
        used = ONE_TOOL_CALL
    finally:
        # Before it begins: the row that says so and what it takes out of the budget are one commit.
        await effects.gate.settle(reserved, used)
    return await _begin(effects, call, effects.attempt(call, 1, arguments))


def _count(effects: Effects, call: Call) -> None:
    if call.action.kind is AgentActionKind.TOOL_CALL and not call.is_reserved:
        effects.spending.reserve_tool_calls()
        if effects.warnings is not None:
            effects.warnings.look_at(effects.spending)


def _allowed(effects: Effects, call: Call, verdict: GateVerdict) -> JsonObject | None:
    """Return when the gate and, where one is needed, a person allow the call: with other arguments, if any."""
    if isinstance(verdict, Deny):
        raise effects.outcomes.refused(call, verdict.reason)
    if call.needs_approval or isinstance(verdict, Ask) or effects.was_asked(call.action.id):
        return effects.waits.approved_arguments(call, 1, verdict)
    return None


def _begin(effects: Effects, call: Call, attempt: Attempt) -> Awaitable[object]:
    if call.is_deferred:
        return _given(effects, call, attempt)
    effects.go_on()
    return act(effects, call, attempt) if call.action.is_read_only else _written_down(effects, call, attempt)


async def _given(effects: Effects, call: Call, attempt: Attempt) -> object:
    """What came of a call that is somebody else's to carry out: nothing is dispatched, and nothing is unknown."""
    result = call.decode(effects.waits.given_result(call).result)
    effects.know(call)
    _, given = effects.outcomes.done(call, attempt.number, result)
    return given


async def _written_down(effects: Effects, call: Call, attempt: Attempt) -> object:
    record, view = {"asked": call.action.asked}, {"asked": call.action.view}
    if attempt.arguments is not None:
        record["executed"], view["executed"] = attempt.arguments, call.shown(attempt.arguments)
    effects.ledger.append(call.action, JournalStage.BEFORE, attempt.number, record, view, call.descriptor)
    if call.begins is not None:
        effects.ledger.report(call.begins)
    return await _dispatch(effects, call, attempt)


async def _dispatch(effects: Effects, call: Call, attempt: Attempt) -> object:
    """Do what is written down, once that is kept and the run is certainly still ours."""
    effects.outcomes.begin(call, attempt.number)
    await effects.ledger.barrier()
    await effects.be_sure()
    return await act(effects, call, attempt)


async def act(effects: Effects, call: Call, attempt: Attempt) -> object:
    """Carry a call out, and write down what came of it.

    Raises:
        ToolError: it failed for certain.
        RunInterruption: this attempt at the run ends here; also where nobody knows what came of the call.
    """
    try:
        with inside(call.action.id):
            acting, observer = call.act(attempt), effects.observer
            result = await (acting if observer.is_idle else observer.observed(call.action, acting))
    except RunInterruption:
        raise
    except ToolError as error:
        effects.know(call)
        raise effects.outcomes.failed(call, attempt.number, error) from error.__cause__
    except asyncio.CancelledError:
        _leave_to_a_person(effects, call, attempt)
        raise
    except Exception as error:
        if call.action.may_be_repeated:
            raise effects.outcomes.failed(call, attempt.number, error) from error
        return await _find_out(effects, call, attempt)
    view, given = effects.outcomes.done(call, attempt.number, result)
    effects.know(call)
    if not effects.gate.is_open:
        await effects.gate.after_call(call, view)
    return given


def _leave_to_a_person(effects: Effects, call: Call, attempt: Attempt) -> None:
    """A call that was cut short may have taken effect: whoever cut it short must not go on as if it had not."""
    is_ending = effects.ledger.state.status is AgentStatus.CANCELLING or effects.liveness.is_ending
    if call.action.may_be_repeated or is_ending:
        return
    try:
        effects.waits.recovered(call, attempt.number)
    except Paused as pause:
        effects.liveness.pause(call.scope, pause)
        effects.liveness.end(pause)


async def _find_out(effects: Effects, call: Call, attempt: Attempt) -> object:
    """After an exception that says nothing: the tool may know, else a person must."""
    found = await asked_of_its_tool(call, attempt)
    match found:
        case Unknown():
            return await ask_people(effects, call, attempt)
        case None:
            error = ToolError(f"{call.action.name!r} did not take effect")
            raise effects.outcomes.failed(call, attempt.number, error)
        case _:
            return found_out(effects, call, attempt, found)


def found_out(effects: Effects, call: Call, attempt: Attempt, result: object) -> object:
    """Somebody knows what came of a call: written down, it is as if the call had just given it."""
    effects.know(call)
    effects.outcomes.done(call, attempt.number, result)
    return result


async def ask_people(effects: Effects, call: Call, attempt: Attempt) -> object:
    """What came of a call that only a person can tell about, or of doing it once more, if that is the answer."""
    late = effects.outcomes.late
    answer = await asked_of_people(call, attempt.number, effects.waits, effects.gate, late)
    if isinstance(answer, RecoveryDone):
        return found_out(effects, call, attempt, call.decode(answer.result))
    return await _begin(effects, call, effects.attempt(call, answer.attempt, attempt.arguments))

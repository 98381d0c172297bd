"""What became of an action that nobody wrote down: the tool may know, a handler, a late owner, else a person."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Sequence

from pilotage.agent.ports.journal import JournalRow, JournalStage
from pilotage.agent.recovery import AgentActionKind
from pilotage.agent.recovery_request import RecoveryDone, RecoveryRetried
from pilotage.agent.state import AgentStatus
from pilotage.errors import ToolError
from pilotage.jsonvalue import JsonObject, JsonValue
from pilotage.runtime.budget.spending import NOTHING, ONE_TOOL_CALL
from pilotage.runtime.door.admission import Gate
from pilotage.runtime.door.outcome import LateOutcomes, executed_arguments, recorded_result
from pilotage.runtime.door.run import Effects
from pilotage.runtime.effect import Attempt, Call
from pilotage.runtime.journal.interruptions import Paused, RunInterruption
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
from pilotage.runtime.journal.scope import inside
from pilotage.runtime.people.questions import Ask, Deny, GateVerdict, fits
from pilotage.runtime.people.waiting import Questions


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
    call: Call, attempt: int, waits: Questions, gate: Gate, late: LateOutcomes | None
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


async def perform(effects: Effects, call: Call) -> object:
    """The result of an action: the recorded one, or that of doing it now.

    Raises:
        ToolError: the action failed for certain.
        RunInterruption: this attempt at the run ends here.
    """
    effects.liveness.begin(call.scope)
    try:
        if effects.open_streams:
            for stream in effects.open_streams_at(call.scope.path):
                await stream.drain()
        if effects.handling is not None and not call.action.is_read_only:
            await effects.handling.before(call.action.id)
        recorded = effects.recording.take(call.action) if effects.has_record else None
        if recorded is not None:
            result = await recovered(effects, call, recorded)
        else:
            if effects.switches is not None:
                await effects.switches.check(call.tool_name)
            effects.begin_anew()
            result = await begin(effects, call)
    except BaseException as end:
        effects.liveness.ended(call.scope, end)
        raise
    effects.liveness.ended(call.scope)
    return result


def ask_ahead(effects: Effects, calls: Sequence[Call]) -> None:
    """Ask people about calls that must wait for another one, so that all can be answered at once."""
    for call in calls:
        if effects.recording.knows(call.action.id):
            continue
        if call.needs_approval:
            effects.waits.ask_only(call)
        elif call.is_deferred:
            effects.waits.ask_for_result(call)

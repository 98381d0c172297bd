"""The one way to the world: `perform` looks an effect up in the record, admits it, records it and carries it out.

Barriers stand only where the rules of durability need them: before an effect that is not read-only begins, its own row
and everything before it are committed.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from contextlib import nullcontext
from typing import Any

from pilotage.agent.ports.persistence import JournalRow
from pilotage.agent.recovery_request import RecoveryDone
from pilotage.agent.state import AgentStatus
from pilotage.errors import ToolError
from pilotage.runtime.budget.spending import count_rows
from pilotage.runtime.door.hooks import Hooks
from pilotage.runtime.door.not_performed import (
    UNKNOWN,
    parked,
    question_about,
    reconcile,
    record_given,
    recovery_of,
    refuse_declined,
    tried_again,
    turned_away,
    until_it_may_act,
    until_owned,
)
from pilotage.runtime.door.outcome import UnfitResultError, executed_arguments
from pilotage.runtime.door.result_media import may_have_media, with_stored_media
from pilotage.runtime.door.run import Run
from pilotage.runtime.effect import MODEL_CALL, NO_OUTCOME, QUESTION, Effect, Outcome
from pilotage.runtime.journal.interruptions import Paused, RecordDamaged, RunInterruption, damage_of
from pilotage.runtime.journal.positions import Call
from pilotage.runtime.journal.record_fields import DamagedRecordError, decode_row
from pilotage.runtime.journal.recording import RecordedAction
from pilotage.runtime.journal.recovery import AskHuman, FetchAgain, Reconcile, Repeat, Reuse
from pilotage.runtime.journal.result_codec import without_cause
from pilotage.runtime.journal.scope import enter_call, leave
from pilotage.runtime.people.questions import (
    ApprovalQuestion,
    Question,
    RecoveryQuestion,
    ResultQuestion,
    obey_recovery,
)
from pilotage.runtime.people.requests import fits

# Looking a member up costs as much as a call.
_INTERRUPTED = AgentStatus.INTERRUPTED


async def perform(run: Run, effect: Effect) -> Any:
    """Return the result of an effect: the recorded one, or that of carrying it out now.

    Raises:
        ToolError: the effect failed for certain.
        RunInterruption: this attempt at the run ends here.
    """
    kind, scope = effect.kind, effect.scope
    if not kind.is_tracked:
        run.ledger.check_alive()
        return await _outcome(run, effect)
    if run.read_signals is not None and run.ledger.has_unread:
        await run.read_signals()
    liveness = run.replay.liveness
    effect.task = liveness.begin(scope.path)
    try:
        if kind.is_call and run.open_streams:
            for stream in run.streams_at(scope.path):
                await stream.drain()
        if effect.call is not None:
            result = await _perform_call(run, effect, effect.call)
        else:
            # No call of a durable program: of an ephemeral run, or of the runtime itself.
            if run.at_boundary is not None:
                await _take_signals_in(run.at_boundary, effect)
            if run.replay.shields:
                run.replay.strike(effect.task)
            result = await _outcome(run, effect)
    except DamagedRecordError as error:
        # No exception for the program: it must not take a damaged record for a failed call.
        damaged = RecordDamaged(damage_of(error))
        liveness.ended(damaged)
        raise damaged from error
    except BaseException as end:
        liveness.ended(end)
        without_cause(end)
        raise
    liveness.ended()
    return result


def _outcome(run: Run, effect: Effect) -> Awaitable[object]:
    """Return the recorded outcome of an effect, or that of carrying it out."""
    recorded = run.replay.take(effect.action) if run.replay.has_record else None
    return _begin(run, effect) if recorded is None else _recover(run, effect, recorded)


async def _perform_call(run: Run, effect: Effect, call: Call) -> object:
    """Return the outcome of a call of the program: the recorded one in its turn, or that of carrying it out.

    A call that waits for an event outside of the run is parked: it does not return in this attempt.
    """
    replay = run.replay
    try:
        if run.at_boundary is not None and call.identity is not None:
            await _take_signals_in(run.at_boundary, effect)
        is_early = effect.is_replayed_early and call.end is not None
        if replay.ask(call, effect.task) is None and not is_early:
            await replay.wait(call)
        if run.at_boundary is not None and call.identity is None:
            await _take_signals_in(run.at_boundary, effect)
        row = None if call.end is None else replay.reusable(effect.action)
        result = await _outcome(run, effect) if row is None else _reused(run, effect, row)
    except Paused as pause:
        await parked(run, effect, pause)
    except asyncio.CancelledError:
        if call.end is not None:
            # It was cut short in an earlier attempt: what it had used by then counts.
            count_rows([call.end.outcome], run.spending)
            run.learn_record(effect, call.end.outcome)
        elif replay.cut(call, has_acted=effect.has_acted):
            run.learn_cut(effect)
            run.outcomes.cut(effect)
            await effect.abandon()
        raise
    except Exception:
        replay.forget(call)
        await replay.turn(call)
        raise
    if call.takes_turn:
        await replay.turn(call)
    return result


async def perform_again(run: Run, effect: Effect) -> Any:
    """Carry out a call once more that is under way: it is admitted again, and keeps its position.

    Raises:
        RunInterruption: this attempt at the run ends here.
    """
    liveness = run.replay.liveness
    effect.task = liveness.begin(effect.scope.path)
    try:
        result = await _begin(run, effect)
    except BaseException as end:
        liveness.ended(end)
        if effect.call is not None and isinstance(end, Exception):
            await run.replay.turn(effect.call)
        raise
    liveness.ended()
    return result


async def _take_signals_in(at_boundary: Callable[[Effect], Awaitable[None]], effect: Effect) -> None:
    """Take signals in before a call that is not read-only."""
    if effect.kind.is_call and not effect.action.is_read_only:
        await at_boundary(effect)


def ask_ahead(run: Run, effects: Sequence[Effect]) -> None:
    """Ask the questions about effects that must wait for another one, so that all can be answered at once."""
    for effect in effects:
        if effect.is_asked_ahead or run.replay.knows(effect.action.id):
            continue
        effect.is_asked_ahead = True
        if effect.ask is not None:
            _put(run, ApprovalQuestion(run.questions, effect, effect.ask, run.admission.terms(run)))
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
    run.questions.wait_for(question)


def _begin(run: Run, effect: Effect, first: int = 0) -> Awaitable[object]:
    """Carry an effect out for the first time, once all stages that look at it let it pass; from a stage on."""
    if run.events.is_replaying and not effect.has_row:
        run.go_live()
    if run.secrets_to_recall and run.recall_secrets is not None:
        # New records begin here, and they may repeat texts that were replayed.
        return _after(run.recall_secrets(), _begin, run, effect, first)
    stage, stages = None, run.admission.stages[effect.kind]
    try:
        for stage in stages[first:] if first else stages:
            waiting = stage.admit(run, effect)
            if waiting is not None:
                return _pass_later(run, effect, stages.index(stage), waiting)
    except BaseException as end:  # noqa: BLE001 - raised again, once the stages before have their reservations back
        return turned_away(run, effect, stages[: stages.index(stage)] if stage else (), end)
    if effect.reservation is not None and effect.kind.is_call:
        # Before it begins: where the journal settles the budget, its BEFORE row and the settlement are one commit.
        return _after(effect.settle(effect.kind.counts), _carry_out, run, effect)
    return _carry_out(run, effect)


async def _after(waiting: Awaitable[None], then: Callable[..., Awaitable[object]], *given: Any) -> object:
    """Return the outcome of a function that is called when something else is over."""
    await waiting
    return await then(*given)


async def _pass_later(run: Run, effect: Effect, number: int, waiting: Awaitable[None]) -> object:
    """Carry an effect out when a stage lets it pass that has to wait, and all stages after it."""
    try:
        await waiting
    except BaseException as end:  # noqa: BLE001 - raised again
        await turned_away(run, effect, run.admission.stages[effect.kind][:number], end)
    return await _begin(run, effect, number + 1)


def _carry_out(run: Run, effect: Effect) -> Awaitable[object]:
    """Begin an effect that is admitted: recorded before it acts, unless it only reads."""
    kind = effect.kind
    if kind.is_call and effect.is_deferred:
        return _result_from_caller(run, effect)
    if run.ledger.state.status is _INTERRUPTED and (kind.is_call or kind is MODEL_CALL):
        run.mark_running()
    if not effect.action.is_read_only:
        run.outcomes.write_before(effect)
        if kind is not QUESTION:
            return _dispatch(run, effect)
    return _act(run, effect)


async def _dispatch(run: Run, effect: Effect) -> object:
    """Perform an effect that is recorded as begun, once the row is committed and the lease is certain."""
    run.outcomes.begin(effect)
    await until_owned(run, effect, run.ledger.barrier())
    return await _act(run, effect)


async def _result_from_caller(run: Run, effect: Effect) -> object:
    """Return the result of a call that the caller of the run carries out: nothing is dispatched, nothing unknown."""
    record = await perform(run, ResultQuestion(run.questions, effect))
    if effect.wanted is not None:
        refuse_declined(run, effect, record)
    answer = obey_recovery(record)
    if not isinstance(answer, RecoveryDone):
        raise TypeError(f"a deferred call is answered with its result, not with {type(answer).__name__}")
    given = effect.codec.decode(answer.result)
    return record_given(
        run, effect, await with_stored_media(run, effect, given) if effect.codec.has_media else given
    )


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
        effect.has_acted, effect.under = True, run.trust
        if run.replay.shields and not effect.action.may_be_repeated:
            result = await run.replay.to_end(_acting(run, effect))
        else:
            result = await _acting(run, effect, effect.task)
    except RunInterruption:
        raise
    except ToolError as error:
        run.learn(effect)
        raise run.outcomes.failed(effect, error) from error
    except asyncio.CancelledError as error:
        if effect.task is None or effect.task.cancelling():
            run.note_stopped(effect)
            await _leave_to_people(run, effect)
            raise
        return await _outcome_of_error(run, effect, error)
    except Exception as error:  # noqa: BLE001 - any error of a tool is an outcome, or leaves it unknown
        return await _outcome_of_error(run, effect, error)
    run.learn(effect)
    try:
        if not run.outcomes.has_readers:
            return run.outcomes.unread(effect, result)
        outcome = run.outcomes.done(effect, result)
    except UnfitResultError as unfit:
        return await _outcome_of_error(run, effect, unfit)
    if run.hooks is not None:
        await _show_hooks(run, run.hooks, effect, outcome)
    return outcome.result


async def _acting(run: Run, effect: Effect, task: asyncio.Task[object] | None = None) -> object:
    """Carry a call of the program out in a task, by default this one; the calls that it makes are inside of it."""
    around = enter_call(effect.action.id, task or asyncio.current_task(), effect.call, effect.scope.skipped)
    try:
        acting, telemetry = effect.act(), run.telemetry
        result = await (acting if telemetry.is_idle else telemetry.observed(effect.action, acting))
        return await with_stored_media(run, effect, result) if may_have_media(effect) else result
    finally:
        leave(around)


async def _outcome_of_error(run: Run, effect: Effect, error: Exception | asyncio.CancelledError) -> object:
    """Record an error that says nothing about the effect as a failure, or as an unknown outcome."""
    if isinstance(error, UnfitResultError):
        effect.doubt = str(error)
        error = ToolError(str(error))
    if effect.action.may_be_repeated:
        run.learn(effect)
        raise run.outcomes.failed(effect, error) from error
    run.outcomes.failure_of(effect, error)
    return await _find_out(run, effect)


async def _show_hooks(run: Run, hooks: Hooks, effect: Effect, outcome: Outcome) -> None:
    """Show hooks an outcome that is recorded, before the program and before any further outcome."""
    call = effect.call
    keeping = run.replay.holding_turn(call) if call is not None and call.takes_turn else nullcontext()
    with keeping:
        await hooks.after_call(run.context, effect, outcome.view)


async def _leave_to_people(run: Run, effect: Effect) -> None:
    """End an ephemeral run with a cancelled call that may have taken effect: no question can be asked about it."""
    is_ending = run.ledger.state.status is AgentStatus.CANCELLING or run.replay.liveness.is_ending
    if effect.call is None and not effect.action.may_be_repeated and not is_ending:
        await perform(run, RecoveryQuestion(run.questions, effect, effect.attempt))


async def _find_out(run: Run, effect: Effect) -> object:
    """Determine the unknown outcome of a call that raised: ask the tool's reconciler, else a person."""
    found = await reconcile(run, effect)
    if found is UNKNOWN:
        return await _ask_people(run, effect)
    if found is None:
        run.learn(effect)
        raise run.outcomes.failed(effect, ToolError(f"{effect.action.name!r} did not take effect"))
    return record_given(run, effect, found)


async def _ask_people(run: Run, effect: Effect) -> object:
    """Return the result of a call with an unknown outcome, from its handler, an answer or a repetition."""
    answer = run.replay.answer_inside(effect.action.id, effect.attempt)
    if answer is None or (isinstance(answer, RecoveryDone) and not fits(effect, answer)):
        answer = obey_recovery(await perform(run, await question_about(run, effect, effect.attempt)))
    await until_it_may_act(run, effect)
    if isinstance(answer, RecoveryDone):
        return record_given(run, effect, effect.codec.decode(answer.result))
    run.replay.answers_inside().update({each.action_id: each for each in answer.inside})
    if effect.call is not None and effect.call.has_made:
        raise tried_again(run, effect)
    effect.attempt = answer.attempt
    return await _carry_out(run, effect)


def _reused(run: Run, effect: Effect, row: JournalRow) -> object:
    """Return the outcome in a recorded row, and count it."""
    run.count_reused(effect, row)
    return decode_row(row, effect.reuse)


async def _recover(run: Run, effect: Effect, recorded: RecordedAction) -> object:
    """Return the outcome of a recorded effect, or bring it to its end now.

    Raises:
        ToolError: it failed for certain.
        RunInterruption: this attempt at the run ends here.
    """
    recovery = recovery_of(run, effect, recorded)
    if isinstance(recovery, Reuse):
        return _reused(run, effect, recovery.row)
    if isinstance(effect, Question):
        effect.take_up(recorded.row)
        return await _act(run, effect)
    if not effect.kind.is_call:
        # A reply of a model that could not be recorded is requested again.
        effect.has_row = True
        return await _begin(run, effect)
    for stage in run.admission.again[effect.kind]:
        waiting = stage.admit(run, effect)
        if waiting is not None:
            await waiting
    run.spending.absorb(effect.kind.counts)
    if isinstance(recovery, FetchAgain):
        return await _read_again(run, effect)
    effect.attempt = recovery.attempt
    effect.repeat_with(executed_arguments(effect, recorded))
    match recovery:
        case Repeat(is_suspended=is_suspended):
            return await _repeat(run, effect, is_suspended=is_suspended)
        case Reconcile():
            return await _reconciled(run, effect)
        case AskHuman():
            return await _ask_people(run, effect)


async def _read_again(run: Run, effect: Effect) -> object:
    """Repeat a read with a result that could not be recorded; the program gets it like a recorded one."""
    run.learn(effect)
    try:
        result = await _acting(run, effect)
    except (RunInterruption, ToolError):
        raise
    except Exception as error:
        failure = run.outcomes.failure_of(effect, error)
        raise (
            ToolError(f"{type(error).__name__}: {error}") if failure is None else failure.raised()
        ) from error
    return run.outcomes.outcome_of(effect, result).result


async def _repeat(run: Run, effect: Effect, *, is_suspended: bool = False) -> object:
    """Make the same attempt again. Its BEFORE row is an old one, so ownership is proven anew."""
    await until_it_may_act(run, effect)
    run.mark_running()
    run.outcomes.begin(effect, is_entered_again=is_suspended)
    proving = run.ledger.prove_ownership(effect.action.id if is_suspended else None)
    await until_owned(run, effect, proving)
    return await _act(run, effect)


async def _reconciled(run: Run, effect: Effect) -> object:
    """Ask the reconciler after a crash; an attempt that the tool does not know has not happened, and is made now."""
    found = await reconcile(run, effect)
    if found is UNKNOWN:
        return await _ask_people(run, effect)
    await until_it_may_act(run, effect)
    if found is None:
        return await _repeat(run, effect)
    return record_given(run, effect, found)

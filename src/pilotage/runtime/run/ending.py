"""Every way in which an attempt at a run can end: each is one commit, then the last event for its readers.

Tasks that still run when the program has ended may complete before the deadline of the run; then they are cancelled.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Collection, Sequence
from dataclasses import replace

from pilotage.agent.events import RunFinishedEvent
from pilotage.agent.media_places import media_within
from pilotage.agent.ports.budget import BudgetAmount
from pilotage.agent.ports.conversations import ConversationTurns, ITaskStore
from pilotage.agent.ports.handlers import AgentOutputGuardProfile, IAgentOutputGuard
from pilotage.agent.run_values import RunResult
from pilotage.agent.state import AgentSituation, AgentState, AgentStateReason, AgentStatus
from pilotage.errors import AgentOutputGuardError
from pilotage.filling import unchecked
from pilotage.jsonvalue import JsonObject, JsonValue
from pilotage.runtime.budget.limits import remaining, timed_out
from pilotage.runtime.door.run import Run
from pilotage.runtime.journal.interruptions import (
    CancelledMeanwhile,
    LimitReached,
    Paused,
    RunDiverged,
    RunEnded,
    RunHandedOver,
    RunInterruption,
    SealMissing,
)
from pilotage.runtime.journal.media import RunMedia
from pilotage.runtime.journal.records import Answer, encode_result
from pilotage.runtime.journal.stored_words import ACTION_ID
from pilotage.runtime.people.requests import is_recovery
from pilotage.runtime.results import cancellation_error
from pilotage.runtime.run.cancel import (
    Cleanup,
    despite_signals,
    end_children,
    finish_cancellation,
    record_audit,
)
from pilotage.runtime.run.conversation import append_turns_after, turns_of
from pilotage.runtime.run.pausing import Pausing, running
from pilotage.runtime.run.publish import OutputCheck, Publisher
from pilotage.safety.fields import SensitiveFieldDescriptor
from pilotage.values import value

_new_result, _run_finished = unchecked(RunResult), unchecked(RunFinishedEvent)


class RemainingTasks:
    """Waits for the other tasks of one attempt."""

    def __init__(self, run: Run) -> None:
        self.is_waiting = False
        self._run = run
        self._awaited: Collection[asyncio.Task[object]] = ()

    async def wait(self) -> None:
        """Wait until all tasks have ended or wait for an answer.

        Raises:
            LimitReached: the time of the run is up; they have been stopped.
        """
        if siblings := self._run.replay.liveness.siblings():
            await self._in_time(asyncio.wait(siblings))

    async def settle(self, end: RunInterruption, *, at_once: bool = False) -> None:
        """Refuse new calls, and return when none is under way any more.

        Raises:
            CancelledMeanwhile: the run was cancelled in the meantime.
            LimitReached: the time of the run is up; what was under way has been stopped.
        """
        liveness = self._run.replay.liveness
        liveness.end(end)
        liveness.wake(end)
        if at_once:
            await self.stopped()
        if liveness.under_way:
            await self._in_time(liveness.quiesce(end))
        elif self._run.ledger.state.status is AgentStatus.CANCELLING:
            raise CancelledMeanwhile

    async def stopped(self) -> None:
        """Stop them, and return when they are."""
        siblings = self._awaited = self._run.replay.liveness.siblings()
        self.stop()
        if siblings:
            await asyncio.wait(siblings)

    def stop(self) -> None:
        """Stop the tasks that are waited for."""
        self._run.replay.liveness.stopping()
        for task in self._awaited:
            task.cancel()

    async def _in_time(self, rest: Awaitable[object]) -> None:
        self.is_waiting = True
        try:
            await self._before_deadline(rest)
        finally:
            self.is_waiting = False
        if self._run.ledger.state.status is AgentStatus.CANCELLING:
            raise CancelledMeanwhile

    async def _before_deadline(self, rest: Awaitable[object]) -> None:
        deadline, clock = self._run.source.deadline, self._run.ports.clock
        self._awaited = self._run.replay.liveness.siblings()
        if deadline is None or not self._awaited:
            await rest
            return
        resting = asyncio.ensure_future(rest)
        late = asyncio.ensure_future(clock.sleep(remaining(deadline, clock.now()) or 0.0))
        try:
            await asyncio.wait([resting, late], return_when=asyncio.FIRST_COMPLETED)
            is_late = not resting.done()
            if is_late:
                self.stop()
            await resting
        finally:
            late.cancel()
            resting.cancel()
        reached = timed_out(deadline, clock.now()) if is_late else None
        if reached is not None:
            raise reached


@value
class EndingPolicy:
    """The settings of an agent and its application for the ends of all its runs.

    `sensitive` are the parts of the output that only the caller gets to see, `profile` are the output guards that the
    agent names.
    """

    cleanup: Callable[[Run], Cleanup]
    guard: IAgentOutputGuard | None = None
    sensitive: tuple[SensitiveFieldDescriptor, ...] = ()
    profile: AgentOutputGuardProfile | None = None

    def check(self, run: Run) -> OutputCheck | None:
        """Return the check of an attempt's output; None without a guard."""
        has_guards = self.guard is not None or (self.profile is not None and self.profile.guards)
        return OutputCheck(run, self.guard, self.profile) if has_guards else None


@value
class OpenTurn:
    """The turn that a completed run adds to its conversation; `store` gets it if the journal does not append it."""

    conversation: str
    question: str
    store: ITaskStore | None


class Ending:
    """Ends one attempt at a run."""

    def __init__(self, run: Run, policy: EndingPolicy, turn: OpenTurn | None = None) -> None:
        self._run = run
        self._policy = policy
        self._turn = turn
        self._publisher = Publisher(run, policy.check(run), policy.sensitive)
        self._tasks = RemainingTasks(run)

    @property
    def is_waiting(self) -> bool:
        """Whether nothing is decided yet: the last tasks of the run are still at work."""
        return self._tasks.is_waiting

    def hurry(self) -> None:
        """Cancel the calls that are still under way."""
        self._tasks.stop()

    async def complete(self, answer: Answer) -> RunResult:
        """End a run that has its answer: guarded as a whole, approved where needed, committed, then published.

        Raises:
            AgentOutputGuardError: the answer must not leave.
            EndRefused: there are signals that the run has not read; nothing of its end is recorded.
            LimitReached: the deadline of the run is reached before everything under way has ended.
            Paused: a person is asked first.
            RunEnded: the answer of a person is a rejection.
        """
        run, turn = self._run, self._turn
        if type(answer.output) is not str and any(media_within(answer.output)):
            answer = replace(answer, output=await run.part(RunMedia).keep_reply(answer.output))
        published = answer if self._publisher.check is None else await self._publisher.guarded(answer)

        async def settle() -> None:
            end = RunEnded(AgentSituation.COMPLETED, "the run is completed")
            await self._tasks.settle(end)
            if published is not answer:
                # The held text belongs to an answer that readers must not get unguarded.
                run.events.drop_held()
            run.events.flush(is_guarded=True)
            is_anything_begun = run.replay.has_record or run.outcomes.under_way
            if is_anything_begun and (under_way := run.outcomes.still_open(run.replay)):
                await end_children(self._cleanup, under_way)
            run.ledger.mark_end()

        record = await self._publisher.publish(published, settle)
        if turn is not None:
            texts = [turn.question, *_texts_meanwhile(run)]
            turns = turns_of(turn.conversation, texts, record["result"], run.trust, run.redactor)
            run.ledger.add_turns(turns)
            return await self._finish(AgentSituation.COMPLETED, published, record, turns=turns)
        return await self._finish(AgentSituation.COMPLETED, published, record)

    async def stop_short(
        self, answer: Answer, situation: AgentSituation, error: JsonObject, hidden: str | None = None
    ) -> RunResult:
        """End a run before it has its answer; its output so far is recorded with the reason.

        `hidden` are words of the error that only a sealed record has.
        """
        run, end = self._run, RunEnded(situation, str(error["message"]))
        try:
            await self._tasks.settle(end, at_once=situation is AgentSituation.TIMED_OUT)
        except LimitReached as late:
            return await self.stop_short(answer, late.situation, error_of(late))
        self._flush_or_drop(is_over=situation.status is not AgentStatus.INTERRUPTED)
        left = await self._publisher.partial(answer)
        under_way = run.outcomes.still_open(run.replay)
        await end_children(self._cleanup, under_way)
        run.outcomes.close_as_unknown(under_way)
        left = replace(left, interruption=left.interruption or str(error["code"]))

        async def finish() -> RunResult:
            run.ledger.mark_end()
            record = self._publisher.record_partial(left, error, hidden)
            return await self._finish(situation, left, record, error)

        return await despite_signals(run, finish)

    async def stop_at_limit(self, answer: Answer, error: JsonObject) -> RunResult:
        """Interrupt a run at a limit, with its output so far: it goes on when a person raises the limit."""
        run = self._run
        try:
            await self._tasks.settle(RunEnded(AgentSituation.LIMIT_REACHED, str(error["message"])))
        except LimitReached as late:
            return await self.stop_short(answer, late.situation, error_of(late))
        self._flush_or_drop()
        left = await self._publisher.partial(answer)
        left = replace(left, interruption=left.interruption or str(error["code"]))
        run.outcomes.suspend(only_entered_again=True)
        self._publisher.record_verdict()
        shown = self._publisher.view_of(encode_result(left, run.spending.spent, error))
        state = await Pausing(run).stop_at_limit(error, shown)
        return _result_of(state, left, run.spending.spent, error)

    async def pause(self, pause: Paused | None = None) -> RunResult:
        """Pause a run, after its other tasks have ended or wait as well.

        `pause` may say what it waits for, where that is neither a person's answer nor a pause signal.
        """
        self._run.replay.liveness.wake(pause or Paused())
        try:
            await self._tasks.wait()
        except LimitReached as late:
            return await self.stop_short(Answer(), late.situation, error_of(late))
        self._flush_or_drop(is_over=False)
        record_audit(self._run)
        self._run.outcomes.write_cuts()
        return await Pausing(self._run).pause(pause)

    async def hand_over(self, end: RunHandedOver) -> RunResult:
        """Leave a run as it is because the process stops: calls under way end and are recorded."""
        try:
            await self._tasks.settle(end)
        except LimitReached as late:
            return await self.stop_short(Answer(), late.situation, error_of(late))
        asked = [wait for wait in self._run.questions.open.values() if is_recovery(wait)]
        self._run.outcomes.suspend({str(wait[ACTION_ID]) for wait in asked})
        await self._run.ledger.barrier()
        self._run.ledger.kill(end)
        return RunResult(self._run.ledger.state)

    async def interrupt(self, divergence: RunDiverged) -> RunResult:
        """Interrupt a run with a program that differs from the record."""
        await self._run.replay.liveness.quiesce(divergence)
        self._run.outcomes.suspend(only_entered_again=True)
        return await Pausing(self._run).diverge(divergence)

    async def interrupt_unsealed(self, missing: SealMissing) -> RunResult:
        """Interrupt a run with a record that must be sealed and cannot be; the record is not written.

        Raises:
            SealMissing: the run is being cancelled, which only its next owner can complete.
        """
        ledger = self._run.ledger
        await self._run.replay.liveness.quiesce(missing)
        await ledger.reopen(missing)
        if not ledger.is_durable or ledger.state.status is AgentStatus.CANCELLING:
            raise missing
        return await Pausing(self._run).interrupt_unsealed(missing)

    async def begin_cancelling(self, reason: str) -> None:
        """Begin the cancellation that a person's answer asks for."""
        reason = self._run.redactor.text(reason)
        ledger, facts = self._run.ledger, {"cancellation_reason": reason}
        self._run.replay.liveness.end(RunEnded(AgentSituation.CANCELLING, reason))
        cancelling = running(ledger.state).moved_to(
            AgentSituation.CANCELLING, activity=reason, metadata=facts
        )
        ledger.change_state(cancelling)
        await ledger.barrier()

    async def finish_cancelling(self, refusal: str | None = None) -> RunResult:
        """Stop the calls under way, clean up, end the run; `refusal` is the reason of a person against the clean-up.

        Raises:
            RunInterruption: the run is not this attempt's any more, so that there is nothing to clean up.
        """
        run, by = self._run, self._run.source.attribution
        run.note_open_streams()
        await self._tasks.stopped()
        run.ledger.check_alive()
        self._flush_or_drop()
        state = await finish_cancellation(
            run,
            run.outcomes.still_open(run.replay),
            replace(self._cleanup, refusal=refusal) if refusal else self._cleanup,
            lambda state: run.events.prepare(RunFinishedEvent(by, cancellation_error(state))),
        )
        run.events.release()
        return RunResult(state, error=cancellation_error(state))

    @property
    def _cleanup(self) -> Cleanup:
        return self._policy.cleanup(self._run)

    def _flush_or_drop(self, *, is_over: bool = True) -> None:
        """Emit the last events of an attempt that ends without an answer, without refused content."""
        events = self._run.events
        try:
            events.flush() if is_over else events.flush_decided()
        except AgentOutputGuardError:
            events.drop_held()

    async def _finish(
        self,
        situation: AgentSituation,
        answer: Answer,
        record: JsonObject,
        error: JsonObject | None = None,
        turns: ConversationTurns | None = None,
    ) -> RunResult:
        """Move the run to its last state, commit it with the result, and emit the last event."""
        run, ledger, spent = self._run, self._run.ledger, self._run.spending.spent
        record_audit(run)
        self._publisher.record_verdict()
        activity = run.redactor.text(str(error["message"])) if error else None
        closed = ledger.close_signals() if ledger.unread else None
        ledger.change_state(running(ledger.state).moved_to(situation, activity=activity, metadata=closed))
        facts: dict[str, JsonValue] = {"output": self._publisher.view_of(record)["result"]}
        if answer.interruption is not None:
            facts["interruption_reason"] = answer.interruption
        facts |= {"model_steps": spent.steps, "tool_calls": spent.tool_calls, "total_tokens": spent.tokens}
        run.events.prepare(_run_finished(run.source.attribution, error, facts))
        await ledger.barrier()
        if turns is not None and self._turn is not None and self._turn.store is not None:
            await append_turns_after(self._turn.store, run, turns)
        run.events.release()
        return _result_of(ledger.state, answer, spent, error)


def _texts_meanwhile(run: Run) -> Sequence[str]:
    """Return the words of the messages that a run was given while it was under way."""
    has_got_any = run.ledger.is_durable and run.ledger.newest_signal
    return run.signals.user_texts if has_got_any else ()


def _result_of(state: AgentState, answer: Answer, spent: BudgetAmount, error: JsonObject | None) -> RunResult:
    return _new_result(
        state=state,
        output=answer.output,
        usage=answer.usage,
        turns=answer.turns,
        interruption_reason=answer.interruption,
        error=error,
        artifacts=answer.learned or {},
        spent=spent,
    )


def error_of(end: BaseException, message: str = "") -> JsonObject:
    """Return the error of a failure for callers: a code, a message, whether a retry may help.

    `message` is the text for an exception of the program, which has no code.
    """
    match end:
        case LimitReached(code=code, reason=reason):
            return {"code": code.value, "message": reason, "retryable": False}
        case RunEnded(situation=situation, reason=reason, code=code, retryable=retryable):
            reason_code = situation.reason.value if situation.reason else situation.status.value
            return {"code": code or reason_code, "message": reason, "retryable": retryable}
        case _:
            failed = AgentStateReason.EXECUTION_FAILED.value
            retryable = bool(getattr(end, "retryable", False))
            return {"code": failed, "message": message, "retryable": retryable}

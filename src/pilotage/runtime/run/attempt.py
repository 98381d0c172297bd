"""One attempt at a run: the program from the beginning, replayed as far as it is recorded, then live.

`program` decides how an attempt ends, once; `ending` carries it out.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextvars import Token
from functools import partial

from pilotage.agent.events import AgentEvent, RunStartedEvent
from pilotage.agent.ports.persistence import RunKey
from pilotage.agent.ports.sealing import RecordSealError
from pilotage.agent.principal import enter_run_context
from pilotage.agent.run_values import RunResult
from pilotage.agent.signals import AgentSignal, AgentSignalKind
from pilotage.agent.state import AgentSituation, AgentStatus
from pilotage.agent.tools.declare import IToolCalls
from pilotage.filling import unchecked
from pilotage.runtime.budget.limits import remaining, timed_out
from pilotage.runtime.door.run import LiveRun, Run, new_live_run
from pilotage.runtime.door.signals import SignalHandlers, messages_for_another_turn, wait_for_steering
from pilotage.runtime.door.tool_call import ToolCalls
from pilotage.runtime.events.feed import close
from pilotage.runtime.journal import stored_words as words
from pilotage.runtime.journal.interruptions import (
    CancelledMeanwhile,
    EndRefused,
    LimitReached,
    Paused,
    RunEnded,
    RunHandedOver,
    RunInterruption,
    SealMissing,
    StoreUnavailable,
    what_counts,
)
from pilotage.runtime.journal.scope import StepScope, enter_run, leave
from pilotage.runtime.journal.start_record import trace_position
from pilotage.runtime.journal.task_names import TaskNames
from pilotage.runtime.people.answers import is_closing
from pilotage.runtime.run.cancel import begin_cancellation
from pilotage.runtime.run.ending import Ending
from pilotage.runtime.run.program import AttemptEnd, Program, take_back_cancellation
from pilotage.runtime.run.resumption import ResumptionGate


async def observed(run: Run, driving: Awaitable[RunResult]) -> RunResult:
    """Return the result of an attempt, once its observers know how it ended."""
    result = await (driving if run.telemetry.is_idle else _in_span(run, driving))
    if result.state.status is AgentStatus.ACTIVE:
        return result
    agent = run.source.attribution.agent_id
    run.telemetry.count("agent.run.ended", status=result.status, agent=agent)
    if run.hooks is not None:
        await run.hooks.after_run(run.context, result.state)
    return result


async def _in_span(run: Run, driving: Awaitable[RunResult]) -> RunResult:
    by = run.source.attribution
    with run.telemetry.span(
        "agent.run",
        run.earlier_trace,
        agent=by.agent_id,
        run_id=by.run_id,
        conversation=by.conversation_id,
        tenant=run.context.tenant_id,
        epoch=run.ledger.epoch,
    ):
        position = run.telemetry.position()
        if position is not None:
            run.ledger.claim(trace_position(position), trace_position(position))
        result = await driving
        run.telemetry.annotate(status=result.status, **_error_code(result))
    return result


def _error_code(result: RunResult) -> dict[str, str]:
    code = result.error.get("code") if result.error is not None else None
    return {"error": code} if isinstance(code, str) else {}


_run_started = unchecked(RunStartedEvent)


class RunAttempt:
    """Drives a program for one run."""

    def __init__(
        self,
        tools: ToolCalls,
        program: Program,
        ending: Ending,
        pending: Callable[[RunKey], Awaitable[Sequence[AgentSignal]]],
        gate: ResumptionGate | None = None,
    ) -> None:
        self.run = tools.run
        self._program = program
        self._ledger = tools.run.ledger
        self._ending = ending
        self._end = AttemptEnd(tools, program, ending)
        self._tools = tools
        self._pending = pending
        self._gate = gate
        if self._ledger.is_durable:
            self.run.read_signals = self._read_signals
            self.run.replay.when_over = self._interrupt_program
        self._turns = 0
        self._task: asyncio.Task[object] | None = None
        self._entered: Token[IToolCalls | None] | None = None
        self._late: LimitReached | None = None
        self._is_cancelled = self._is_ending = self._is_executing = self._is_interrupted = False

    async def drive(self) -> RunResult:
        """Drive the run until it ends, pauses or is handed over, and return its result.

        Raises:
            RunOwnershipLost: another owner has the run.
            StoreUnavailable: the journal cannot be written.
        """
        self._task = asyncio.current_task()
        run = self.run
        watch = asyncio.create_task(self._watch_deadline()) if run.source.deadline is not None else None
        try:
            # Without telemetry and hooks the run is driven directly.
            is_unobserved = run.telemetry.is_idle and run.hooks is None
            return await (self._run() if is_unobserved else observed(run, self._run()))
        except SealMissing as missing:
            return await self._ending.interrupt_unsealed(missing)
        except BaseException as error:
            # An attempt that ends without an outcome writes nothing more, not even its pending rows.
            self._ledger.kill(error)
            raise
        finally:
            if watch is not None:
                watch.cancel()
            run.events.close()
            self._release()

    def _release(self) -> None:
        """Drop the references between the attempt and its task: both are freed at once, without the collector."""
        self._task = None
        self.run.release()
        if self._entered is not None:
            leave(self._entered)

    def live(self, task: asyncio.Task[RunResult]) -> LiveRun:
        """Return the run as it is reached from outside, with the task that drives this attempt."""
        # A cancellation by the parent run has no stored signal.
        unstored = partial(self.cancel, is_stored=False)
        return new_live_run(
            run=self.run,
            task=task,
            cancel=self.cancel,
            cancel_unstored=unstored,
            receive=self.receive,
            hand_over=self.hand_over,
            is_ending=self.is_ending,
        )

    def is_ending(self) -> bool:
        """Return whether the program has ended: the attempt completes, pauses or stops."""
        return self._is_ending

    async def cancel(self, signal: AgentSignal, *, is_stored: bool = True) -> bool:
        """Record the cancellation, then stop the work; return False if the attempt is ending by itself."""
        if (self._is_ending and not self._ending.is_waiting) or self._is_cancelled:
            return self._is_cancelled
        self._is_cancelled = True
        try:
            await begin_cancellation(self._ledger, signal, is_stored=is_stored)
        except BaseException:
            self._is_cancelled = False
            raise
        self.run.note_open_streams()
        if self._is_ending:
            self._ending.hurry()
        else:
            self._interrupt_work()
        return True

    def hand_over(self) -> None:
        """End at the next boundary and leave the run to another owner; an attempt that is ending completes."""
        if not self._is_ending and not self._is_cancelled:
            self.run.replay.liveness.end(RunHandedOver())

    def receive(self, signal: AgentSignal) -> None:
        """Receive a signal: a message for the next boundary, or a request to pause there or to go on."""
        signals, liveness = self.run.signals, self.run.replay.liveness
        if not signals.receive(signal) or self._is_ending or self._is_cancelled:
            return
        if signal.kind is AgentSignalKind.PAUSE:
            liveness.end(Paused())
        elif signal.kind is AgentSignalKind.RESUME and liveness.take_back_pause():
            signals.take_back_pauses(signal)
        elif signal.kind is AgentSignalKind.RESUME and not (liveness.is_pausing or self.run.replay.pauses):
            # There is nothing to resume, and a later pause must not end at once.
            self._ledger.supersede_signal(signal.id)
        elif self._is_waited_for(signal):
            self.run.replay.drain()

    def _is_waited_for(self, signal: AgentSignal) -> bool:
        """Return whether a parked call of this attempt waits for a signal."""
        pauses = self.run.replay.pauses
        if signal.kind is AgentSignalKind.APPROVAL_DECISION:
            return any(is_closing(signal, asked) for pause in pauses for asked in pause.wait_ids)
        return bool(pauses) and self.run.signals.is_called

    async def _read_signals(self) -> None:
        """Read the signals that a commit has reported, and obey them.

        Raises:
            StoreUnavailable: they cannot be read.
        """
        # Signals up to this number are stored by now; a newer one is reported by the next commit.
        last = self._ledger.newest_signal
        try:
            pending = await self._pending(self._ledger.run)
        except RecordSealError as error:
            raise SealMissing(str(error)) from error
        except Exception as error:
            raise StoreUnavailable(f"run {self.run.id!r}: its signals cannot be read: {error}") from error
        self._ledger.add_signals(pending, last)
        for signal in pending:
            if signal.kind is not AgentSignalKind.CANCEL:
                self.receive(signal)
            elif await self.cancel(signal):
                # The cancellation of this task takes effect here, before anything else begins.
                await asyncio.sleep(0)

    async def _run(self) -> RunResult:
        self._report_start()
        if self._ledger.state.status is AgentStatus.CANCELLING:
            return await self._take_up_cleanup()
        try:
            self._is_executing = True
            if self._gate or self.run.hooks or self.run.admission.check_switch:
                await self._check_allowed()
            self._pause_if_wanted()
            await self._execute()
            return await self._end_or_go_on()
        except asyncio.CancelledError as end:
            if self._is_cancelled:
                return await self._finish_cancelling()
            if self._late is not None:
                return await self._stop_for_time(self._late)
            if self._is_interrupted and (over := self.run.replay.over) is not None:
                return await self._stop_for_time(over)
            if self._task is None or self._task.cancelling():
                raise
            # This attempt was not cancelled: a tool, a model or a guard raised a CancelledError of its own.
            self._is_executing = False
            return await self._stop(end)
        except (RunInterruption, Exception, BaseExceptionGroup) as end:  # noqa: BLE001 - the top of a run
            self._is_executing = False
            if self._is_cancelled:
                return await self._finish_cancelling()
            self._forget_interruption()
            return await self._stop_unless_cancelled(self._late or what_counts(end))

    async def _end_or_go_on(self) -> RunResult:
        """End the attempt after its program has returned; where a signal has come since, the program goes on first."""
        while True:
            self._is_executing = False
            if self._is_interrupted:
                self._forget_interruption()
            if self._is_cancelled:
                return await self._finish_cancelling()
            self._is_ending = True
            end = self._end
            try:
                return await (end.after_return() if self._late is None else end.after_error(self._late))
            except CancelledMeanwhile:
                return await self._finish_cancelling()
            except EndRefused:
                self.run.events.take_back()
                self._is_ending = False
                self.run.replay.liveness.reopen()
                self._is_executing = True
                await self._read_signals()
                self._pause_if_wanted()
                await self._attend()

    def _pause_if_wanted(self) -> None:
        """Pause at the next boundary for a pause signal that came while no attempt could obey it."""
        if self._ledger.is_durable and self.run.signals.is_pause_wanted:
            self.run.replay.liveness.end(Paused())

    async def _attend(self) -> None:
        """Give the program the signals that came since its last boundary, as long as it can go on with them."""
        run, program = self.run, self._program
        while True:
            if run.ledger.has_unread:
                await self._read_signals()
            if run.handles_signals:
                await run.part(SignalHandlers).at_end()
            if not run.ledger.is_durable or not run.signals.listens:
                return
            if run.signals.is_waiting and run.replay.liveness.is_ending:
                # The run pauses or is handed over first, and takes them in when it goes on.
                run.replay.liveness.check(words.RUN)
            number = self._turns + 1
            messages = await messages_for_another_turn(run, number, is_possible=program.can_go_on)
            if not messages:
                return
            self._turns = number
            await self._write(program.go_on(messages))

    async def _stop(self, end: BaseException) -> RunResult:
        self._is_ending = True
        return await self._end.after_error(end)

    async def _stop_unless_cancelled(self, end: BaseException) -> RunResult:
        try:
            return await self._stop(end)
        except CancelledMeanwhile:
            return await self._finish_cancelling()

    async def _stop_for_time(self, late: RunInterruption) -> RunResult:
        take_back_cancellation()
        self._is_executing = False
        return await self._stop(late)

    async def _take_up_cleanup(self) -> RunResult:
        """Finish a cancellation that was begun before this attempt, unless a person is asked first."""
        self._is_ending = True
        try:
            refusal = None if self._gate is None else await self._gate.before_cleanup()
        except Paused as pause:
            return await self._ending.pause(pause)
        return await self._finish_cancelling(refusal)

    async def _finish_cancelling(self, refusal: str | None = None) -> RunResult:
        self._is_executing = False
        return await self._end.after_cancellation(refusal)

    async def _execute(self) -> None:
        run = self.run
        if run.source.start.steering_input_required:
            await wait_for_steering(run)
        enter_run_context(run.context)
        names = TaskNames(run.salt if run.ledger.is_durable and run.source.start.names_tasks else None)
        scope = StepScope("run", self._task, skipped=run.replay.skipped)
        self._entered = enter_run(self._tools, scope, names)
        await self._write(self._program.events())
        run.replay.returned()
        for stream in tuple(run.open_streams):
            await stream.close_if_left()
        if run.ledger.is_durable or run.handles_signals:
            await self._attend()

    async def _write(self, events: AsyncIterator[AgentEvent]) -> None:
        run = self.run
        try:
            if not run.ledger.is_durable:
                await run.events.write_all(events)
                return
            async for event in events:
                if run.secrets_to_recall:
                    await self._tools.recall_secrets()
                run.events.write(event)
        finally:
            await close(events)

    async def _check_allowed(self) -> None:
        run = self.run
        if self._gate is not None:
            # First: any other pause would hide that a person has interrupted the run.
            await self._gate.before_program()
        if run.admission.check_switch is not None:
            await run.admission.check_switch(run)
        if run.hooks is None:
            return
        reason = await run.hooks.veto_run(run.context, self._ledger.state)
        if reason is not None:
            raise RunEnded(AgentSituation.FAILED, f"the run is not allowed: {reason}", code="run_vetoed")

    def _report_start(self) -> None:
        run = self.run
        facts = run.events.start_metadata()
        if (alias := run.context.metadata.get("alias")) is not None:
            facts = {**facts, "alias": alias}
        run.events.write_now(_run_started(run.source.attribution, facts))

    async def _watch_deadline(self) -> None:
        """Stop the work when the time of the run is up."""
        run, clock = self.run, self.run.ports.clock
        deadline = run.source.deadline
        while (left := remaining(deadline, clock.now())) is not None and left > 0:
            await clock.sleep(left)
        self._late = timed_out(deadline, clock.now())
        if self._late is not None and not self._is_ending and not self._is_cancelled:
            run.replay.liveness.end(self._late)
            self._interrupt_work()

    def _interrupt_work(self) -> None:
        if self._is_executing and self._task is not None:
            self.run.replay.liveness.stopping()
            self._task.cancel()

    def _interrupt_program(self) -> None:
        """Wake the program from every wait: the replay kernel has ended the attempt."""
        task = self._task
        if self._is_executing and task is not None and task is not asyncio.current_task():
            self._is_interrupted = True
            task.cancel()

    def _forget_interruption(self) -> None:
        if self._is_interrupted and self._task is not None:
            self._task.uncancel()

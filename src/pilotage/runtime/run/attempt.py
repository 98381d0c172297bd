"""One attempt at a run: the program from the beginning, replayed as far as it is recorded, then live.

The outcome of an attempt is decided here, once; `ending` carries it out.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable
from contextvars import Token
from dataclasses import replace
from functools import partial

from pilotage.agent.events import RunStartedEvent
from pilotage.agent.principal import enter_run_context
from pilotage.agent.run_values import RunResult
from pilotage.agent.signals import AgentSignal, AgentSignalKind
from pilotage.agent.state import AgentSituation, AgentStatus
from pilotage.agent.tools.declare import IToolCalls
from pilotage.jsonvalue import JsonObject
from pilotage.runtime.budget.deadlines import remaining, timed_out
from pilotage.runtime.door.run import LiveRun, new_live_run
from pilotage.runtime.door.signals import SignalHandlers
from pilotage.runtime.door.tool_call import ToolCalls
from pilotage.runtime.events.feed import close
from pilotage.runtime.journal.interruptions import (
    CancelledMeanwhile,
    LimitReached,
    Paused,
    RecordDamaged,
    RunDiverged,
    RunEnded,
    RunHandedOver,
    RunInterruption,
    SealMissing,
    damage_of,
    what_counts,
)
from pilotage.runtime.journal.record_fields import DamagedRecordError
from pilotage.runtime.journal.scope import StepScope, enter_run, leave_run
from pilotage.runtime.journal.start_record import trace_position
from pilotage.runtime.run.cancel import begin_cancellation
from pilotage.runtime.run.ending import Ending, error_of
from pilotage.runtime.run.program import Program


class RunAttempt:
    """Drives a program for one run."""

    def __init__(self, tools: ToolCalls, program: Program, ending: Ending) -> None:
        self.run = tools.run
        self._program = program
        self._ledger = tools.run.ledger
        self._ending = ending
        self._tools = tools
        self._task: asyncio.Task[object] | None = None
        self._entered: Token[IToolCalls | None] | None = None
        self._late: LimitReached | None = None
        self._is_cancelled = self._is_ending = self._is_executing = False

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
            return await (self._run() if is_unobserved else self._observed())
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
            leave_run(self._entered)

    async def _observed(self) -> RunResult:
        run = self.run
        result = await (self._run() if run.telemetry.is_idle else self._run_in_span())
        if result.state.status is AgentStatus.ACTIVE:
            return result
        agent = run.source.attribution.agent_id
        run.telemetry.count("agent.run.ended", status=result.status, agent=agent)
        if run.hooks is not None:
            await run.hooks.after_run(run.context, result.state)
        return result

    async def _run_in_span(self) -> RunResult:
        run, by = self.run, self.run.source.attribution
        with run.telemetry.span(
            "agent.run",
            agent=by.agent_id,
            run_id=by.run_id,
            conversation=by.conversation_id,
            tenant=run.context.tenant_id,
            epoch=self._ledger.epoch,
        ):
            position = run.telemetry.follow(run.earlier_trace)
            if position is not None:
                self._ledger.claim(trace_position(position), trace_position(position))
            result = await self._run()
            run.telemetry.annotate(status=result.status, **_error_code(result))
        return result

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

    async def _run(self) -> RunResult:
        self._report_start()
        if self._ledger.state.status is AgentStatus.CANCELLING:
            return await self._finish_cancelling()
        try:
            if self.run.hooks is not None or self.run.admission.check_switch is not None:
                await self._check_allowed()
            self._is_executing = True
            await self._execute()
            self._is_executing = False
            if self._is_cancelled:
                return await self._finish_cancelling()
            ending = self._finish() if self._late is None else self._stop(self._late)
            return await self._unless_cancelled(ending)
        except asyncio.CancelledError as end:
            if self._is_cancelled:
                return await self._finish_cancelling()
            if self._late is not None:
                return await self._stop_for_time(self._late)
            if self._task is None or self._task.cancelling():
                raise
            # This attempt was not cancelled: a tool, a model or a guard raised a CancelledError of its own.
            self._is_executing = False
            return await self._stop(end)
        except (RunInterruption, Exception, BaseExceptionGroup) as end:  # noqa: BLE001 - the top of a run
            self._is_executing = False
            if self._is_cancelled:
                return await self._finish_cancelling()
            self._is_ending = True
            return await self._unless_cancelled(self._stop(self._late or what_counts(end)))

    async def _unless_cancelled(self, ending: Awaitable[RunResult]) -> RunResult:
        try:
            return await ending
        except CancelledMeanwhile:
            return await self._finish_cancelling()

    async def _finish(self) -> RunResult:
        """End the attempt after its program has returned; an interruption that the program swallowed takes effect."""
        self._is_ending = True
        run, liveness = self.run, self.run.replay.liveness
        if (end := liveness.met) is not None:
            return await self._stop(end)
        if liveness.is_paused:
            return await self._ending.pause()
        if run.replay.has_record:
            run.replay.check_used_up()
        if run.events.is_replaying:
            run.events.go_live()
        if run.admission.check_switch is not None:
            await run.admission.check_switch(run)
        answer = self._program.answer
        if answer.interruption is not None:
            error: JsonObject = {
                "code": answer.interruption,
                "message": f"the agent stopped short: {answer.interruption}",
                "retryable": False,
            }
            return await self._ending.stop_short(answer, AgentSituation.FAILED, error)
        return await self._ending.complete(answer)

    async def _stop(self, end: BaseException) -> RunResult:
        """End the attempt of a program that raised `end` instead of returning an answer."""
        self._is_ending = True
        answer = self._program.answer
        match end:
            case Paused():
                return await self._ending.pause(end)
            case RunHandedOver():
                return await self._ending.hand_over(end)
            case RunDiverged():
                return await self._ending.interrupt(end)
            case RunEnded(situation=AgentSituation.CANCELLING, reason=reason):
                await self._ending.begin_cancelling(reason)
                return await self._finish_cancelling()
            case RunEnded() | LimitReached():
                return await self._ending.stop_short(answer, end.situation, error_of(end))
            case DamagedRecordError():
                return await self._ending.interrupt(RecordDamaged(damage_of(end)))
            case RunInterruption():
                raise end
            case _ if self.run.replay.liveness.is_paused:
                return await self._ending.pause()
            case _:
                result = await self._ending.stop_short(answer, AgentSituation.FAILED, error_of(end))
                return replace(result, cause=end)

    async def _stop_for_time(self, late: LimitReached) -> RunResult:
        if self._task is not None:
            self._task.uncancel()
        self._is_executing = False
        return await self._stop(late)

    async def _finish_cancelling(self) -> RunResult:
        self._is_executing = False
        if self._task is not None:
            self._task.uncancel()
        outcomes, replay = self.run.outcomes, self.run.replay
        if not outcomes.under_way:
            outcomes.under_way = {action.id: (action, number) for action, number in replay.under_way()}
        return await self._ending.finish_cancelling()

    async def _execute(self) -> None:
        run = self.run
        enter_run_context(run.context)
        self._entered = enter_run(self._tools, StepScope("run", self._task))
        writer, secrets = run.events, run.secrets_to_recall
        events = self._program.events()
        try:
            async for event in events:
                if secrets:
                    await self._tools.recall_secrets()
                writer.write(event)
                if writer.is_full:
                    await writer.wait_for_room()
        finally:
            await close(events)
        if run.handles_signals:
            await run.part(SignalHandlers).at_end()

    async def _check_allowed(self) -> None:
        run = self.run
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
        run.events.write_now(RunStartedEvent(run.source.attribution, facts))

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
            self._task.cancel()


def _error_code(result: RunResult) -> dict[str, str]:
    code = result.error.get("code") if result.error is not None else None
    return {"error": code} if isinstance(code, str) else {}

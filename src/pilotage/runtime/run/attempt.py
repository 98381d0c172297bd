"""One attempt at a run: the program from the top, replayed as far as it is recorded, then live.

What an attempt came to is decided here, once; `ending` carries it out.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable
from contextvars import Token
from dataclasses import replace
from typing import TypeAlias

from pilotage.agent.events import AgentEventAttribution, RunStartedEvent
from pilotage.agent.principal import RunContext, enter_run_context
from pilotage.agent.run_result import RunResult
from pilotage.agent.signals import AgentSignal, AgentSignalKind
from pilotage.agent.state import AgentSituation, AgentStatus
from pilotage.agent.tools.active import IToolCalls, active_tool_calls
from pilotage.jsonvalue import JsonObject
from pilotage.runtime.budget.deadlines import remaining, timed_out
from pilotage.runtime.door.run import Effects, active_effects
from pilotage.runtime.door.tool_call import ToolCalls
from pilotage.runtime.events.feed import close
from pilotage.runtime.events.writer import EventWriter
from pilotage.runtime.journal.interruptions import (
    CancelledMeanwhile,
    HandedOver,
    LimitReached,
    Paused,
    RunDiverged,
    RunEnded,
    RunInterruption,
    what_counts,
)
from pilotage.runtime.journal.scope import Scope, enter, leave
from pilotage.runtime.run.cancel import begin_cancellation
from pilotage.runtime.run.ending import Ending, error_of
from pilotage.runtime.run.program import Program
from pilotage.values import value

_Entered: TypeAlias = tuple[Token[Scope | None], Token[Effects | None], Token[IToolCalls | None]]
"""What takes a task back to where it was before an attempt began in it."""


class RunAttempt:
    """Drives a program for one run."""

    def __init__(
        self,
        program: Program,
        effects: Effects,
        telling: EventWriter,
        ending: Ending,
        tools: ToolCalls,
        context: RunContext,
        by: AgentEventAttribution,
    ) -> None:
        self.effects = effects
        self.telling = telling
        self._program = program
        self._ledger = effects.ledger
        self._ending = ending
        self._tools = tools
        self._context = context
        self.by = by
        self._task: asyncio.Task[object] | None = None
        self._entered: _Entered | None = None
        self._late: LimitReached | None = None
        self._is_cancelled = self._is_ending = self._is_executing = False

    async def run(self) -> RunResult:
        """Bring the run as far as it gets now.

        Raises:
            RunOwnershipLost: somebody else has the run.
            StoreUnavailable: the journal cannot be written.
        """
        self._task = asyncio.current_task()
        watch = asyncio.create_task(self._watch_the_time()) if self.effects.deadline is not None else None
        try:
            # Where nobody looks on, nothing stands between this and the run.
            is_alone = self.effects.observer.is_idle and self.effects.gate.is_open
            return await (self._run() if is_alone else self._observed())
        except BaseException as death:
            # An attempt that ends without an outcome writes nothing any more, not even what it had begun to.
            self._ledger.kill(death)
            raise
        finally:
            if watch is not None:
                watch.cancel()
            self.telling.close()
            self._let_go()

    def _let_go(self) -> None:
        """The task of an attempt that is over knows nothing of it: both are freed at once, without a collector."""
        self._task = None
        self.effects.let_go()
        if self._entered is not None:
            scope, effects, tools = self._entered
            leave(scope)
            active_effects.reset(effects)
            active_tool_calls.reset(tools)

    async def _observed(self) -> RunResult:
        effects = self.effects
        if effects.observer.is_idle:
            result = await self._run()
        else:
            result = await self._run_in_span()
        if result.state.status is AgentStatus.ACTIVE:
            return result
        effects.observer.count("agent.run.ended", status=result.status, agent=self.by.agent_id)
        if not effects.gate.is_open:
            await effects.gate.after_run(result.state)
        return result

    async def _run_in_span(self) -> RunResult:
        effects, by = self.effects, self.by
        with effects.observer.span(
            "agent.run",
            agent=by.agent_id,
            run_id=by.run_id,
            conversation=by.conversation_id,
            tenant=self._context.tenant_id,
            epoch=self._ledger.epoch,
        ):
            effects.leave_trace()
            result = await self._run()
            effects.observer.annotate(status=result.status, **_error_code(result))
        return result

    async def cancel(self, signal: AgentSignal, *, is_stored: bool = True) -> bool:
        """Write the cancellation down, then stop the work; False for an attempt that is coming to its own end."""
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
        """End at the next boundary and leave the run to others; an attempt that is coming to an end comes to it."""
        if not self._is_ending and not self._is_cancelled:
            self.effects.liveness.end(HandedOver())

    def hear(self, signal: AgentSignal) -> None:
        """Something was sent to the run: a message for the next boundary, or the wish that it pauses there."""
        inbox, liveness = self.effects.inbox, self.effects.liveness
        if not inbox.receive(signal) or self._is_ending or self._is_cancelled:
            return
        if signal.kind is AgentSignalKind.PAUSE:
            liveness.end(Paused())
        elif signal.kind is AgentSignalKind.RESUME and liveness.take_back_pause():
            inbox.take_back_pauses(signal)

    async def _run(self) -> RunResult:
        self._report_start()
        if self._ledger.state.status is AgentStatus.CANCELLING:
            return await self._finish_cancelling()
        try:
            if self.effects.switches is not None or not self.effects.gate.is_open:
                await self._check_allowed()
            self._is_executing = True
            await self._execute()
            self._is_executing = False
            if self._is_cancelled:
                return await self._finish_cancelling()
            ending = self._came_through() if self._late is None else self._stop(self._late)
            return await self._unless_cancelled(ending)
        except asyncio.CancelledError as end:
            if self._is_cancelled:
                return await self._finish_cancelling()
            if self._late is not None:
                return await self._stop_for_time(self._late)
            if self._task is None or self._task.cancelling():
                raise
            # Nobody stops this attempt: a tool, a model or a guard has let a cancellation of its own escape.
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

    async def _came_through(self) -> RunResult:
        """The program has ended by itself; what it was told and did not pass on ends it all the same."""
        self._is_ending = True
        if (end := self.effects.liveness.met) is not None:
            return await self._stop(end)
        if self.effects.liveness.is_paused:
            return await self._ending.pause()
        if self.effects.has_record:
            self.effects.recording.check_used_up()
        if self.telling.is_repeating:
            self.telling.go_live()
        if self.effects.switches is not None:
            await self.effects.switches.check()
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
        """Whatever the program ended with, short of an answer."""
        self._is_ending = True
        answer = self._program.answer
        match end:
            case Paused():
                return await self._ending.pause(end)
            case HandedOver():
                return await self._ending.hand_over(end)
            case RunDiverged():
                return await self._ending.interrupt(end)
            case RunEnded(situation=AgentSituation.CANCELLING, reason=reason):
                await self._ending.begin_cancelling(reason)
                return await self._finish_cancelling()
            case RunEnded() | LimitReached():
                return await self._ending.stop_short(answer, end.situation, error_of(end))
            case RunInterruption():
                raise end
            case _ if self.effects.liveness.is_paused:
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
        under_way = self.effects.recording.under_way() if not self.effects.outcomes.under_way else []
        self.effects.outcomes.under_way |= {action.id: (action, number) for action, number in under_way}
        return await self._ending.finish_cancelling()

    async def _execute(self) -> None:
        enter_run_context(self._context)
        self._entered = (
            enter(Scope("run", self._task)),
            active_effects.set(self.effects),
            active_tool_calls.set(self._tools),
        )
        telling, unrecalled = self.telling, self.effects.unrecalled
        events = self._program.events()
        try:
            async for event in events:
                if unrecalled:
                    await self._tools.recall_secrets()
                telling.say(event)
                if telling.is_full:
                    await telling.room()
        finally:
            await close(events)
        if self.effects.handling is not None:
            await self.effects.handling.at_end()

    async def _check_allowed(self) -> None:
        if self.effects.switches is not None:
            await self.effects.switches.check()
        denied = await self.effects.gate.before_run(self._ledger.state)
        if denied is not None:
            raise RunEnded(
                AgentSituation.FAILED, f"the run is not allowed: {denied.reason}", code="run_vetoed"
            )

    def _report_start(self) -> None:
        facts = self.telling.start_facts()
        if (alias := self._context.metadata.get("alias")) is not None:
            facts = {**facts, "alias": alias}
        self.telling.report(RunStartedEvent(self.by, facts))

    async def _watch_the_time(self) -> None:
        """Stop the work when the time of the run is up."""
        effects = self.effects
        while (left := remaining(effects.deadline, effects.clock.now())) is not None and left > 0:
            await effects.clock.sleep(left)
        self._late = timed_out(effects.deadline, effects.clock.now())
        if self._late is not None and not self._is_ending and not self._is_cancelled:
            effects.liveness.end(self._late)
            self._interrupt_work()

    def _interrupt_work(self) -> None:
        if self._is_executing and self._task is not None:
            self._task.cancel()


def _error_code(result: RunResult) -> dict[str, str]:
    code = result.error.get("code") if result.error is not None else None
    return {"error": code} if isinstance(code, str) else {}


@value
class LiveRun:
    """An attempt that is being driven."""

    run_id: str
    attempt: RunAttempt
    task: asyncio.Task[RunResult]

"""The end of an attempt, decided from the return or the exception of its program; `ending` carries it out."""

from __future__ import annotations

import asyncio
from contextlib import suppress
from dataclasses import replace

from pilotage.agent.run_values import RunResult
from pilotage.agent.state import AgentSituation
from pilotage.errors import StoppedShortError
from pilotage.jsonvalue import JsonObject
from pilotage.runtime.door.tool_call import ToolCalls
from pilotage.runtime.exposure.failures import shown_with_words
from pilotage.runtime.journal import stored_words as words
from pilotage.runtime.journal.interruptions import (
    LimitReached,
    Paused,
    RecordDamaged,
    RunDiverged,
    RunEnded,
    RunHandedOver,
    RunInterruption,
    damage_of,
)
from pilotage.runtime.journal.record_fields import DamagedRecordError
from pilotage.runtime.journal.records import Answer
from pilotage.runtime.run.ending import Ending, error_of
from pilotage.runtime.run.program import Program


class AttemptEnd:
    """Decides the end of one attempt, in the task that drives it."""

    def __init__(self, tools: ToolCalls, program: Program, ending: Ending) -> None:
        self._run = tools.run
        self._tools = tools
        self._program = program
        self._ending = ending

    async def after_return(self) -> RunResult:
        """End the attempt after its program has returned; an interruption that the program swallowed takes effect."""
        run = self._run
        if run.secrets_to_recall:
            await self._tools.recall_secrets()
        end: BaseException | None = run.replay.liveness.met
        if end is None and run.ledger.is_durable:
            end = await self._unfinished()
        if end is not None:
            return await self.after_error(end)
        if run.replay.liveness.is_pausing:
            return await self._ending.pause()
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
            return await self._stop_unanswered(answer, error)
        return await self._ending.complete(answer)

    async def after_error(self, end: BaseException) -> RunResult:
        """End the attempt of a program that raised `end` instead of returning an answer."""
        await self._recall_secrets()
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
                return await self.after_cancellation()
            case RunEnded() if (unfinished := await self._unfinished_by(end)) is not None:
                return await self.after_error(unfinished)
            case RunEnded() | LimitReached():
                return await self._end(answer, end)
            case DamagedRecordError():
                return await self._ending.interrupt(RecordDamaged(damage_of(end)))
            case RunInterruption():
                raise end
            case _ if (unfinished := await self._unfinished()) is not None:
                return await self.after_error(unfinished)
            case _:
                return await self._fail(answer, end)

    async def after_cancellation(self, refusal: str | None = None) -> RunResult:
        """Clean up and end a cancelled run; `refusal` is the reason of a person against the clean-up."""
        take_back_cancellation()
        outcomes, replay = self._run.outcomes, self._run.replay
        if not outcomes.under_way:
            outcomes.under_way = {action.id: (action, number) for action, number in replay.under_way()}
        return await self._ending.finish_cancelling(refusal)

    async def _stop_unanswered(self, answer: Answer, error: JsonObject) -> RunResult:
        """Stop a run whose loop has no answer: a person may resume it; of a child, the parent decides."""
        if self._run.source.start.parent is not None:
            return await self._ending.stop_short(answer, AgentSituation.FAILED, error)
        return await self._ending.stop_at_limit(answer, error)

    async def _end(self, answer: Answer, end: RunEnded | LimitReached) -> RunResult:
        """End the run, or interrupt it at a limit that can be raised."""
        situation, error = end.situation, error_of(end)
        if situation is not AgentSituation.LIMIT_REACHED:
            return await self._ending.stop_short(answer, situation, error)
        if isinstance(end, LimitReached) and self._can_be_raised(end):
            return await self._ending.stop_at_limit(answer, error)
        return await self._ending.stop_short(answer, AgentSituation.FAILED, error)

    async def _fail(self, answer: Answer, end: BaseException) -> RunResult:
        """End the run with an exception of its program; the reason of a loop that stopped short is recorded."""
        run = self._run
        if isinstance(end, StoppedShortError) and run.source.definition.is_declarative:
            stopped: JsonObject = {"code": end.reason, "message": str(end), "retryable": False}
            return await self._stop_unanswered(replace(answer, interruption=end.reason), stopped)
        message, hidden = shown_with_words(end, run.redactor, run_id=run.id, place=words.RUN)
        error = error_of(end, message)
        result = await self._ending.stop_short(answer, AgentSituation.FAILED, error, hidden)
        return replace(result, cause=end)

    def _can_be_raised(self, reached: LimitReached) -> bool:
        """Return whether the run goes on when a limit is raised.

        The own limit of a child is final: its parent gets the failure. At the limit of a run above it waits with that.
        """
        run = self._run
        is_above = reached.account is not None and reached.account is not run.spending.own
        return run.source.start.parent is None or is_above

    async def _recall_secrets(self) -> None:
        """Register the secrets of replayed calls, as far as there are any, before the words of a failure are shown."""
        if self._run.secrets_to_recall:
            with suppress(Exception):
                await self._tools.recall_secrets()

    async def _unfinished(self) -> RunInterruption | None:
        """Return why a run cannot end with its program: an unused record, or calls that wait; None if it can."""
        try:
            await self._run.replay.ended()
        except RunInterruption as end:
            return end
        return None

    async def _unfinished_by(self, end: RunEnded) -> RunInterruption | None:
        """Return the same for a program that ended with an error of its own; None for an end from outside."""
        return await self._unfinished() if self._run.replay.liveness.met is not end else None


def take_back_cancellation() -> None:
    """Take the cancellation of the running task back, so that it can wait again."""
    task = asyncio.current_task()
    if task is not None:
        task.uncancel()

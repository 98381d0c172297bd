"""Following a run to its rest: taking it up if it has no owner, and its progress for the caller that waits."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from contextlib import suppress
from typing import TypeAlias

from pilotage.agent.events import (
    AgentEvent,
    RunPausedEvent,
    RunStartedEvent,
    StepFinishedEvent,
    StepStartedEvent,
    ToolCallResultEvent,
    ToolCallStartEvent,
)
from pilotage.agent.principal import Principal
from pilotage.agent.state import AgentState, AgentStateReason, AgentStatus
from pilotage.errors import RunConflictError
from pilotage.runtime.events.subscription import Subscription
from pilotage.runtime.journal.question_record import Question
from pilotage.runtime.runs import AgentRuns
from pilotage.values import value

Report: TypeAlias = Callable[[float, float | None, str | None], Awaitable[None]]
"""Sends a notification of progress: how far, of how much, and in words."""
_LOOKS_AGAIN_SECONDS = 5.0
# The events of an attempt may end a little before the run is at rest, or before the next attempt has begun.
_MOMENT_SECONDS = 0.01
_ASKING = frozenset({AgentStateReason.APPROVAL_REQUIRED, AgentStateReason.RECOVERY_REQUIRES_HITL})


@value
class RunAtRest:
    """A run that has ended, or that does not go on by itself: with the questions that it waits for."""

    state: AgentState
    questions: tuple[Question, ...] = ()


class RunFollower:
    """Follows the runs of an application for callers that wait. Leaving does not touch a run."""

    def __init__(self, runs: AgentRuns) -> None:
        self._runs = runs
        self._clock = runs.services.clock

    async def at_rest(self, run_id: str, principal: Principal, report: Report) -> RunAtRest:
        """Return when a run has ended, or waits for more than time.

        Raises:
            RunNotFoundError: there is no such run in the principal's tenant.
        """
        progress = RunProgress(report)
        cursor: str | None = None
        while True:
            now = await self.look(run_id, principal)
            if now is not None:
                return now
            await self.take_up(run_id, principal)
            events = self._runs.events(run_id, after=cursor, principal=principal)
            await self._read(run_id, events, progress)
            cursor = events.cursor
            await self._wake(run_id, principal)

    async def look(self, run_id: str, principal: Principal) -> RunAtRest | None:
        """Return the run if it is at rest; None while it goes on, or will go on by itself."""
        state = await self._runs.get(run_id, principal=principal)
        if state.is_terminal:
            return RunAtRest(state)
        # Also while a part of the run goes on: nothing else has to wait for the answers.
        if questions := await self._runs.questions(run_id, principal=principal):
            return RunAtRest(state, questions)
        if state.status is not AgentStatus.INTERRUPTED or self._runs.is_driven(run_id):
            return None
        if state.wake_at is not None or await self._is_answered(state, principal):
            return None
        # It may have gone on, or even ended, since its state was read.
        return RunAtRest(state) if state == await self._runs.get(run_id, principal=principal) else None

    async def take_up(self, run_id: str, principal: Principal) -> None:
        """Take up a run without an owner; one that another process has is left there."""
        state = await self._runs.get(run_id, principal=principal)
        is_due = state.wake_at is None or state.wake_at <= self._clock.now()
        if state.is_terminal or self._runs.is_driven(run_id) or not is_due:
            return
        with suppress(RunConflictError):
            await self._runs.take_up(run_id, principal=principal)

    async def _is_answered(self, state: AgentState, principal: Principal) -> bool:
        """Return whether a run has an answer to its questions that it has not taken yet."""
        if state.reason not in _ASKING:
            return False
        return bool(await self._runs.waiting_answers(state.id, principal=principal))

    async def _read(self, run_id: str, events: Subscription, progress: RunProgress) -> None:
        """Report events until they end; of a run that is not driven here, only for a while: its owner may be dead."""
        while True:
            seconds = None if self._runs.is_driven(run_id) else _LOOKS_AGAIN_SECONDS
            try:
                async with asyncio.timeout(seconds):
                    event = await anext(events, None)
            except TimeoutError:
                return
            if event is None:
                return
            await progress.take(event)

    async def _wake(self, run_id: str, principal: Principal) -> None:
        """Return in a moment, or when a run that sleeps is to go on."""
        state = await self._runs.get(run_id, principal=principal)
        seconds = _MOMENT_SECONDS
        if state.status is AgentStatus.INTERRUPTED and state.wake_at is not None:
            left = (state.wake_at - self._clock.now()).total_seconds()
            seconds = min(max(left, seconds), _LOOKS_AGAIN_SECONDS)
        if not state.is_terminal:
            await self._clock.sleep(seconds)


class RunProgress:
    """RunProgress of a run as notifications: the events that matter are counted, and named in words."""

    def __init__(self, report: Report) -> None:
        self._report = report
        self._count = 0

    async def take(self, event: AgentEvent) -> None:
        """Report an event, if it is one that matters."""
        words = words_of(event)
        if words is not None:
            self._count += 1
            await self._report(float(self._count), None, words)


def words_of(event: AgentEvent) -> str | None:
    """Return what an event says about the progress of a run; None for one that says nothing."""
    match event:
        case RunStartedEvent():
            return f"{event.attribution.agent_id} started"
        case StepStartedEvent():
            return f"step {event.step_name} started"
        case StepFinishedEvent():
            return f"step {event.step_name} finished"
        case ToolCallStartEvent():
            return f"tool {event.tool_name} called"
        case ToolCallResultEvent():
            return f"tool {event.tool_name} finished"
        case RunPausedEvent():
            return f"waits: {event.prompt}"
        case _:
            return None

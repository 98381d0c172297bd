"""`LiveRun`: a run under way in this process, as it is reached from outside."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable

from pilotage.agent.run_values import RunResult
from pilotage.agent.signals import AgentSignal
from pilotage.filling import unchecked
from pilotage.runtime.door.run import Run
from pilotage.values import value


@value
class LiveRun:
    """A run under way in this process: its task, and how it is reached from outside.

    `cancel_unstored` is for the cancellation of a parent, which is no signal in the store.
    """

    run: Run
    task: asyncio.Task[RunResult]
    cancel: Callable[[AgentSignal], Awaitable[bool]]
    cancel_unstored: Callable[[AgentSignal], Awaitable[bool]]
    receive: Callable[[AgentSignal], None]
    hand_over: Callable[[], None]
    is_ending: Callable[[], bool]

    @property
    def id(self) -> str:
        """The id of the run."""
        return self.run.id

    def stop(self) -> None:
        """Stop the attempt, not its run: the program has cut none of its calls short."""
        self.run.replay.liveness.stopping()
        self.task.cancel()


new_live_run = unchecked(LiveRun)

"""A run under way in this process: the attempt and the task that drives it."""

from __future__ import annotations

import asyncio

from pilotage.agent.run_result import RunResult
from pilotage.runtime.attempts.attempt import RunAttempt
from pilotage.values import value


@value
class LiveRun:
    """An attempt that is being driven."""

    run_id: str
    attempt: RunAttempt
    task: asyncio.Task[RunResult]

"""Running the hooks of a cleanup: all at once, under one deadline, each ending in an outcome."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Collection, Sequence
from typing import TypeAlias

from pilotage.agent.cancellation import AgentCancellationCleanupResult, AgentCancellationCleanupTask
from pilotage.agent.signals import AgentSignal
from pilotage.agent.state import AgentState
from pilotage.errors import PilotageError

CLEANUP_TIMEOUT_CODE = "cancellation_cleanup_timeout"
CLEANUP_CANCELLED_CODE = "cancellation_cleanup_cancelled"

_Running: TypeAlias = "asyncio.Task[AgentCancellationCleanupResult]"
_WORD_START = re.compile(r"(?<=[a-z0-9])(?=[A-Z])")


async def run_cleanup_hooks(
    state: AgentState,
    signal: AgentSignal,
    tasks: Sequence[AgentCancellationCleanupTask],
    deadline_seconds: float | None,
) -> tuple[AgentCancellationCleanupResult, ...]:
    """Return the outcome of each hook, in the order of the tasks."""
    running = [asyncio.create_task(task.run(state=state, signal=signal)) for task in tasks]
    late = await _wait(running, deadline_seconds)
    return tuple(
        _late_outcome(task, deadline_seconds) if hook in late else _outcome_of(task, hook)
        for task, hook in zip(tasks, running, strict=True)
    )


async def _wait(running: Sequence[_Running], deadline_seconds: float | None) -> set[_Running]:
    """Wait for the hooks until the deadline; return those that missed it, cancelled."""
    if not running:
        return set()
    try:
        _, late = await asyncio.wait(running, timeout=deadline_seconds)
    except asyncio.CancelledError:
        await _stop(running, deadline_seconds)
        raise
    await _stop(late, deadline_seconds)
    return late


async def _stop(running: Collection[_Running], grace_seconds: float | None) -> None:
    for hook in running:
        hook.cancel()
    if running:
        stopped, _ = await asyncio.wait(running, timeout=grace_seconds)
        for hook in stopped:
            # The event loop reports an exception that is never retrieved.
            _ = hook.cancelled() or hook.exception()


def _late_outcome(
    task: AgentCancellationCleanupTask, deadline_seconds: float | None
) -> AgentCancellationCleanupResult:
    message = f"The cleanup did not end within {deadline_seconds} seconds."
    return _failed(task, CLEANUP_TIMEOUT_CODE, message)


def _outcome_of(task: AgentCancellationCleanupTask, hook: _Running) -> AgentCancellationCleanupResult:
    # A hook that stops a task and awaits it ends cancelled itself; that is its outcome, not ours.
    if hook.cancelled():
        return _failed(task, CLEANUP_CANCELLED_CODE, "The cleanup was cancelled from within.")
    error = hook.exception()
    if error is None:
        return hook.result()
    if not isinstance(error, Exception):
        raise error
    return _failed(task, error_code_of(error), str(error) if str(error).strip() else type(error).__name__)


def _failed(task: AgentCancellationCleanupTask, code: str, message: str) -> AgentCancellationCleanupResult:
    return AgentCancellationCleanupResult.failed(
        target_kind=task.target_kind,
        target_ref=task.target_ref,
        error_code=code,
        message=message,
        metadata=task.metadata,
    )


def error_code_of(error: Exception) -> str:
    """Return the code of an exception: its own, or the name of its class in lower case."""
    return (
        error.code if isinstance(error, PilotageError) else _WORD_START.sub("_", type(error).__name__).lower()
    )

"""Driving one attempt to its end: its commits settle, what a lost owner knows is told, its lease is given back."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from typing import Any

from pilotage.agent.run_result import RunResult
from pilotage.runtime.attempts.attempt import RunAttempt
from pilotage.runtime.journal.leasing import Hold
from pilotage.runtime.service.audit_trail import AuditTrail


async def driven(attempt: RunAttempt, hold: Hold | None, audit: AuditTrail | None) -> RunResult:
    """Drive an attempt, and leave nothing of it under way, however it ends."""
    try:
        result = await attempt.run()
        if hold is not None and result.state.is_terminal:
            hold.end()
        return result
    finally:
        if audit is not None or not _has_left(attempt, hold):
            await _to_the_end(_left(attempt, hold, audit))


def _has_left(attempt: RunAttempt, hold: Hold | None) -> bool:
    """Whether nothing of an attempt is under way any more: then nobody needs a task to see to it."""
    effects = attempt.effects
    is_told = effects.outcomes.late is None or effects.outcomes.late.is_settled
    return is_told and effects.ledger.is_settled and (hold is None or not hold.is_held)


async def _left(attempt: RunAttempt, hold: Hold | None, audit: AuditTrail | None) -> None:
    await attempt.effects.ledger.settle()
    if attempt.effects.outcomes.late is not None:
        await attempt.effects.outcomes.late.settle()
    await let_go(hold)
    if audit is not None:
        await audit.write(attempt.effects.ledger.run)


async def _to_the_end(leaving: Coroutine[Any, Any, None]) -> None:
    """Who is stopped while it leaves has left all the same: a lease that is not given back keeps others waiting."""
    task = asyncio.ensure_future(leaving)
    try:
        await asyncio.shield(task)
    except asyncio.CancelledError:
        await asyncio.wait([task])
        raise


async def let_go(hold: Hold | None) -> None:
    """Give a lease back, where there is one."""
    if hold is not None:
        await hold.let_go()

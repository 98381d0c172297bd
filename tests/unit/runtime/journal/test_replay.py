"""What calls of a durable run wait for, by the place they are at; and what is left of the record of such a place."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest
from tests.unit.runtime.journal.test_ledger import Books

from pilotage.agent.recovery import AgentActionKind
from pilotage.agent.tools.metadata import Idempotency
from pilotage.runtime.journal.durable_replay import DurableReplay
from pilotage.runtime.journal.interruptions import Paused
from pilotage.runtime.journal.positions import Call
from pilotage.runtime.journal.scope import Action, StepScope


def made(replay: DurableReplay, path: str) -> Call:
    """Return a call at a path that is under way."""
    scope = StepScope(path, asyncio.current_task())
    kind, once = AgentActionKind.TOOL_CALL, Idempotency.NON_IDEMPOTENT
    action = Action(
        scope.next_id("tool:pay"), kind, "pay", {}, {}, once, is_read_only=False, fingerprint=path
    )
    call = replay.make(scope, action)
    assert call is not None
    replay.ask(call)
    return call


@asynccontextmanager
async def parked(replay: DurableReplay, path: str, question: str) -> AsyncIterator[asyncio.Task[None]]:
    """Keep a call at a path parked for a question, while another call is under way."""
    pause = Paused(question)

    async def wait() -> None:
        await replay.park(made(replay, path), pause, may_withdraw=True)

    made(replay, "run")
    task = asyncio.create_task(wait())
    await asyncio.sleep(0)
    try:
        yield task
    finally:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)


@pytest.mark.parametrize(
    ("below", "is_found"),
    [
        ("run", True),
        ("run/b#1", True),
        ("run/b#1/0", True),
        ("run/b#1/0/tool:pay#1", False),
        ("run/b#1/1", False),
        ("run/b", False),
        ("run/b#10", False),
    ],
)
async def test_a_pause_is_found_at_its_path_and_above(below: str, is_found: bool) -> None:
    replay = DurableReplay(Books().ledger())
    async with parked(replay, "run/b#1/0", "question"):
        pause = replay.pause_below(below)
        assert (pause.wait_ids if pause else None) == (("question",) if is_found else None)


async def test_a_wait_that_was_given_up_is_not_found() -> None:
    replay = DurableReplay(Books().ledger())
    async with parked(replay, "run/b#1/0", "question") as task:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)
        assert replay.pause_below("run") is None


async def test_a_part_with_a_parked_call_has_not_ended() -> None:
    replay = DurableReplay(Books().ledger())
    async with parked(replay, "run/b#1/0", "question"):
        with pytest.raises(Paused, match="question"):
            await replay.part_ended("run/b#1/0")
        await replay.part_ended("run/b#1/1")

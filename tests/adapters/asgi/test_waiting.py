"""Waiting for the first of several: nothing is left over, whoever cancels, and however often."""

from __future__ import annotations

import asyncio

import anyio
import pytest
from tests.behaviour.newsroom import let_run

from pilotage.adapters.asgi.streaming import until_the_first_ends


class Work:
    """Something that lasts, and takes a while to stop."""

    def __init__(self, turns_to_stop: int = 3) -> None:
        self._turns = turns_to_stop
        self.is_over = False

    async def last(self) -> None:
        try:
            await asyncio.Event().wait()
        finally:
            for _ in range(self._turns):
                await asyncio.sleep(0)
            self.is_over = True


async def test_the_others_are_over_when_the_first_one_is() -> None:
    works = [Work(), Work()]
    await until_the_first_ends(*(work.last() for work in works), asyncio.sleep(0))
    assert [work.is_over for work in works] == [True, True]


async def test_what_the_first_one_raises_is_raised() -> None:
    async def fail() -> None:
        raise ValueError("no")

    work = Work()
    with pytest.raises(ValueError, match="no"):
        await until_the_first_ends(work.last(), fail())
    assert work.is_over


async def test_a_scope_that_cancels_again_and_again_gets_its_own_cancellation_back() -> None:
    work = Work(turns_to_stop=10)
    with anyio.CancelScope() as scope:
        asyncio.get_running_loop().call_soon(scope.cancel)
        await until_the_first_ends(work.last())
        pytest.fail("it was cancelled")
    assert scope.cancelled_caught
    assert work.is_over


async def test_who_is_cancelled_while_the_others_stop_is_cancelled_behind_them() -> None:
    work = Work(turns_to_stop=10)
    waiting = asyncio.create_task(until_the_first_ends(work.last(), asyncio.sleep(0)))
    await let_run(4)
    waiting.cancel("enough")
    with pytest.raises(asyncio.CancelledError, match="enough"):
        await waiting
    assert work.is_over

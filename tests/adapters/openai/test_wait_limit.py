"""One timer for many waits: it ends those that take too long and no others."""

from __future__ import annotations

import asyncio

import pytest
from tests.adapters.openai.virtual_loop import run_virtually

from pilotage.adapters.model_http.http_server import WaitLimit


async def waited(limit: WaitLimit, seconds: float, at_most: float) -> str:
    limit.begin(asyncio.get_running_loop().time() + at_most)
    try:
        await asyncio.sleep(seconds)
    except asyncio.CancelledError:
        if limit.is_reason():
            return "too long"
        raise
    finally:
        limit.end()
    return "in time"


def test_waits_in_time_are_left_alone_however_many_they_are() -> None:
    async def program() -> list[str]:
        limit = WaitLimit()
        found = [await waited(limit, 9, 10) for _ in range(20)]
        limit.close()
        return found

    assert run_virtually(program()) == ["in time"] * 20


def test_a_wait_that_takes_too_long_ends_when_its_time_is_over() -> None:
    async def program() -> tuple[list[str], float]:
        limit = WaitLimit()
        found = [await waited(limit, seconds, 10) for seconds in (9, 11, 9, 100)]
        limit.close()
        return found, asyncio.get_running_loop().time()

    found, took = run_virtually(program())
    assert found == ["in time", "too long", "in time", "too long"]
    assert took == pytest.approx(9 + 10 + 9 + 10, abs=0.01)


def test_a_shorter_limit_counts_at_once() -> None:
    async def program() -> tuple[list[str], float]:
        limit = WaitLimit()
        found = [await waited(limit, 1, 300), await waited(limit, 100, 10)]
        limit.close()
        return found, asyncio.get_running_loop().time()

    found, took = run_virtually(program())
    assert found == ["in time", "too long"]
    assert took == pytest.approx(11, abs=0.01)


def test_time_that_passes_between_waits_counts_against_none() -> None:
    async def program() -> list[str]:
        limit = WaitLimit()
        found: list[str] = []
        for _ in range(3):
            found.append(await waited(limit, 5, 10))
            await asyncio.sleep(60)
        limit.close()
        return found

    assert run_virtually(program()) == ["in time"] * 3


def test_whoever_else_cancels_the_task_is_obeyed() -> None:
    async def program() -> None:
        limit = WaitLimit()
        task = asyncio.ensure_future(waited(limit, 100, 10))
        asyncio.get_running_loop().call_later(10, task.cancel)  # in the same moment as the limit
        with pytest.raises(asyncio.CancelledError):
            await task
        early = asyncio.ensure_future(waited(limit, 100, 10))
        asyncio.get_running_loop().call_later(5, early.cancel)
        with pytest.raises(asyncio.CancelledError):
            await early
        limit.close()

    run_virtually(program())


def test_a_timeout_around_it_still_works() -> None:
    async def program() -> str:
        limit = WaitLimit()
        try:
            async with asyncio.timeout(5):
                return await waited(limit, 100, 10)
        except TimeoutError:
            return "the one around it"
        finally:
            limit.close()

    assert run_virtually(program()) == "the one around it"

"""Threads that do jobs for event loops: what is asked for is done, and whoever waits gets to know it."""

from __future__ import annotations

import asyncio
import subprocess
import sys
import threading
from collections.abc import Iterator
from functools import partial
from gc import collect
from textwrap import dedent
from typing import Any

import pytest

from pilotage.adapters.sqlalchemy.threads import DatabaseThreads, ThreadResult, ThreadsEndedError, deliver

NAME = "threads-under-test"


@pytest.fixture
def threads() -> Iterator[DatabaseThreads]:
    made = DatabaseThreads(3, NAME)
    yield made
    made.close()


def alive() -> int:
    return sum(thread.name.startswith(NAME) for thread in threading.enumerate())


async def test_a_job_is_done_in_another_thread_and_gives_what_it_gives(threads: DatabaseThreads) -> None:
    assert await threads.do(lambda: threading.current_thread().name) == f"{NAME}_0"


async def test_what_a_job_raises_reaches_whoever_waits_and_nobody_else(threads: DatabaseThreads) -> None:
    failed = threads.do(lambda: {}["missing"])
    fine = threads.do(lambda: 1)
    with pytest.raises(KeyError, match="missing"):
        await failed
    assert await fine == 1


async def test_no_thread_is_made_before_there_is_a_job_and_none_while_one_is_free(
    threads: DatabaseThreads,
) -> None:
    assert alive() == 0
    for number in range(20):
        assert await threads.do(partial(int, number)) == number
    assert alive() == 1


async def test_as_many_jobs_are_done_at_once_as_there_may_be_threads(threads: DatabaseThreads) -> None:
    together = threading.Barrier(3)
    assert sorted(await asyncio.gather(*(threads.do(lambda: together.wait(120)) for _ in range(3)))) == [
        0,
        1,
        2,
    ]
    many = [threads.do(partial(int, number)) for number in range(50)]
    assert await asyncio.gather(*many) == list(range(50))
    assert alive() == 3


async def test_one_thread_does_jobs_in_the_order_they_came() -> None:
    one, seen = DatabaseThreads(1, NAME), list[int]()
    await asyncio.gather(*(one.do(partial(seen.append, number)) for number in range(100)))
    one.close()
    assert seen == list(range(100))


async def test_a_job_nobody_waits_for_any_more_is_done_all_the_same() -> None:
    one, may_end, seen = DatabaseThreads(1, NAME), threading.Event(), list[str]()
    under_way = one.do(lambda: (may_end.wait(120), seen.append("under way")))
    waiting = one.do(lambda: seen.append("waiting"))
    behind = one.do(lambda: seen.append("behind"))
    under_way.cancel()
    waiting.cancel()
    may_end.set()
    await behind
    one.close()
    assert seen == ["under way", "waiting", "behind"]


async def test_closing_waits_for_everything_that_was_asked_for(threads: DatabaseThreads) -> None:
    asked = [threads.do(partial(int, number)) for number in range(20)]
    threads.close()
    assert alive() == 0
    assert await asyncio.gather(*asked) == list(range(20))


async def test_who_comes_when_they_are_closed_is_told(threads: DatabaseThreads) -> None:
    await threads.do(lambda: None)
    for _ in range(2):
        threads.close()
        with pytest.raises(ThreadsEndedError):
            threads.do(lambda: None)


def test_a_loop_that_was_closed_meanwhile_harms_nobody() -> None:
    one, may_end = DatabaseThreads(1, NAME), threading.Event()

    async def ask_and_leave() -> None:
        one.do(lambda: may_end.wait(120))

    async def ask() -> str:
        return await one.do(lambda: "still there")

    asyncio.run(ask_and_leave())
    may_end.set()
    assert asyncio.run(ask()) == "still there"
    one.close()


async def test_threads_that_nobody_remembers_end() -> None:
    forgotten = DatabaseThreads(2, NAME)
    await forgotten.do(lambda: None)
    del forgotten
    collect()
    assert alive() == 0


def test_what_was_asked_for_is_done_before_the_interpreter_ends() -> None:
    program = dedent("""
        import asyncio, time
        from pilotage.adapters.sqlalchemy.threads import DatabaseThreads
        threads = DatabaseThreads(1, "left-open")
        async def main():
            threads.do(lambda: (time.sleep(0.2), print("done", flush=True)))
        asyncio.run(main())
    """)
    ended = subprocess.run(  # noqa: S603 - our own program
        [sys.executable, "-c", program], capture_output=True, text=True, timeout=240, check=True
    )
    assert (ended.stdout, ended.stderr) == ("done\n", "")


class CountingLoop(asyncio.SelectorEventLoop):
    """An event loop that knows how often others woke it."""

    woken = 0

    def call_soon_threadsafe(self, *given: Any, **more: Any) -> asyncio.Handle:
        self.woken += 1
        return super().call_soon_threadsafe(*given, **more)


def test_answers_that_come_together_wake_the_loop_once() -> None:
    loop = CountingLoop()

    async def heard() -> list[int]:
        waiting: list[asyncio.Future[int]] = [loop.create_future() for _ in range(10)]
        waiting[3].cancel()
        deliver(ThreadResult(each, number) for number, each in enumerate(waiting))
        return await asyncio.gather(*waiting[:3], *waiting[4:])

    assert loop.run_until_complete(heard()) == [0, 1, 2, 4, 5, 6, 7, 8, 9]
    assert loop.woken == 1
    loop.close()

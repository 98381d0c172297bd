"""The threads that talk to a database, and how the event loop gets their answers.

A job goes to a thread through a queue, and its answer comes back as a future of the loop that asked. The executors of
the standard library put a second future, a condition and two more locks in between.
"""

from __future__ import annotations

import asyncio
import weakref
from collections import deque
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from queue import SimpleQueue
from threading import Lock, Thread, current_thread
from typing import Any, NamedTuple, TypeAlias, TypeVar

T = TypeVar("T")


class ThreadsEndedError(RuntimeError):
    """Nobody is there any more to do a job."""


class Answer(NamedTuple):
    """What came of a job, and who waits for it."""

    waiting: asyncio.Future[Any]
    given: Any = None
    error: BaseException | None = None


Job: TypeAlias = tuple[Callable[[], Any], asyncio.Future[Any]]

_Jobs: TypeAlias = "SimpleQueue[Job | None]"


class Threads:
    """A few threads that do jobs in the order they come; made when they are needed, ended by `close`.

    A job is done whether or not somebody still waits for it: what was asked of a database is not taken back.
    """

    def __init__(self, most: int, name: str) -> None:
        self._most, self._name = most, name
        self._jobs: _Jobs = SimpleQueue()
        self._threads: list[Thread] = []
        self._idle: deque[None] = deque()
        self._lock = Lock()
        self._is_closed = False
        # Threads of which nobody remembers the owner end, too; so do all of them before the interpreter does.
        self._end = weakref.finalize(self, _end, self._jobs, self._threads)

    def do(self, job: Callable[[], T]) -> asyncio.Future[T]:
        """What a job gives or raises, for the loop that runs.

        Raises:
            ThreadsEndedError: the threads have ended.
        """
        future: asyncio.Future[T] = asyncio.get_running_loop().create_future()
        with self._lock:
            self.check_open()
            self._jobs.put((job, future))
            self._see_that_somebody_takes_it()
        return future

    def check_open(self) -> None:
        """For whoever does without a thread what one would do.

        Raises:
            ThreadsEndedError: the threads have ended, or are about to.
        """
        if self._is_closed:
            raise ThreadsEndedError

    def close(self) -> None:
        """Return when everything that was asked for is done and the threads have ended."""
        with self._lock:
            self._is_closed = True
        self._end()

    def _see_that_somebody_takes_it(self) -> None:
        # Each thread that is done with a job leaves a mark, and each job takes one.
        if self._idle:
            self._idle.pop()
        elif len(self._threads) < self._most:
            name = f"{self._name}_{len(self._threads)}"
            # The interpreter does not wait for threads of this kind; `_end` does, once they know that they should end.
            thread = Thread(target=_work, args=(self._jobs, self._idle), name=name, daemon=True)
            thread.start()
            self._threads.append(thread)


def tell(answers: Iterable[Answer]) -> None:
    """Give answers to those who wait for them, from whatever thread; each loop is woken once."""
    by_loop: dict[asyncio.AbstractEventLoop, list[Answer]] = {}
    for answer in answers:
        by_loop.setdefault(answer.waiting.get_loop(), []).append(answer)
    for loop, its in by_loop.items():
        # A loop that is closed has nobody left who could hear.
        with suppress(RuntimeError):
            loop.call_soon_threadsafe(_hear, its)


def _hear(answers: Sequence[Answer]) -> None:
    for waiting, given, error in answers:
        if waiting.done():
            continue  # whoever waited was cancelled
        if error is None:
            waiting.set_result(given)
        else:
            waiting.set_exception(error)


def _work(jobs: _Jobs, idle: deque[None]) -> None:
    while (job := jobs.get()) is not None:
        answer = _answer(*job)
        # Before anybody hears of it: whoever asks next has a thread that is free.
        idle.append(None)
        tell((answer,))
        # What a job was about does not have to live until the next one comes.
        del job, answer


def _answer(job: Callable[[], Any], waiting: asyncio.Future[Any]) -> Answer:
    try:
        return Answer(waiting, job())
    except BaseException as error:  # noqa: BLE001 - it goes to whoever waits
        return Answer(waiting, error=error)


def _end(jobs: _Jobs, threads: Sequence[Thread]) -> None:
    for _ in threads:
        jobs.put(None)
    for thread in threads:
        if thread is not current_thread():
            thread.join()

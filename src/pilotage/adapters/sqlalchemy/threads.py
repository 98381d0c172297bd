"""The threads that talk to a database, and how the event loop gets their results.

A job goes to a thread through a queue, and its result comes back as a future of the loop that asked. The executors of
the standard library put a second future, a condition and two more locks in between.
"""

from __future__ import annotations

import asyncio
import weakref
from collections import deque
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from functools import partial
from queue import SimpleQueue
from threading import Lock, Thread, current_thread
from typing import Any, NamedTuple, TypeAlias, TypeVar

from sqlalchemy import Connection, exc

from pilotage.adapters.sqlalchemy.dialect import is_away

T = TypeVar("T")
Work: TypeAlias = Callable[[Connection], T]


class ThreadsEndedError(RuntimeError):
    """The threads have ended."""


class ThreadResult(NamedTuple):
    """The result or error of a job, for the future that waits for it."""

    waiting: asyncio.Future[Any]
    given: Any = None
    error: BaseException | None = None


_Jobs: TypeAlias = "SimpleQueue[tuple[Callable[[], Any], asyncio.Future[Any]] | None]"


class DatabaseThreads:
    """A few threads that do jobs in the order they come; made when they are needed, ended by `close`.

    A job is done even if its future is cancelled: a request to a database cannot be withdrawn.
    """

    def __init__(self, most: int, name: str) -> None:
        self._most, self._name = most, name
        self._jobs: _Jobs = SimpleQueue()
        self._threads: list[Thread] = []
        self._idle: deque[None] = deque()
        self._lock = Lock()
        self._is_closed = False
        # The threads end with their owner, at the latest before the interpreter does.
        self._end = weakref.finalize(self, _end, self._jobs, self._threads)

    def do(self, job: Callable[[], T]) -> asyncio.Future[T]:
        """Return the future of a job's result, for the running loop.

        Raises:
            ThreadsEndedError: the threads have ended.
        """
        future: asyncio.Future[T] = asyncio.get_running_loop().create_future()
        with self._lock:
            if self._is_closed:
                raise ThreadsEndedError
            self._jobs.put((job, future))
            # Each thread that is done with a job leaves a mark, and each job takes one.
            if self._idle:
                self._idle.pop()
            elif len(self._threads) < self._most:
                self._start_thread()
        return future

    def close(self) -> None:
        """Return when all jobs are done and the threads have ended."""
        with self._lock:
            self._is_closed = True
        self._end()

    def _start_thread(self) -> None:
        name = f"{self._name}_{len(self._threads)}"
        # The interpreter does not wait for daemon threads; `_end` does, after it stopped them.
        thread = Thread(target=_work, args=(self._jobs, self._idle), name=name, daemon=True)
        thread.start()
        self._threads.append(thread)


def _work(jobs: _Jobs, idle: deque[None]) -> None:
    while (job := jobs.get()) is not None:
        answer = _answer(*job)
        # Before the result is delivered: the next job then finds a thread that is free.
        idle.append(None)
        deliver((answer,))
        # The job and its result must not live until the next job comes.
        del job, answer


def _answer(job: Callable[[], Any], waiting: asyncio.Future[Any]) -> ThreadResult:
    try:
        return ThreadResult(waiting, job())
    except BaseException as error:  # noqa: BLE001 - it goes to the future
        return ThreadResult(waiting, error=error)


def _end(jobs: _Jobs, threads: Sequence[Thread]) -> None:
    for _ in threads:
        jobs.put(None)
    for thread in threads:
        if thread is not current_thread():
            thread.join()


def deliver(answers: Iterable[ThreadResult]) -> None:
    """Set the futures of answers, from any thread; each loop is woken once."""
    by_loop: dict[asyncio.AbstractEventLoop, list[ThreadResult]] = {}
    for answer in answers:
        by_loop.setdefault(answer.waiting.get_loop(), []).append(answer)
    for loop, its in by_loop.items():
        # A closed loop has no tasks left that could wait.
        with suppress(RuntimeError):
            loop.call_soon_threadsafe(_set, its)


def _set(answers: Sequence[ThreadResult]) -> None:
    for waiting, given, error in answers:
        if waiting.done():
            continue  # the waiting task was cancelled
        if error is None:
            waiting.set_result(given)
        else:
            waiting.set_exception(error)


class Gathering:
    """Does many small pieces of work in few transactions. Where one of them fails, each is done alone.

    The busier the threads are, the more work is gathered for one transaction.
    """

    def __init__(self, threads: DatabaseThreads, transact: Callable[[Work[Any]], Any]) -> None:
        self._threads, self._transact = threads, transact
        self._lock = Lock()
        self._waiting: list[tuple[Work[Any], asyncio.Future[Any]]] = []
        self._undone = 0

    @property
    def is_idle(self) -> bool:
        """Whether no work waits or is under way, so that work done elsewhere overtakes none."""
        return not self._undone

    def add(self, work: Work[T]) -> asyncio.Future[T]:
        """Return the future of the result of a piece of work.

        Raises:
            ThreadsEndedError: the threads have ended.
        """
        future: asyncio.Future[T] = asyncio.get_running_loop().create_future()
        with self._lock:
            self._waiting.append((work, future))
            self._undone += 1
            is_first = len(self._waiting) == 1
        if is_first:
            try:
                self._threads.do(self._do_waiting)
            except ThreadsEndedError:
                self._undone -= len(self._take_waiting())
                raise
        return future

    def _take_waiting(self) -> list[tuple[Work[Any], asyncio.Future[Any]]]:
        with self._lock:
            waiting, self._waiting = self._waiting, []
        return waiting

    def _do_waiting(self) -> None:
        waiting = self._take_waiting()
        answers = self._done_together(waiting) if len(waiting) > 1 else []
        if not answers:
            answers = [_answer(partial(self._transact, work), future) for work, future in waiting]
        with self._lock:
            self._undone -= len(waiting)
        deliver(answers)

    def _done_together(self, wanted: list[tuple[Work[Any], asyncio.Future[Any]]]) -> list[ThreadResult]:
        """Return the answers to all of them; none where one fails, and each has to be done alone."""
        try:
            given = self._transact(lambda connection: [work(connection) for work, _ in wanted])
        except Exception as error:  # noqa: BLE001 - each piece of work then meets its own error
            if not (isinstance(error, exc.DBAPIError) and is_away(error)):
                return []
            # The server is away: trying each of them would only take longer.
            return [ThreadResult(future, error=error) for _, future in wanted]
        return [ThreadResult(future, each) for (_, future), each in zip(wanted, given, strict=True)]

"""Work that waits together is done together, in one transaction."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from threading import Lock
from typing import Any, TypeAlias

from sqlalchemy import Connection, exc

from pilotage.adapters.sqlalchemy.errors import is_away
from pilotage.adapters.sqlalchemy.threads import Answer, Threads, ThreadsEndedError, tell

Work: TypeAlias = Callable[[Connection], Any]


class Gathering:
    """Does many small pieces of work in few transactions. Where one of them fails, each is done alone.

    While nobody has time for it, more gathers: the busier the threads are, the more goes into one transaction.
    """

    def __init__(self, threads: Threads, transact: Callable[[Work], Any]) -> None:
        self._threads, self._transact = threads, transact
        self._lock = Lock()
        self._waiting: list[tuple[Work, asyncio.Future[Any]]] = []
        self._undone = 0

    @property
    def is_idle(self) -> bool:
        """Whether nothing waits or is under way: then nothing is overtaken by what is done elsewhere."""
        return not self._undone

    def add(self, work: Work) -> asyncio.Future[Any]:
        """Let a piece of work be done.

        Raises:
            ThreadsEndedError: the threads have ended.
        """
        future: asyncio.Future[Any] = asyncio.get_running_loop().create_future()
        with self._lock:
            self._waiting.append((work, future))
            self._undone += 1
            is_first = len(self._waiting) == 1
        if is_first:
            try:
                self._threads.do(self._do_what_waits)
            except ThreadsEndedError:
                self._forget_what_waits()
                raise
        return future

    def _do_what_waits(self) -> None:
        with self._lock:
            waiting, self._waiting = self._waiting, []
        answers = (len(waiting) > 1 and self._done_together(waiting)) or [*map(self._done_alone, waiting)]
        with self._lock:
            self._undone -= len(waiting)
        tell(answers)

    def _forget_what_waits(self) -> None:
        with self._lock:
            self._undone -= len(self._waiting)
            self._waiting.clear()

    def _done_alone(self, wanted: tuple[Work, asyncio.Future[Any]]) -> Answer:
        work, future = wanted
        try:
            return Answer(future, self._transact(work))
        except BaseException as error:  # noqa: BLE001 - it goes to whoever waits
            return Answer(future, error=error)

    def _done_together(self, wanted: list[tuple[Work, asyncio.Future[Any]]]) -> list[Answer]:
        """The answers to all of them; none where one fails, and each has to find out for itself."""
        try:
            given = self._transact(lambda connection: [work(connection) for work, _ in wanted])
        except Exception as error:  # noqa: BLE001 - whose failure it was, each finds out for itself
            if not (isinstance(error, exc.DBAPIError) and is_away(error)):
                return []
            # Nobody answers: asking for each of them would only take longer.
            return [Answer(future, error=error) for _, future in wanted]
        return [Answer(future, each) for (_, future), each in zip(wanted, given, strict=True)]

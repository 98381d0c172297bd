"""Work that waits together is done together, in one transaction."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import Executor, Future
from threading import Lock
from typing import Any, TypeAlias

from sqlalchemy import Connection, exc

from pilotage.adapters.sqlalchemy.errors import is_away

Work: TypeAlias = Callable[[Connection], Any]


class Gathering:
    """Does many small pieces of work in few transactions. Where one of them fails, each is done alone.

    While nobody has time for it, more gathers: the busier the threads are, the more goes into one transaction.
    """

    def __init__(self, threads: Executor, transact: Callable[[Work], Any]) -> None:
        self._threads, self._transact = threads, transact
        self._lock = Lock()
        self._waiting: list[tuple[Work, Future[Any]]] = []

    def add(self, work: Work) -> Future[Any]:
        """Let a piece of work be done.

        Raises:
            RuntimeError: the threads have ended.
        """
        future: Future[Any] = Future()
        with self._lock:
            self._waiting.append((work, future))
            is_first = len(self._waiting) == 1
        if is_first:
            try:
                self._threads.submit(self._do_what_waits)
            except RuntimeError:
                self._waiting.clear()
                raise
        return future

    def _do_what_waits(self) -> None:
        with self._lock:
            waiting, self._waiting = self._waiting, []
        wanted = [each for each in waiting if each[1].set_running_or_notify_cancel()]
        if len(wanted) > 1 and self._are_done_together(wanted):
            return
        for work, future in wanted:
            try:
                future.set_result(self._transact(work))
            except BaseException as error:  # noqa: BLE001 - it goes to whoever waits
                future.set_exception(error)

    def _are_done_together(self, wanted: list[tuple[Work, Future[Any]]]) -> bool:
        try:
            given = self._transact(lambda connection: [work(connection) for work, _ in wanted])
        except Exception as error:  # noqa: BLE001 - whose failure it was, each finds out for itself
            if not (isinstance(error, exc.DBAPIError) and is_away(error)):
                return False
            # Nobody answers: asking for each of them would only take longer.
            for _, future in wanted:
                future.set_exception(error)
            return True
        for (_, future), each in zip(wanted, given, strict=True):
            future.set_result(each)
        return True

"""The streams of runs and controllers that are open in a process: how many, whose, and how much of it they take."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Generator
from contextlib import contextmanager
from typing import ClassVar
from weakref import WeakKeyDictionary

from pilotage.adapters.asgi.common_end import CommonEnd
from pilotage.adapters.asgi.lasting_answer import TooManyStreamsError
from pilotage.adapters.fastapi.errors import TooManyOwnStreamsError
from pilotage.adapters.fastapi.settings import HttpSettings
from pilotage.agent.principal import LOCAL, Principal
from pilotage.container.application import Application

# The part of the process that all streams together may take; everything else belongs to the runs.
_SHARE = 0.05
# Waking up and reading cost about as much again as writing.
_FACTOR = 2.0
_SMOOTHED = 0.02
# What takes longer waits for its client, which costs the process nothing.
_LONGEST_WRITE = 0.005
_SHORTEST_REST, _LONGEST_REST = 0.005, 2.0
# Its multiples lie evenly between zero and one, however many there are.
_GOLDEN = 0.618


class OpenStreams:
    """Counts streams; they end together with all of the application. There is one for each application."""

    _known: ClassVar[WeakKeyDictionary[Application, OpenStreams]] = WeakKeyDictionary()

    def __init__(self, end: CommonEnd | None = None) -> None:
        self._by: Counter[tuple[str, str]] = Counter()
        self._cost = self._phase = 0.0
        self.end = end or CommonEnd()

    @staticmethod
    def of(app: Application) -> OpenStreams:
        """The streams of an application."""
        return OpenStreams._known.setdefault(app, OpenStreams(CommonEnd.of(app)))

    @property
    def count(self) -> int:
        """How many are open."""
        return self._by.total()

    def wrote(self, seconds: float) -> None:
        """Learn what it costs to write to a client."""
        if seconds < _LONGEST_WRITE:
            self._cost += (seconds - self._cost) * _SMOOTHED

    def rest(self) -> float:
        """For how many seconds a stream rests behind what it wrote: many readers do not hold up the runs they read.

        What happens meanwhile goes out together. A few streams do not rest at all. No two rest equally long, or all
        of them would come back at once.
        """
        seconds = self.count * self._cost * _FACTOR / _SHARE
        if seconds < _SHORTEST_REST:
            return 0.0
        self._phase = (self._phase + _GOLDEN) % 1
        return min(seconds, _LONGEST_REST) * (0.5 + self._phase)

    @contextmanager
    def entered(
        self, principal: Principal | None, settings: HttpSettings
    ) -> Generator[asyncio.Future[None], None, None]:
        """Count one more while the block lasts; the future is done when the stream is to end.

        Raises:
            ServerStoppingError: no more are opened.
            TooManyStreamsError: there are enough in this process.
            TooManyOwnStreamsError: the principal has enough.
        """
        by = principal or LOCAL
        key = (by.tenant, by.id)
        self._refuse(key, settings)
        with self.end.entered() as end:
            self._by[key] += 1
            try:
                yield end
            finally:
                self._by[key] -= 1
                if not self._by[key]:
                    del self._by[key]

    def _refuse(self, key: tuple[str, str], settings: HttpSettings) -> None:
        self.end.refuse_if_closing()
        if self.count >= settings.max_streams:
            raise TooManyStreamsError
        if self._by[key] >= settings.max_streams_per_principal:
            raise TooManyOwnStreamsError(
                f"{settings.max_streams_per_principal} streams of yours are open, which is what this server gives you. "
                "Close one first."
            )

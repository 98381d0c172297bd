"""Time, ids and random numbers under the control of a test."""

from __future__ import annotations

import asyncio
from datetime import UTC, datetime, timedelta
from random import Random

from pilotage.checks import reject_naive, reject_negative
from pilotage.ids import IClock, IIds

_START = datetime(2030, 1, 1, tzinfo=UTC)


class VirtualClock(IClock):
    """A clock under the test's control: `clock.advance(30)` is half a minute and takes no time.

    Code that waits with `await clock.sleep(...)` goes on when the clock has been advanced far enough. One
    advance is one jump: a sleeper that wakes sees the time at its end.
    """

    def __init__(self, start: datetime = _START) -> None:
        reject_naive(self, start=start)
        self._start = start.astimezone(UTC)
        self._elapsed = 0.0
        self._set_by = 0.0
        self._sleepers: list[tuple[float, asyncio.Future[None]]] = []

    def now(self) -> datetime:
        return self._start + timedelta(seconds=self._elapsed + self._set_by)

    def monotonic(self) -> float:
        return self._elapsed

    @property
    def sleepers(self) -> int:
        """Number of calls that wait in `sleep`."""
        return sum(not future.done() for _, future in self._sleepers)

    def advance(self, seconds: float) -> None:
        """Move the time forward and wake the sleepers that are due, the earliest first."""
        reject_negative("VirtualClock.advance", seconds=seconds)
        self._elapsed += seconds
        due = [sleeper for sleeper in self._sleepers if sleeper[0] <= self._elapsed]
        self._sleepers = [sleeper for sleeper in self._sleepers if sleeper[0] > self._elapsed]
        for _, future in sorted(due, key=lambda sleeper: sleeper[0]):
            if not future.done():
                future.set_result(None)

    def set_time_of_day(self, seconds: float) -> None:
        """Set the time of day forward, or back if `seconds` is negative; no time passes."""
        self._set_by += seconds

    def suspend(self, seconds: float) -> None:
        """Suspend the machine: time passes, and sleepers wait as long as before."""
        reject_negative("VirtualClock.suspend", seconds=seconds)
        self._elapsed += seconds
        self._sleepers = [(due + seconds, future) for due, future in self._sleepers]

    async def sleep(self, seconds: float) -> None:
        """Wait until the clock has been advanced by this much; zero only yields to other tasks."""
        if seconds <= 0:
            await asyncio.sleep(0)
            return
        future: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._sleepers.append((self._elapsed + seconds, future))
        await future


class SeededIds(IIds):
    """Draws ids and numbers from a seed: the same seed, the same sequence."""

    def __init__(self, seed: int = 0) -> None:
        self._random = Random(seed)  # noqa: S311 - repeatable on purpose; tests keep no secrets

    def uid(self) -> str:
        return f"{self._random.getrandbits(128):032x}"

    def random(self) -> float:
        return self._random.random()

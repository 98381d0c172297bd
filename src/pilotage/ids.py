"""Ports for time, ids and randomness, and their implementations by the operating system.

No other module of Pilotage reads a clock or draws a random number.
"""

from __future__ import annotations

import secrets
import time
from abc import ABC, abstractmethod
from collections.abc import Callable
from datetime import UTC, datetime
from functools import partial
from os import urandom


def boot_clock(
    clock_id: int | None, read: Callable[[int], float] | None, otherwise: Callable[[], float]
) -> Callable[[], float]:
    """Return the clock that counts the seconds since the machine started, those of its suspension included.

    All processes of a machine share it, and setting the time of day does not move it. A system without that clock has
    `otherwise`, which may stop during a suspension.
    """
    if clock_id is None or read is None:
        return otherwise
    try:
        read(clock_id)
    except OSError:
        # The Python was built for a kernel that has the clock, and this one does not.
        return otherwise
    return partial(read, clock_id)


seconds_since_boot = boot_clock(
    getattr(time, "CLOCK_BOOTTIME", None), getattr(time, "clock_gettime", None), time.monotonic
)
"""The one source of durations: the age of leases, and the time between a commit and the dispatch."""


class IClock(ABC):
    """The time of day and a clock that never goes back."""

    @abstractmethod
    def now(self) -> datetime:
        """Return the current time, aware, in UTC."""

    @abstractmethod
    def monotonic(self) -> float:
        """Return the seconds of a clock that never goes back, shared by the processes of a machine.

        It goes on while the machine is suspended, and setting the time of day does not move it.
        """

    @abstractmethod
    async def sleep(self, seconds: float) -> None:
        """Return when this much time has passed."""


class IIds(ABC):
    """A source of unguessable ids and random numbers."""

    @abstractmethod
    def uid(self) -> str:
        """Return a new unguessable id of 32 lower-case hex digits."""

    @abstractmethod
    def random(self) -> float:
        """Return a random number from 0 (included) to 1 (excluded)."""


class SystemClock(IClock):
    """The clock of this machine."""

    def now(self) -> datetime:
        return datetime.now(UTC)

    def monotonic(self) -> float:
        return seconds_since_boot()

    async def sleep(self, seconds: float) -> None:
        from asyncio import sleep  # noqa: PLC0415 - asyncio is dear to import

        await sleep(seconds)


class SystemIds(IIds):
    """Random ids from the operating system."""

    def uid(self) -> str:
        return urandom(16).hex()

    def random(self) -> float:
        return secrets.SystemRandom().random()

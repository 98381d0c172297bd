"""Time, ids and randomness as ports, with the ones of the running system.

Nothing in Pilotage reads a clock or draws a random number on its own.
"""

from __future__ import annotations

import secrets
import time
from abc import ABC, abstractmethod
from datetime import UTC, datetime
from os import urandom


class IClock(ABC):
    """The time of day and a clock that never goes back."""

    @abstractmethod
    def now(self) -> datetime:
        """The current time, aware, in UTC."""

    @abstractmethod
    def monotonic(self) -> float:
        """Seconds on a clock that never goes back; only differences mean something."""

    @abstractmethod
    async def sleep(self, seconds: float) -> None:
        """Return when this much time has passed."""


class IIds(ABC):
    """A source of unguessable ids and random numbers."""

    @abstractmethod
    def uid(self) -> str:
        """A new id that nobody can guess, 32 lower-case hex digits."""

    @abstractmethod
    def random(self) -> float:
        """A random number from 0 (included) to 1 (excluded)."""


class SystemClock(IClock):
    """The clock of this machine."""

    def now(self) -> datetime:
        return datetime.now(UTC)

    def monotonic(self) -> float:
        return time.monotonic()

    async def sleep(self, seconds: float) -> None:
        from asyncio import sleep  # noqa: PLC0415 - asyncio is dear to import

        await sleep(seconds)


class SystemIds(IIds):
    """Random ids from the operating system."""

    def uid(self) -> str:
        return urandom(16).hex()

    def random(self) -> float:
        return secrets.SystemRandom().random()

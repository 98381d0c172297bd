"""Limits of what a client may send and hold open: the check of a body before it is decoded, the open streams."""

from __future__ import annotations

import asyncio
import re
from collections import Counter
from collections.abc import Generator
from contextlib import contextmanager
from typing import ClassVar, Protocol
from weakref import WeakKeyDictionary

from pilotage.agent.principal import LOCAL, Principal
from pilotage.checks import reject_not_positive
from pilotage.container.application import Application
from pilotage.inbound.problems import (
    BodyTooLargeError,
    RequestRefusedError,
    ServerStoppingError,
    TooManyOwnStreamsError,
    TooManyStreamsError,
)
from pilotage.jsonvalue import repeated_key
from pilotage.values import value

_STRINGS = re.compile(rb'"(?:[^"\\]++|\\.)*+"', re.DOTALL)
_NO_BRACKETS = bytes(set(range(256)) - set(b"[]{}"))


class RequestLimits(Protocol):
    """The limits that all inbound adapters have; the settings of an adapter may have more."""

    @property
    def max_body_bytes(self) -> int:
        """Length of a body."""
        ...

    @property
    def max_body_depth(self) -> int:
        """Nesting of the JSON in a body."""
        ...

    @property
    def max_streams(self) -> int:
        """Open streams of the application in this process."""
        ...

    @property
    def max_streams_per_principal(self) -> int:
        """Open streams of one principal."""
        ...


@value
class InboundLimits:
    """Limits of an adapter without settings of its own.

    `max_body_bytes`, `max_body_depth`     length of a body, and nesting of its JSON
    `max_streams`                          open streams of the application in this process
    `max_streams_per_principal`            ... and of one principal
    """

    max_body_bytes: int = 1_000_000
    max_body_depth: int = 100
    max_streams: int = 1_000
    max_streams_per_principal: int = 100

    def __post_init__(self) -> None:
        reject_not_positive(
            self,
            max_body_bytes=self.max_body_bytes,
            max_body_depth=self.max_body_depth,
            max_streams=self.max_streams,
            max_streams_per_principal=self.max_streams_per_principal,
        )


def check_body(body: bytes, limits: RequestLimits) -> None:
    """Refuse a JSON text that is too long, nested too deep, or has a key twice in one object.

    Raises:
        BodyTooLargeError: it is longer than allowed.
        RequestRefusedError: it is nested too deep, or has a key twice.
    """
    if len(body) > limits.max_body_bytes:
        raise body_too_large(limits.max_body_bytes)
    if is_deeper_than(limits.max_body_depth, body):
        raise RequestRefusedError(f"the body is nested more than {limits.max_body_depth} levels deep.")
    if (repeated := repeated_key(body)) is not None:
        raise RequestRefusedError(f"the body has the key {repeated!r} twice in one object. Send it once.")


def body_too_large(longest: int) -> BodyTooLargeError:
    """Return the error of a body that is longer than allowed."""
    return BodyTooLargeError(f"the body is longer than {longest:,} bytes, which is what this server takes.")


def is_deeper_than(levels: int, body: bytes) -> bool:
    """Return whether a JSON text is nested deeper, without decoding it."""
    depth = 0
    for bracket in _STRINGS.sub(b"", body).translate(None, _NO_BRACKETS):
        depth += 1 if bracket in b"[{" else -1
        if depth > levels:
            return True
    return False


# The part of the process that all streams together may take; everything else belongs to the runs.
_SHARE = 0.05
# Waking up and reading cost about as much again as writing.
_FACTOR = 2.0
_SMOOTHED = 0.02
# A longer write waits for its client, which costs the process nothing.
_LONGEST_WRITE = 0.005
_SHORTEST_REST, _LONGEST_REST = 0.005, 2.0
# Its multiples lie evenly between zero and one, however many there are.
_GOLDEN = 0.618


class OpenStreams:
    """Open streams of an application over all adapters, which end when its server stops."""

    _known: ClassVar[WeakKeyDictionary[Application, OpenStreams]] = WeakKeyDictionary()

    def __init__(self) -> None:
        self._by: Counter[tuple[str, str]] = Counter()
        self._shutdowns: set[asyncio.Future[None]] = set()
        self._is_empty = asyncio.Event()
        self._is_empty.set()
        self._cost = self._phase = 0.0
        self.is_closing = False

    @staticmethod
    def of(app: Application) -> OpenStreams:
        """Return the open streams of an application."""
        return OpenStreams._known.setdefault(app, OpenStreams())

    @property
    def count(self) -> int:
        """The number of open ones."""
        return len(self._shutdowns)

    def refuse(self, principal: Principal | None, limits: RequestLimits) -> None:
        """Refuse one more stream where no more may be opened.

        Raises:
            ServerStoppingError: the server stops.
            TooManyStreamsError: the application has as many as it may have.
            TooManyOwnStreamsError: the principal has as many as one principal may have.
        """
        if self.is_closing:
            raise ServerStoppingError
        if self.count >= limits.max_streams:
            raise TooManyStreamsError
        if self._by[_key(principal)] >= limits.max_streams_per_principal:
            raise TooManyOwnStreamsError(
                f"{limits.max_streams_per_principal} streams of yours are open, which is what this server gives you. "
                "Close one first."
            )

    @contextmanager
    def entered(
        self, principal: Principal | None, limits: RequestLimits
    ) -> Generator[asyncio.Future[None], None, None]:
        """Count a stream that `refuse` allows, while the block lasts; the future is done when the server stops."""
        self.refuse(principal, limits)
        key = _key(principal)
        shutdown: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._by[key] += 1
        self._shutdowns.add(shutdown)
        self._is_empty.clear()
        try:
            yield shutdown
        finally:
            self._by[key] -= 1
            if not self._by[key]:
                del self._by[key]
            self._shutdowns.discard(shutdown)
            if not self._shutdowns:
                self._is_empty.set()

    def open(self) -> None:
        """Allow new streams, also after `close`."""
        self.is_closing = False

    def close(self) -> None:
        """End all streams and refuse new ones."""
        self.is_closing = True
        for shutdown in self._shutdowns:
            if not shutdown.done():
                shutdown.set_result(None)

    async def empty(self) -> None:
        """Return when no stream is open."""
        await self._is_empty.wait()

    def wrote(self, seconds: float) -> None:
        """Take in how long a write to a client took."""
        if seconds < _LONGEST_WRITE:
            self._cost += (seconds - self._cost) * _SMOOTHED

    def rest(self) -> float:
        """Return how many seconds a stream pauses after a write, so that many readers do not slow down the runs.

        Events of the pause go out together. A few streams do not pause at all. No two pause equally long, or all of
        them would wake up at once.
        """
        seconds = self.count * self._cost * _FACTOR / _SHARE
        if seconds < _SHORTEST_REST:
            return 0.0
        self._phase = (self._phase + _GOLDEN) % 1
        return min(seconds, _LONGEST_REST) * (0.5 + self._phase)


def _key(principal: Principal | None) -> tuple[str, str]:
    by = principal or LOCAL
    return by.tenant, by.id

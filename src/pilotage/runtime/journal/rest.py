"""Waiting for a turn, and counting the turns of the event loop in which a program does not move."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from pilotage.runtime.journal.positions import Domain

REST = 12
"""The turns of the event loop without movement after which a program is at rest."""

NOTHING = object()
"""The result of a slot that has none yet."""


class Slot:
    """A place where one task waits for a decision; a cancelled task finds the decision here all the same."""

    __slots__ = ("future", "result")

    def __init__(self) -> None:
        self.result: object = NOTHING
        self.future: asyncio.Future[None] | None = None

    def settle(self, result: object) -> None:
        if self.result is NOTHING:
            self.result = result
            if self.future is not None and not self.future.done():
                self.future.set_result(None)


class RestCount:
    """Counts the turns of the loop in which nothing moves in a domain."""

    __slots__ = ("_at_rest", "_loop", "_quiet", "_seen", "domain", "is_counting")

    def __init__(self, domain: Domain, at_rest: Callable[[RestCount], bool]) -> None:
        self.domain = domain
        self.is_counting = False
        self._loop = asyncio.get_running_loop()
        self._at_rest = at_rest
        self._quiet = self._seen = 0

    def count(self) -> None:
        """Count from now on, until nothing is to be done at rest."""
        if not self.is_counting:
            self.is_counting = True
            self._quiet, self._seen = 0, self.domain.moves
            self._loop.call_soon(self._tick)

    def _tick(self) -> None:
        moves = self.domain.moves
        self._quiet = self._quiet + 1 if moves == self._seen else 0
        self._seen = moves
        if self._quiet >= REST:
            self._quiet = 0
            self.is_counting = self._at_rest(self)
            self._seen = self.domain.moves
        if self.is_counting:
            self._loop.call_soon(self._tick)


class TurnMark:
    """Notices whether the event loop turns: then a call does not return at once."""

    __slots__ = ("_handle", "has_turned")

    def __init__(self) -> None:
        self.has_turned = False
        self._handle = asyncio.get_running_loop().call_soon(self._turn)

    def _turn(self) -> None:
        self.has_turned = True

    def drop(self) -> None:
        self._handle.cancel()

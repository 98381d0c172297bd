"""An event loop whose time passes only when everybody waits, and then at once."""

from __future__ import annotations

import asyncio
import selectors
from collections.abc import Coroutine
from typing import Any, TypeVar

T = TypeVar("T")


class VirtualLoop(asyncio.SelectorEventLoop):
    """A loop for programs without I/O. A program that waits for nothing at all is reported, not waited for."""

    def __init__(self) -> None:
        self.now = 0.0
        super().__init__(_Jumping(self))

    def time(self) -> float:
        return self.now


class _Jumping(selectors.SelectSelector):
    def __init__(self, loop: VirtualLoop) -> None:
        super().__init__()
        self._loop = loop

    def select(self, timeout: float | None = None) -> list[tuple[selectors.SelectorKey, int]]:
        ready = super().select(0)
        if not ready and timeout is None:
            raise RuntimeError("the program hangs: nothing is scheduled, and nobody will wake it")
        if not ready and timeout:
            # A little more than asked for, or rounding could make a timer wait for ever.
            self._loop.now += timeout + 1e-6
        return ready


def run_virtually(program: Coroutine[Any, Any, T]) -> T:
    """Run a program to its end in no time."""
    with asyncio.Runner(loop_factory=VirtualLoop) as runner:
        return runner.run(program)

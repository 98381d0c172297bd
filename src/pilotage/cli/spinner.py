"""`Spinner`: the last line of a terminal while a command waits. Apart from the screen: help needs no event loop."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager, suppress
from itertools import cycle

from pilotage.cli.screen import Screen
from pilotage.cli.text import length

_FRAMES = "⠋⠙⠹⠸⠼⠴⠦⠧⠇⠏"
_FRAME_SECONDS = 0.1
_SHOWN_AFTER_SECONDS = 1.0


class Spinner:
    """Shows what a command waits for, and for how many seconds, after the first second without output."""

    def __init__(self, screen: Screen) -> None:
        self._screen = screen
        self._what = ""
        self._since = time.monotonic()

    def wait_for(self, what: str) -> None:
        """Name what the command waits for from now on; "" for nothing."""
        self._what, self._since = what, time.monotonic()

    @asynccontextmanager
    async def running(self) -> AsyncGenerator[None]:
        """Show it while the context is open; on a pipe nothing is shown."""
        spinning = asyncio.ensure_future(self._spin()) if self._screen.is_terminal else None
        try:
            yield
        finally:
            if spinning is not None:
                spinning.cancel()
                with suppress(asyncio.CancelledError):
                    await spinning
                self._screen.show_status("")

    async def _spin(self) -> None:
        for frame in cycle(_FRAMES):
            seconds = time.monotonic() - self._since
            if self._what and seconds >= _SHOWN_AFTER_SECONDS:
                self._screen.show_status(f"{frame} {self._what}, {length(seconds)}")
            await asyncio.sleep(_FRAME_SECONDS)

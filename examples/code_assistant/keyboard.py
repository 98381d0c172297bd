"""Lines of standard input, typed or piped."""

from __future__ import annotations

import asyncio
import sys
import threading
from typing import TextIO


class Keyboard:
    """Gives lines one by one. Lines of a pipe are there at once, and are read one after the other."""

    def __init__(self, lines: TextIO = sys.stdin) -> None:
        self.is_interactive = lines.isatty()
        self._lines = lines
        self._typed: asyncio.Queue[str | None] = asyncio.Queue()
        self._put_back: list[str] = []
        self._loop = asyncio.get_running_loop()
        # A thread that waits for a key cannot be stopped; it must not keep the process from ending.
        threading.Thread(target=self._read, daemon=True).start()

    async def line(self) -> str | None:
        """The next line; None when there are no more."""
        if self._put_back:
            return self._put_back.pop(0)
        line = await self._typed.get()
        if line is None:
            self._typed.put_nowait(None)
        return line

    def put_back(self, line: str) -> None:
        """Make a line that was not used the next one again."""
        self._put_back.append(line)

    def _read(self) -> None:
        for line in self._lines:
            self._loop.call_soon_threadsafe(self._typed.put_nowait, line.strip())
        self._loop.call_soon_threadsafe(self._typed.put_nowait, None)

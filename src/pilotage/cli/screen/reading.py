"""Reading lines from a terminal without holding up the event loop."""

from __future__ import annotations

import asyncio
import os
import sys
from typing import TextIO


class Lines:
    """Lines that a person types. The terminal does the editing; one line is there when Enter was hit."""

    def __init__(self, stream: TextIO | None = None) -> None:
        self._stream = stream or sys.stdin
        self._rest = b""

    async def next(self) -> str | None:
        """The next line without its end; None when the person has ended the input (Ctrl-D)."""
        while b"\n" not in self._rest:
            piece = await self._piece()
            if not piece:
                return None
            self._rest += piece
        taken, _, self._rest = self._rest.partition(b"\n")
        return taken.decode(errors="replace").strip()

    async def _piece(self) -> bytes:
        loop, descriptor = asyncio.get_running_loop(), self._stream.fileno()
        ready = asyncio.Event()
        loop.add_reader(descriptor, ready.set)
        try:
            await ready.wait()
        finally:
            loop.remove_reader(descriptor)
        return os.read(descriptor, 4096)

"""The end that all streams of one application share: they are told when its server stops, and it waits for them."""

from __future__ import annotations

import asyncio
from collections.abc import Generator
from contextlib import contextmanager
from typing import ClassVar
from weakref import WeakKeyDictionary

from pilotage.container.application import Application
from pilotage.errors import CallerError


class ServerStoppingError(CallerError):
    """The server is about to stop and begins nothing new."""

    message: ClassVar[str] = "The server stops. Come back in a moment."
    code: ClassVar[str] = "server_stopping"


class CommonEnd:
    """Ends streams together. There is one for each application, whichever adapter serves it."""

    _known: ClassVar[WeakKeyDictionary[Application, CommonEnd]] = WeakKeyDictionary()

    def __init__(self) -> None:
        self._ends: set[asyncio.Future[None]] = set()
        self._is_empty = asyncio.Event()
        self._is_empty.set()
        self.is_closing = False

    @staticmethod
    def of(app: Application) -> CommonEnd:
        """The one of an application."""
        return CommonEnd._known.setdefault(app, CommonEnd())

    @contextmanager
    def entered(self) -> Generator[asyncio.Future[None], None, None]:
        """Around one stream; the future is done when the stream is to end.

        Raises:
            ServerStoppingError: no more are opened.
        """
        self.refuse_if_closing()
        end: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._ends.add(end)
        self._is_empty.clear()
        try:
            yield end
        finally:
            self._ends.discard(end)
            if not self._ends:
                self._is_empty.set()

    def refuse_if_closing(self) -> None:
        """Refuse to begin a stream that would have to end at once.

        Raises:
            ServerStoppingError: no more are opened.
        """
        if self.is_closing:
            raise ServerStoppingError

    def open(self) -> None:
        """Let streams begin, also where others were closed before."""
        self.is_closing = False

    def close(self) -> None:
        """Let all streams end, and begin no more."""
        self.is_closing = True
        for end in self._ends:
            if not end.done():
                end.set_result(None)

    async def empty(self) -> None:
        """Return when none is open."""
        await self._is_empty.wait()

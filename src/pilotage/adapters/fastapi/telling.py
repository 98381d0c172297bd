"""Telling a client something that lasts: signs of life in between, an end that says what it means, nothing left over.

Server-sent streams and WebSockets differ in how a frame is written; everything else is here.
"""

from __future__ import annotations

import asyncio
import logging
from abc import ABC, abstractmethod
from collections.abc import AsyncIterator, Sequence

from starlette.requests import ClientDisconnect

from pilotage.adapters.fastapi.frames import RECONNECT, Frame, problem_frame
from pilotage.adapters.fastapi.open_streams import OpenStreams
from pilotage.adapters.fastapi.problems import INTERNAL, ProblemView, problem_of
from pilotage.adapters.fastapi.waiting import until_the_first_ends
from pilotage.errors import PilotageError
from pilotage.ids import IClock
from pilotage.values import value

_log = logging.getLogger(__name__)

# Who has taken nothing for so many signs of life holds a stream that others could have.
_PATIENCE = 4


class Line(ABC):
    """The way to one client. What cannot be written because the client has gone is a `ClientDisconnect`."""

    @abstractmethod
    async def say(self, frames: Sequence[Frame]) -> None:
        """Write frames; returns when there is room for more."""

    @abstractmethod
    async def beat(self) -> None:
        """Write a sign of life."""

    @abstractmethod
    async def gone(self) -> None:
        """Return when the client has gone."""


class Frames(AsyncIterator[Sequence[Frame]]):
    """What is told, in frames that go out together."""

    @abstractmethod
    async def aclose(self) -> None:
        """Nobody listens any more."""


@value
class Ending:
    """Why a stream is over: the last frame, if there is one, and the code with which a WebSocket is closed."""

    code: int
    reason: str
    frame: Frame | None = None


OVER = Ending(1000, "this is all")
CUT_OFF = Ending(1012, "come back with the last id", RECONNECT)
GONE = Ending(1001, "the client has gone")


def broken(problem: ProblemView) -> Ending:
    """The end of a stream that cannot go on; the code is the status behind a 4."""
    return Ending(4000 + problem.status, problem.code, problem_frame(problem))


class Telling:
    """One stream, from its first frame to its end. Leaving it never touches what is told."""

    def __init__(self, told: Frames, line: Line, streams: OpenStreams, clock: IClock, seconds: float) -> None:
        self._told = told
        self._line = line
        self._streams = streams
        self._clock = clock
        self._seconds = seconds
        self._is_writing = False
        self._written = 0

    async def to_the_end(self, is_to_end: asyncio.Future[None]) -> Ending:
        """Tell everything, until it ends, the client goes, or the server wants to stop."""
        telling = asyncio.ensure_future(self._tell())
        try:
            await until_the_first_ends(telling, self._beat(), self._line.gone(), is_to_end)
        except ClientDisconnect:
            return GONE
        finally:
            await self._told.aclose()
        if telling.done() and not telling.cancelled():
            return telling.result()
        return GONE if is_to_end.cancelled() else CUT_OFF

    async def _tell(self) -> Ending:
        try:
            async for frames in self._told:
                await self._write(frames)
                if frames[-1] is RECONNECT:
                    return Ending(CUT_OFF.code, CUT_OFF.reason)
                if rest := self._streams.rest():
                    await self._clock.sleep(rest)
        except PilotageError as error:
            return broken(problem_of(error))
        except ClientDisconnect:
            raise
        except Exception:  # noqa: BLE001 - the top of a stream: nobody above would tell the client
            _log.exception("a stream broke off")
            return broken(INTERNAL)
        return OVER

    async def _write(self, frames: Sequence[Frame]) -> None:
        started, self._is_writing = self._clock.monotonic(), True
        await self._line.say(frames)
        self._is_writing = False
        self._streams.wrote(self._clock.monotonic() - started)
        self._written += 1

    async def _beat(self) -> None:
        """Tell clients and proxies that the line still holds; give up those who take nothing."""
        missed = 0
        while missed < _PATIENCE:
            written = self._written
            await self._clock.sleep(self._seconds)
            if self._is_writing and written == self._written:
                missed += 1
            else:
                missed = 0
                await self._line.beat()
        raise ClientDisconnect

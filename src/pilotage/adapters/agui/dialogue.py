"""`Dialogue`: inputs one after the other over one line, as WebSockets and stdio have it.

Each is answered in its turn. A wish to end a run does not wait: the run may be the one that is being told.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterable, Awaitable, Callable
from contextlib import aclosing, suppress

from pilotage.adapters.agui.driver import RunDriverFactory
from pilotage.adapters.agui.props import CANCEL_RUN, cancelled_run_in
from pilotage.adapters.agui.reading import parse_input
from pilotage.adapters.agui.serving import AgentDriver
from pilotage.adapters.agui.settings import AgUiLimits
from pilotage.adapters.agui.transport import frames_for
from pilotage.errors import PilotageError

_MOST_WAITING = 16


class Dialogue:
    """Reads inputs and tells frames; no more than a few inputs wait for their turn."""

    def __init__(
        self,
        run_driver_factory: RunDriverFactory,
        tell: Callable[[str], Awaitable[None]],
        accept: str | None = None,
        limits: AgUiLimits | None = None,
    ) -> None:
        self._factory = run_driver_factory
        self._tell = tell
        self._accept = accept
        self._limits = limits or AgUiLimits()
        self._waiting: asyncio.Queue[str | bytes | None] = asyncio.Queue(_MOST_WAITING)

    async def hold(self, inputs: AsyncIterable[str | bytes]) -> None:
        """Answer all inputs; returns when there are no more and the last is answered.

        What the inputs raise, such as that the client is gone, ends it at once.
        """
        tasks = [asyncio.ensure_future(self._read(inputs)), asyncio.ensure_future(self._serve())]
        try:
            ended, _ = await asyncio.wait(tasks, return_when=asyncio.FIRST_EXCEPTION)
        finally:
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)
        for task in ended:
            task.result()

    async def _read(self, inputs: AsyncIterable[str | bytes]) -> None:
        async for text in inputs:
            await self._end_at_once(text)
            await self._waiting.put(text)
        await self._waiting.put(None)

    async def _serve(self) -> None:
        while (text := await self._waiting.get()) is not None:
            await self._answer(text)

    async def _answer(self, text: str | bytes) -> None:
        frames = frames_for(self._factory, text, self._accept, limits=self._limits)
        async with aclosing(frames):
            async for frame in frames:
                await self._tell(frame)

    async def _end_at_once(self, text: str | bytes) -> None:
        """End the run that an input wants ended; what stands against it is told in its turn."""
        words = text if isinstance(text, str) else text.decode(errors="replace")
        if not isinstance(self._factory, AgentDriver) or CANCEL_RUN not in words:
            return
        with suppress(PilotageError):
            run = cancelled_run_in(parse_input(text, self._limits))
            if run is not None:
                await self._factory.cancel(run)

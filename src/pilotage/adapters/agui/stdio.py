"""`AgUiStdioCommand`: AG-UI over a pair of text streams, one JSON text a line in both directions."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator
from contextlib import aclosing
from typing import TextIO

from pilotage.adapters.agui.driver import RunDriverFactory
from pilotage.adapters.agui.encoder import NDJSON, line_of
from pilotage.adapters.agui.transport import Dialogue
from pilotage.adapters.agui_plugin import AgUiLimits


class AgUiStdioCommand:
    """Serves inputs one after the other: the one it is given, or every line until the input ends.

    The id of a frame stands in the event's metadata; a client that comes back sends the last it has in
    `forwardedProps.lastEventId`.
    """

    def __init__(
        self,
        run_driver_factory: RunDriverFactory,
        input_stream: TextIO,
        output_stream: TextIO,
        accept: str | None = None,
        *,
        limits: AgUiLimits | None = None,
    ) -> None:
        self._input = input_stream
        self._output = output_stream
        self._dialogue = Dialogue(run_driver_factory, self._write, accept or NDJSON, limits)

    async def __call__(self, run_input_json: str | None = None) -> None:
        """Serve one input, or all lines of the input stream; one that cannot be served is answered with an error."""
        async with aclosing(self._lines(run_input_json)) as lines:
            await self._dialogue.hold(lines)

    async def _lines(self, only: str | None) -> AsyncGenerator[str, None]:
        if only is not None:
            yield only
            return
        # Reading blocks its thread, and runs go on meanwhile.
        while line := await asyncio.to_thread(self._input.readline):
            if line.strip():
                yield line

    async def _write(self, frame: str) -> None:
        self._output.write(line_of(frame))
        self._output.flush()

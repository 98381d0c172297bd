"""`AgUiStdioCommand`: AG-UI over a pair of text streams, one JSON text a line in both directions."""

from __future__ import annotations

import asyncio
from contextlib import aclosing
from typing import TextIO

from pilotage.adapters.agui.driver import RunDriverFactory
from pilotage.adapters.agui.encoder import line_of
from pilotage.adapters.agui.transport import frames_for


class AgUiStdioCommand:
    """Serves inputs one after the other: the one it is given, or every line until the input ends."""

    def __init__(
        self,
        run_driver_factory: RunDriverFactory,
        input_stream: TextIO,
        output_stream: TextIO,
        accept: str | None = None,
    ) -> None:
        self._factory = run_driver_factory
        self._input = input_stream
        self._output = output_stream
        self._accept = accept

    async def __call__(self, run_input_json: str | None = None) -> None:
        """Serve one input, or all lines of the input stream; one that cannot be served is answered with an error."""
        if run_input_json is not None:
            await self._serve(run_input_json)
            return
        # Reading blocks its thread, and runs go on meanwhile.
        while line := await asyncio.to_thread(self._input.readline):
            if line.strip():
                await self._serve(line)

    async def _serve(self, text: str) -> None:
        async with aclosing(frames_for(self._factory, text, self._accept)) as frames:
            async for frame in frames:
                self._output.write(line_of(frame))
                self._output.flush()

"""Streams of frames for the text of inputs, for all transports, and the transport over stdio.

`Dialogue` serves inputs one after the other over one connection, as WebSockets and stdio do. An input that cancels a
run does not wait for its turn: the run may be the one that is being streamed.
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import AsyncGenerator, AsyncIterable, Awaitable, Callable
from contextlib import aclosing, suppress
from typing import TextIO

from ag_ui.core import RunErrorEvent

from pilotage.adapters.agui.driver import AgentDriver
from pilotage.adapters.agui.encoding import NDJSON, encoder_for, line_of
from pilotage.adapters.agui.run_input import (
    CANCEL_RUN,
    cancelled_run_in,
    cancels,
    parse_input,
    run_input_of,
    with_last_seen,
)
from pilotage.adapters.agui.stream import RunDriverFactory
from pilotage.adapters.agui_plugin import AgUiLimits
from pilotage.errors import PilotageError
from pilotage.jsonvalue import object_or_empty, parsed

_MOST_WAITING = 16
_TEXT = re.compile(r'"(?:[^"\\]|\\.)*"')
_USUAL = AgUiLimits()


async def open_stream(
    run_driver_factory: RunDriverFactory,
    text: str | bytes,
    accept: str | None = None,
    *,
    last_event_id: str | None = None,
    limits: AgUiLimits = _USUAL,
) -> AsyncIterable[str]:
    """Return the stream for one input; raise PilotageError, before anything is sent, where it cannot be served."""
    ag_ui_input = with_last_seen(parse_input(text, limits), last_event_id)
    made = run_driver_factory(run_input_of(ag_ui_input, limits), ag_ui_input, accept)
    return await made if isinstance(made, Awaitable) else made


async def frames_for(
    run_driver_factory: RunDriverFactory,
    text: str | bytes,
    accept: str | None = None,
    *,
    last_event_id: str | None = None,
    limits: AgUiLimits = _USUAL,
) -> AsyncGenerator[str, None]:
    """Yield the stream for one input; for an input that cannot be served, one RUN_ERROR."""
    try:
        stream = await open_stream(
            run_driver_factory, text, accept, last_event_id=last_event_id, limits=limits
        )
    except PilotageError as error:
        yield encoder_for(accept).encode(RunErrorEvent(message=str(error), code=error.code))
        return
    async with aclosing(frames_of(stream)) as frames:
        async for frame in frames:
            yield frame


async def frames_of(stream: AsyncIterable[str]) -> AsyncGenerator[str, None]:
    """Yield the frames of a stream, which is closed as soon as the reader leaves."""
    frames = aiter(stream)
    try:
        async for frame in frames:
            yield frame
    finally:
        if isinstance(frames, AsyncGenerator):
            await frames.aclose()


class Dialogue:
    """Reads inputs and sends frames; a few inputs may wait for their turn."""

    def __init__(
        self,
        run_driver_factory: RunDriverFactory,
        send: Callable[[str], Awaitable[None]],
        accept: str | None = None,
        limits: AgUiLimits | None = None,
    ) -> None:
        self._factory = run_driver_factory
        self._send = send
        self._accept = accept
        self._limits = limits or AgUiLimits()
        self._waiting: asyncio.Queue[str | bytes | None] = asyncio.Queue(_MOST_WAITING)

    async def serve_all(self, inputs: AsyncIterable[str | bytes]) -> None:
        """Serve all inputs, and return after the last one.

        An error of the inputs, such as a lost client, ends it at once.
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
                await self._send(frame)

    async def _end_at_once(self, text: str | bytes) -> None:
        """Cancel the run that an input cancels; an error is sent when it is the input's turn."""
        decoded = text if isinstance(text, str) else text.decode(errors="replace")
        if not isinstance(self._factory, AgentDriver) or CANCEL_RUN not in decoded:
            return
        with suppress(PilotageError):
            given = parse_input(text, self._limits)
            if cancels(given):
                await self._factory.cancel(cancelled_run_in(given), given.thread_id)


class Documents:
    """Splits lines into JSON documents: one may have several lines, each begins on a line of its own. Pure.

    A line that is an input by itself ends a document that was left incomplete, and so does a length over `most`.
    """

    def __init__(self, most: int) -> None:
        self._most = most
        self._lines: list[str] = []
        self._size = self._depth = 0

    def add(self, line: str) -> list[str]:
        """Take a line in, and return the documents that are complete with it."""
        if not self._lines and not line.strip():
            return []
        left = [self.rest()] if self._lines and _is_input(line) else []
        self._lines.append(line)
        self._size += len(line)
        self._scan(line)
        is_whole = self._depth <= 0
        return [*left, self.rest()] if is_whole or self._size > self._most else left

    def rest(self) -> str:
        """Return the document that is not complete, and begin a new one."""
        text = "".join(self._lines)
        self._lines, self._size, self._depth = [], 0, 0
        return text

    def _scan(self, line: str) -> None:
        """Count the brackets outside of texts; no text of JSON goes over the end of a line."""
        plain = _TEXT.sub("", line)
        self._depth += sum(plain.count(each) for each in "{[") - sum(plain.count(each) for each in "}]")


def _is_input(line: str) -> bool:
    """Return whether a line is an input as a whole."""
    if not line.startswith("{"):
        return False
    try:
        return "runId" in object_or_empty(parsed(line.strip()))
    except (ValueError, RecursionError):
        return False


class AgUiStdioCommand:
    """Serves inputs one after the other: the one it is given, or every JSON document until the input ends.

    The id of a frame is in the event's metadata; a client that reconnects sends the last it has in
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
        self._most = (limits or AgUiLimits()).max_body_bytes
        self._dialogue = Dialogue(run_driver_factory, self._write, accept or NDJSON, limits)

    async def __call__(self, run_input_json: str | None = None) -> None:
        """Serve one input, or all of the input stream; one that cannot be served is answered with an error."""
        async with aclosing(self._lines(run_input_json)) as lines:
            await self._dialogue.serve_all(lines)

    async def _lines(self, only: str | None) -> AsyncGenerator[str, None]:
        if only is not None:
            yield only
            return
        documents = Documents(self._most)
        # Reading blocks its thread, and runs go on meanwhile.
        while line := await asyncio.to_thread(self._input.readline):
            for document in documents.add(line):
                yield document
        if rest := documents.rest():
            yield rest

    async def _write(self, frame: str) -> None:
        self._output.write(line_of(frame))
        self._output.flush()

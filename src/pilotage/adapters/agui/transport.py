"""From the text of an input to the pieces of its stream: what all transports share."""

from __future__ import annotations

from collections.abc import AsyncGenerator, AsyncIterable, Awaitable
from contextlib import aclosing

from ag_ui.core import RunErrorEvent

from pilotage.adapters.agui.driver import RunDriverFactory
from pilotage.adapters.agui.encoder import encoder_for
from pilotage.adapters.agui.inbound import run_input_of
from pilotage.adapters.agui.props import with_last_seen
from pilotage.adapters.agui.reading import parse_input
from pilotage.adapters.agui.settings import AgUiLimits
from pilotage.errors import PilotageError

_USUAL = AgUiLimits()


async def open_stream(
    run_driver_factory: RunDriverFactory,
    text: str | bytes,
    accept: str | None = None,
    *,
    last_event_id: str | None = None,
    limits: AgUiLimits = _USUAL,
) -> AsyncIterable[str]:
    """The stream for one input, of which nothing is told yet.

    Raises:
        PilotageError: the input cannot be served.
    """
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
    """The stream for one input; an input that cannot be served is a stream of one RUN_ERROR."""
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
    """The frames of a stream, which is closed as soon as whoever reads them leaves."""
    frames = aiter(stream)
    try:
        async for frame in frames:
            yield frame
    finally:
        if isinstance(frames, AsyncGenerator):
            await frames.aclose()

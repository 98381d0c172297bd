"""From the text of an input to the pieces of its stream: what all transports share."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Awaitable

from ag_ui.core import RunErrorEvent

from pilotage.adapters.agui.driver import RunDriverFactory
from pilotage.adapters.agui.encoder import encoder_for
from pilotage.adapters.agui.inbound import parse_input, run_input_of
from pilotage.errors import PilotageError


async def frames_for(
    run_driver_factory: RunDriverFactory, text: str | bytes, accept: str | None = None
) -> AsyncGenerator[str, None]:
    """The stream for one input; an input that cannot be served is a stream of one RUN_ERROR."""
    try:
        ag_ui_input = parse_input(text)
        made = run_driver_factory(run_input_of(ag_ui_input), ag_ui_input, accept)
        driver = await made if isinstance(made, Awaitable) else made
    except PilotageError as error:
        yield encoder_for(accept).encode(RunErrorEvent(message=str(error), code=error.code))
        return
    async for frame in driver:
        yield frame

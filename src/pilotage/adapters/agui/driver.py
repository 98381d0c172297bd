"""`AgUiRunDriver`: one run as a stream of encoded AG-UI events, for every transport.

Whatever breaks, the client gets closed frames and one end; leaving the stream leaves a durable run as it is.
"""

from __future__ import annotations

import logging
from collections.abc import (
    AsyncGenerator,
    AsyncIterable,
    AsyncIterator,
    Awaitable,
    Callable,
    Iterator,
    Sequence,
)
from typing import Protocol, TypeAlias

from ag_ui.core import BaseEvent, RunAgentInput

from pilotage.adapters.agui.encoder import AgUiEncoder, SseEncoder
from pilotage.adapters.agui.projector import BROKEN, AgUiProjector
from pilotage.agent.run_input import RunAgentInput as CoreRunInput
from pilotage.errors import PilotageError
from pilotage.runtime.actions.interruptions import RunInterruption
from pilotage.runtime.service.opened_runs import OpenedRun
from pilotage.runtime.stream.subscription import Subscription

_LOG = logging.getLogger(__name__)

RunDriverFactory: TypeAlias = Callable[
    [CoreRunInput, RunAgentInput, str | None], AsyncIterable[str] | Awaitable[AsyncIterable[str]]
]
"""Makes the stream for one input; `accept` is what the client accepts, where the transport knows."""


class RunOpener(Protocol):
    """Opens runs; an `AgentRunner` does."""

    async def open(self, given: object, /) -> OpenedRun:
        """A run for this input."""
        ...


class AgUiRunDriver(AsyncIterable[str]):
    """Opens a run, reads its events and encodes what the projector makes of them."""

    def __init__(
        self,
        runner: RunOpener,
        run_input: CoreRunInput,
        agent_id: str,
        projector: AgUiProjector | None = None,
        encoder: AgUiEncoder | None = None,
    ) -> None:
        self._runner = runner
        self._input = run_input
        self._agent_id = agent_id
        self._projector = projector or AgUiProjector(
            run_id=run_input.state_id, thread_id=run_input.effective_conversation_id
        )
        self._encoder = encoder or SseEncoder()

    def __aiter__(self) -> AsyncIterator[str]:
        return self._frames()

    async def _frames(self) -> AsyncGenerator[str, None]:
        run: OpenedRun | None = None
        try:
            run = await self._runner.open(self._input)
            events = run.events()
            async for event in events:
                cursor = events.cursor if isinstance(events, Subscription) else None
                for frame in self._encoded(self._projector.project(event), cursor):
                    yield frame
            await run.result()
            last = self._projector.finish()
        except (Exception, RunInterruption) as error:  # noqa: BLE001 - the top of a stream: its client gets an end
            last = self._broken(error)
        finally:
            if run is not None:
                await run.leave()
        for frame in self._encoded(last):
            yield frame

    def _encoded(self, frames: Sequence[BaseEvent], cursor: str | None = None) -> Iterator[str]:
        """A cursor stands for a whole event of the run, so only the last of its frames has it."""
        for position, frame in enumerate(frames, start=1):
            yield self._encoder.encode(frame, cursor if position == len(frames) else None)

    def _broken(self, error: BaseException) -> list[BaseEvent]:
        if isinstance(error, PilotageError):
            return self._projector.fail(str(error), error.code)
        # What others raise may name what clients should not read.
        _LOG.error("the AG-UI stream of agent %r broke: %s", self._agent_id, type(error).__name__)
        return self._projector.fail("The stream of the run broke.", BROKEN)

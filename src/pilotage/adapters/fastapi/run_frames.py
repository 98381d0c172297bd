"""The events of a run as frames: those that are there at once go out together, each encoded once for all readers."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Sequence
from functools import partial

from pilotage.adapters.fastapi.errors import StoreUnreachableError
from pilotage.adapters.fastapi.frames import RECONNECT, Frame, event_frame, text_of
from pilotage.adapters.fastapi.telling import Told
from pilotage.agent.events import AgentEvent, RunFinishedEvent, RunPausedEvent
from pilotage.agent.principal import Principal
from pilotage.agent.state import AgentStatus
from pilotage.runtime.runs import AgentRuns

_CHARACTERS_TOGETHER = 32_000
_REMEMBERED = 1_024


class EncodedEvents:
    """The JSON texts of the last events: all who read a live run are told the same objects."""

    def __init__(self) -> None:
        # With the event itself: as long as it is here, nothing else has its id.
        self._texts: OrderedDict[int, tuple[AgentEvent, str]] = OrderedDict()

    def text_of(self, event: AgentEvent) -> str:
        """The JSON text of an event."""
        known = self._texts.get(id(event))
        if known is not None:
            return known[1]
        text = text_of(event)
        self._texts[id(event)] = (event, text)
        if len(self._texts) > _REMEMBERED:
            self._texts.popitem(last=False)
        return text


class RunFrames(Told):
    """Reads a run behind a cursor. Where that ends before the run pauses or ends, the last frame says so."""

    def __init__(
        self,
        runs: AgentRuns,
        run_id: str,
        principal: Principal | None,
        after: str | None,
        encoded: EncodedEvents,
    ) -> None:
        self._events = runs.events(run_id, after=after, principal=principal)
        self._state = partial(runs.get, run_id, principal=principal)
        self._encoded = encoded
        self._is_over = False

    async def __anext__(self) -> Sequence[Frame]:
        if self._is_over:
            raise StopAsyncIteration
        try:
            event = await anext(self._events, None)
            if event is None:
                return await self._last()
        except OSError as error:
            raise StoreUnreachableError from error
        frames = [self._frame(event)]
        size = len(frames[0].data)
        while size < _CHARACTERS_TOGETHER and (ready := self._events.next_ready()) is not None:
            frames.append(self._frame(ready))
            size += len(frames[-1].data)
        return frames

    async def aclose(self) -> None:
        """Stop listening."""
        await self._events.aclose()

    async def _last(self) -> Sequence[Frame]:
        """There is no more here: either nothing is to come at all, or this process does not drive the run any more."""
        self._is_over = True
        state = await self._state()
        if state.is_terminal or state.status is AgentStatus.INTERRUPTED:
            raise StopAsyncIteration
        return (RECONNECT,)

    def _frame(self, event: AgentEvent) -> Frame:
        self._is_over = isinstance(event, RunFinishedEvent | RunPausedEvent)
        return event_frame(event, self._events.cursor, self._encoded.text_of(event))

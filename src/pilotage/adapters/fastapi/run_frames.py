"""The events of a run as frames: those that are there at once go out together, each encoded once for all readers."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Sequence

from pilotage.adapters.fastapi.errors import StoreUnreachableError
from pilotage.adapters.fastapi.frames import RECONNECT, Frame, event_frame, text_of
from pilotage.adapters.fastapi.telling import Told
from pilotage.agent.events import AgentEvent, RunFinishedEvent, RunPausedEvent
from pilotage.runtime.stream.subscription import Subscription

_TOGETHER = 64
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
    """Reads a subscription. Where it ends before its run does, the last frame says so."""

    def __init__(self, events: Subscription, encoded: EncodedEvents) -> None:
        self._events = events
        self._encoded = encoded
        self._is_over = False

    async def __anext__(self) -> Sequence[Frame]:
        if self._is_over:
            raise StopAsyncIteration
        try:
            event = await anext(self._events, None)
        except OSError as error:
            raise StoreUnreachableError from error
        if event is None:
            self._is_over = True
            return (RECONNECT,)
        frames = [self._frame(event)]
        while len(frames) < _TOGETHER and (ready := self._events.next_ready()) is not None:
            frames.append(self._frame(ready))
        return frames

    async def aclose(self) -> None:
        """Stop listening."""
        await self._events.aclose()

    def _frame(self, event: AgentEvent) -> Frame:
        self._is_over = isinstance(event, RunFinishedEvent | RunPausedEvent)
        return event_frame(event, self._events.cursor, self._encoded.text_of(event))

"""The events of a run as frames: those that are there at once go out together, each encoded once for all readers."""

from __future__ import annotations

from collections import OrderedDict, deque
from collections.abc import Sequence
from functools import partial

from pilotage.adapters.fastapi.errors import StoreUnreachableError
from pilotage.adapters.fastapi.frames import RECONNECT, Frame, event_frame
from pilotage.adapters.fastapi.telling import Frames
from pilotage.agent.events import RunFinishedEvent, RunPausedEvent
from pilotage.agent.principal import Principal
from pilotage.agent.state import AgentStatus
from pilotage.runtime.events.feed import EventCursor, PositionedEvent
from pilotage.runtime.runs import AgentRuns

_EVENTS_TOGETHER = 256
_CHARACTERS_TOGETHER = 32_000
_REMEMBERED = 1_024


class EncodedEvents:
    """The frames of the last events: all who read a live run are told the same objects."""

    def __init__(self) -> None:
        # With the event itself: as long as it is here, nothing else has its id.
        self._known: OrderedDict[int, tuple[PositionedEvent, Frame]] = OrderedDict()

    def frame_of(self, told: PositionedEvent) -> Frame:
        """The frame of an event."""
        known = self._known.get(id(told[3]))
        if known is not None and known[0][:3] == told[:3]:
            return known[1]
        epoch, number, offset, event = told
        frame = event_frame(event, str(EventCursor(epoch, number, offset)))
        self._known[id(event)] = (told, frame)
        if len(self._known) > _REMEMBERED:
            self._known.popitem(last=False)
        return frame


class RunFrames(Frames):
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
        self._ready: deque[Frame] = deque()
        self._is_over = False

    async def __anext__(self) -> Sequence[Frame]:
        if not self._ready:
            await self._read()
        frames: list[Frame] = []
        size = 0
        # A client that does not read should not hold more than this in the buffers of its connection.
        while self._ready and size < _CHARACTERS_TOGETHER:
            frames.append(self._ready.popleft())
            size += len(frames[-1].data)
        return frames

    async def aclose(self) -> None:
        """Stop listening."""
        await self._events.aclose()

    async def _read(self) -> None:
        if self._is_over:
            raise StopAsyncIteration
        try:
            batch = await self._events.next_batch(_EVENTS_TOGETHER)
            if not batch:
                await self._stop()
        except OSError as error:
            raise StoreUnreachableError from error
        self._ready.extend(map(self._encoded.frame_of, batch))
        self._is_over = not batch or isinstance(batch[-1][3], RunFinishedEvent | RunPausedEvent)

    async def _stop(self) -> None:
        """There is no more here: either nothing is to come at all, or this process does not drive the run any more."""
        state = await self._state()
        if state.is_terminal or state.status is AgentStatus.INTERRUPTED:
            raise StopAsyncIteration
        self._ready.append(RECONNECT)

"""Writers of a run's events: into the journal and the live feed, or directly to the reader of an ephemeral run."""

from __future__ import annotations

import asyncio
from abc import ABC, abstractmethod
from collections import deque
from collections.abc import AsyncIterator, Callable, Iterable
from typing import TypeAlias

from pilotage.agent.events import DELTAS, AgentEvent, AgentEventAttribution, TextId, delta_of
from pilotage.jsonvalue import JsonObject
from pilotage.runtime.events.event_log import LoggedEvent, PendingEvents
from pilotage.runtime.events.feed import QUEUE_LIMIT, START, EventCursor, Feed, wake
from pilotage.runtime.events.replay_filter import ReplayFilter
from pilotage.runtime.exposure.modes import Exposure

NewPart: TypeAlias = Callable[[AgentEvent], AgentEvent | None]
"""Returns the part of an event that the log does not have; None if it has all of it."""


class EventWriter(ABC):
    """Writes the events of one run attempt."""

    is_replaying = False
    """Whether the log may have events that the program will repeat."""

    def __init__(self, exposure: Exposure) -> None:
        self._exposure = exposure
        self.is_full = False
        """Whether the run should wait for its reader (`room`); readers of a log never slow a run down."""

    @property
    def holds_all(self) -> bool:
        """Whether all events of the program wait for the final guard: the log has none of them before."""
        return self._exposure.holds_all

    @property
    def holds_back(self) -> bool:
        """Whether what the program emits may wait for what it emits later."""
        return not self._exposure.holds_nothing

    @property
    def emitted(self) -> int:
        """The number of the events that the program has emitted by now, in this attempt or the ones before it."""
        return 0

    @abstractmethod
    def write(self, event: AgentEvent) -> None:
        """Write an event of the program, as far as it may be seen by now.

        Raises:
            AgentOutputGuardError: a part of it must not be seen at all.
        """

    async def write_all(self, events: AsyncIterator[AgentEvent]) -> None:
        """Write the events of a program as it yields them; a slow reader slows it, if there is only one.

        Raises:
            AgentOutputGuardError: a part of them must not be seen at all.
        """
        async for event in events:
            self.write(event)
            if self.is_full:
                await self.wait_for_room()

    async def wait_for_room(self) -> None:  # noqa: B027 - readers of a log are never waited for
        """Wait until the reader has room."""

    def flush(self, *, is_guarded: bool = False) -> None:
        """Write held events that may be seen now; after the final guard those are all.

        Raises:
            AgentOutputGuardError: a part of them must not be seen at all.
        """
        for released in self._exposure.flush(guarded=is_guarded):
            self._emit(released)

    def flush_decided(self) -> None:
        """Write held text that may be seen whatever follows; the run may go on later.

        Raises:
            AgentOutputGuardError: a part of it must not be seen at all.
        """
        for released in self._exposure.release():
            self._emit(released)

    def end_text(self, text: TextId) -> None:
        """Write the rest of a text that does not go on.

        Raises:
            AgentOutputGuardError: the rest must not be seen.
        """
        for released in self._exposure.end(text):
            self._emit(released)

    def drop_held(self) -> None:
        """Drop the held events: they must not be seen."""
        self._exposure.drop()

    def go_live(self) -> None:  # noqa: B027 - without a log there is nothing to repeat
        """Treat every event from now on as new: the program has repeated all recorded events."""

    def supersede(self, message_id: str) -> None:  # noqa: B027 - without a log there is nothing to supersede
        """Mark the output of an earlier model call for this message as superseded: the model is called again."""

    def compare_children(self, runs: Iterable[str], new_part: NewPart) -> None:  # noqa: B027 - without a log, likewise
        """Compare the redacted events of these child runs with the log by another function."""

    def start_metadata(self) -> JsonObject:
        """Return the metadata of the attempt's first event."""
        return {}

    @abstractmethod
    def write_now(self, event: AgentEvent) -> None:
        """Write an event of the runtime at once."""

    @abstractmethod
    def prepare(self, event: AgentEvent) -> None:
        """Add an event to the next commit; `release` emits it when that is durable."""

    @abstractmethod
    def release(self) -> None:
        """Emit the prepared events."""

    @abstractmethod
    def take_back(self) -> None:
        """Drop the prepared events: their commit was refused."""

    @abstractmethod
    def close(self) -> None:
        """End the stream of events."""

    @abstractmethod
    def _emit(self, event: AgentEvent) -> None: ...


class DurableEventWriter(EventWriter):
    """Writes events to the log of a durable run and to its live feed. Events that replay repeats are filtered.

    `logged` are the events of earlier attempts, `forward` takes the events of a child run to its parent.
    """

    def __init__(
        self,
        by: AgentEventAttribution,
        exposure: Exposure,
        *,
        log: PendingEvents,
        epoch: int,
        logged: deque[LoggedEvent] | None = None,
        forward: Callable[[AgentEvent], None] | None = None,
    ) -> None:
        super().__init__(exposure)
        self.feed = Feed()
        self._forward = forward
        self.resumed_after: EventCursor = logged[-1].end if logged else START
        self._by = by
        self._log = log
        self._epoch = epoch
        self._prepared: list[tuple[int, AgentEvent]] = []
        self._deferred: list[AgentEvent] = []
        """The events that were written while the end of the attempt was being committed."""
        self._replay = ReplayFilter(logged, by) if logged else None
        self.is_replaying = bool(logged)
        self._compared: dict[str, NewPart] = {}

    def write(self, event: AgentEvent) -> None:
        exposure = self._exposure
        # `is_transparent` and `_emit` without the calls: this runs for every delta of a text.
        if not (exposure.holds_nothing and exposure.redactor.is_idle):
            for released in exposure.push(event):
                self._emit(released)
        elif self._replay is None and not self._compared:
            self._publish(event)
        else:
            self._emit(event)

    def start_metadata(self) -> JsonObject:
        if self._epoch == 1:
            return {}
        # Events after this cursor were never committed: readers get others in their place.
        return {"epoch": self._epoch, "resumed_after": str(self.resumed_after)}

    def write_now(self, event: AgentEvent) -> None:
        self._publish(self._exposure.redacted(event))

    def prepare(self, event: AgentEvent) -> None:
        event = self._exposure.redacted(event)
        self._prepared.append((self._log.promise(event, self._by), event))

    def release(self) -> None:
        for number, event in self._prepared:
            self._deliver(number, 0, event)
        self._prepared.clear()
        # The attempt is over: events of a task that still runs are dropped.
        self._deferred.clear()

    def take_back(self) -> None:
        self._prepared.clear()
        deferred, self._deferred = self._deferred, []
        for event in deferred:
            self._publish(event)

    def close(self) -> None:
        self.feed.close()

    def go_live(self) -> None:
        self.is_replaying = False
        if self._replay is not None:
            self._replay.go_live(self._exposure.held_texts)
            if self._replay.is_exhausted:
                self._replay = None

    def supersede(self, message_id: str) -> None:
        if self._replay is not None:
            for mark in self._replay.marks_for(message_id, self._by.run_id):
                self._publish(mark)

    def compare_children(self, runs: Iterable[str], new_part: NewPart) -> None:
        self._compared.update(dict.fromkeys(runs, new_part))

    @property
    def emitted(self) -> int:
        coming = None if self._replay is None else self._replay.coming
        return self.last_number if coming is None else coming - 1

    @property
    def last_number(self) -> int:
        """The number of the last event that was emitted."""
        return self._prepared[0][0] - 1 if self._prepared else self._log.last_number

    def open_end(self) -> list[LoggedEvent]:
        """Return the emitted events that cannot be read from the journal yet, without the prepared ones."""
        last = self.last_number
        return [item for item in self._log.open_end(self._epoch) if item.number <= last]

    def _emit(self, event: AgentEvent) -> None:
        if self._compared and (new_part := self._compared.get(event.attribution.run_id)) is not None:
            if (missing := new_part(event)) is not None:
                self._publish(missing)
            return
        replay = self._replay
        if replay is None:
            self._publish(event)
        elif not replay.is_next(event):
            for mark in replay.marks_before(event):
                self._publish(mark)
            if (missing := replay.new_part(event)) is not None:
                self._publish(missing)

    def _publish(self, event: AgentEvent) -> None:
        if self._prepared:
            self._deferred.append(event)
            return
        delta = delta_of(event) if type(event) in DELTAS and not event.metadata else None
        if delta is None:
            number, offset = self._log.add(event, self._by), 0
        else:
            text, added = delta
            number, offset = self._log.grow(text, added) or self._log.begin(text, event, added, self._by)
        if self.feed.has_subscribers or self._forward is not None:
            self._deliver(number, offset, event)

    def _deliver(self, number: int, offset: int, event: AgentEvent) -> None:
        if self.feed.has_subscribers:
            self.feed.publish((self._epoch, number, offset, event))
        if self._forward is not None:
            self._forward(event)


_MOST_WAITING = QUEUE_LIMIT // 2
"""The events that a reader has taken and those that wait are within the limit together."""


class DirectEventWriter(EventWriter, AsyncIterator[AgentEvent]):
    """Passes the events of an ephemeral run to its reader, who iterates it. A slow reader slows the run.

    A child run has no reader of its own: its events go `forward` to its parent.
    """

    def __init__(self, exposure: Exposure, forward: Callable[[AgentEvent], None] | None = None) -> None:
        self._exposure = exposure
        self._forward = forward
        self._is_open = exposure.is_open and forward is None
        """Whether every event goes to the reader as it is."""
        self._prepared: list[AgentEvent] = []
        self._waiting: list[AgentEvent] = []
        self._reader: asyncio.Future[None] | None = None
        self._writer: asyncio.Future[None] | None = None
        self._has_begun = self._is_over = self.is_full = False

    def write(self, event: AgentEvent) -> None:
        exposure = self._exposure
        # `is_transparent` without the call: this runs for every delta of a text.
        if exposure.holds_nothing and exposure.redactor.is_idle:
            self._emit(event)
        else:
            for released in exposure.push(event):
                self._emit(released)

    async def write_all(self, events: AsyncIterator[AgentEvent]) -> None:
        if not self._is_open:
            await super().write_all(events)
            return
        async for event in events:
            waiting = self._waiting
            waiting.append(event)
            if self._reader is not None or len(waiting) >= _MOST_WAITING:
                self._notify()
                if self.is_full:
                    await self.wait_for_room()

    def write_now(self, event: AgentEvent) -> None:
        self._emit(self._exposure.redacted(event))

    def prepare(self, event: AgentEvent) -> None:
        self._prepared.append(self._exposure.redacted(event))

    def release(self) -> None:
        for event in self._prepared:
            self._emit(event)
        self._prepared.clear()

    def take_back(self) -> None:
        self._prepared.clear()

    def close(self) -> None:
        """End the stream of events and wake both sides."""
        self._is_over = True
        wake(self._reader)
        wake(self._writer)

    async def wait_for_room(self) -> None:
        """Wait until the reader has caught up or the stream has ended."""
        while self.is_full and not self._is_over:
            self._writer = asyncio.get_running_loop().create_future()
            await self._writer

    def ready(self) -> Iterable[AgentEvent]:
        """Return the events that can be read without waiting."""
        taken, self._waiting = self._waiting, []
        self._make_room()
        return taken

    async def __anext__(self) -> AgentEvent:
        if not self._has_begun:
            # Let the run take its first turn before the reader waits: then there are events, and no future is needed.
            self._has_begun = True
            await asyncio.sleep(0)
        while not self._waiting:
            if self._is_over:
                raise StopAsyncIteration
            self._reader = asyncio.get_running_loop().create_future()
            await self._reader
        event = self._waiting.pop(0)
        if self.is_full and not self._waiting:
            self._make_room()
        return event

    def _emit(self, event: AgentEvent) -> None:
        if self._forward is not None:
            self._forward(event)
            return
        self._waiting.append(event)
        if self._reader is not None or len(self._waiting) >= _MOST_WAITING:
            self._notify()

    def _notify(self) -> None:
        """Wake the reader that waits; if none does, the queue is full."""
        if self._reader is None:
            self.is_full = True
        wake(self._reader)
        self._reader = None

    def _make_room(self) -> None:
        self.is_full = False
        wake(self._writer)

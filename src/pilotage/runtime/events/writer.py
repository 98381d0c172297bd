"""What a run tells: kept in its journal with the next commit, and passed on to whoever listens at once."""

from __future__ import annotations

import asyncio
from abc import ABC, abstractmethod
from collections import deque
from collections.abc import AsyncIterator, Callable, Iterable
from typing import Protocol, TypeAlias

from pilotage.agent.events import AgentEvent, AgentEventAttribution
from pilotage.jsonvalue import JsonObject
from pilotage.runtime.events.catch_up import AlreadyLogged
from pilotage.runtime.events.event_log import LoggedEvent, PendingEvents
from pilotage.runtime.events.event_record import encode_event, encode_frame
from pilotage.runtime.events.feed import QUEUE_LIMIT, START, EventCursor, Feed, release
from pilotage.runtime.exposure.modes import Exposure
from pilotage.runtime.exposure.pieces import piece_of

Untold: TypeAlias = Callable[[AgentEvent], AgentEvent | None]
"""What of an event has not been told yet."""


class ITold(Protocol):
    """What keeps what is told: the ledger of a run."""

    log: PendingEvents
    epoch: int


class EventWriter(ABC):
    """Takes the events of one attempt at a run."""

    is_repeating = False
    """Whether there is something in the log that the program may say again."""
    is_full = False
    """Whether the run should wait for its reader (`room`); readers of a log never hold a run up."""

    def __init__(self, exposure: Exposure) -> None:
        self._exposure = exposure

    def say(self, event: AgentEvent) -> None:
        """Tell what the program says, as far as it may be seen by now.

        Raises:
            AgentOutputGuardError: something of it must not be seen at all.
        """
        if self._exposure.is_transparent:
            self._pass_on(event)
        else:
            for released in self._exposure.push(event):
                self._pass_on(released)

    async def room(self) -> None:  # noqa: B027 - nobody to wait for where readers have a log
        """Return when there is no reader to wait for."""

    def flush(self, *, is_guarded: bool = False) -> None:
        """Tell what was held back and may be seen now; behind the final guard that is everything.

        Raises:
            AgentOutputGuardError: something of it must not be seen at all.
        """
        for released in self._exposure.flush(guarded=is_guarded):
            self._pass_on(released)

    def drop(self) -> None:
        """Forget what was held back: it must not be seen."""
        self._exposure.drop()

    def go_live(self) -> None:  # noqa: B027 - nothing to do where nothing was said before
        """The program has repeated everything it said before; from here on it says something new."""

    def supersede(self, message_id: str) -> None:  # noqa: B027 - the same
        """A model is asked for this message: what was told of it by an owner before does not count."""

    def compare(self, runs: Iterable[str], untold: Untold) -> None:  # noqa: B027 - the same
        """What these runs below this one say is compared with the log by somebody else, behind the redaction."""

    def start_facts(self) -> JsonObject:
        """What the first event of the attempt says about the ones before."""
        return {}

    @abstractmethod
    def report(self, event: AgentEvent) -> None:
        """Tell what the run itself has to say, at once."""

    @abstractmethod
    def prepare(self, event: AgentEvent) -> None:
        """Put an event into the next commit; `release` tells it when that is durable."""

    @abstractmethod
    def release(self) -> None:
        """Tell what was prepared."""

    @abstractmethod
    def close(self) -> None:
        """There will be no more."""

    @abstractmethod
    def _pass_on(self, event: AgentEvent) -> None: ...


class DurableEventWriter(EventWriter):
    """Of a run with a journal. In replay, what is in its log by now is not told a second time."""

    def __init__(
        self,
        by: AgentEventAttribution,
        ledger: ITold,
        exposure: Exposure,
        told: deque[LoggedEvent] | None = None,
        forward: Callable[[AgentEvent], None] | None = None,
    ) -> None:
        super().__init__(exposure)
        self.feed = Feed()
        self._forward = forward
        self.resumed_after: EventCursor = told[-1].end if told else START
        self._by = by
        self._ledger = ledger
        self._log = ledger.log
        self._epoch = ledger.epoch
        self._prepared: list[tuple[int, AgentEvent]] = []
        self._before = AlreadyLogged(told, by) if told else None
        self.is_repeating = bool(told)
        self._compared: dict[str, Untold] = {}

    def say(self, event: AgentEvent) -> None:
        exposure = self._exposure
        # `is_transparent` without the call: this is done for every event, and for every piece of a text.
        if not (exposure.holds_nothing and exposure.redactor.is_idle):
            super().say(event)
        elif self._before is None and not self._compared:
            self._publish(event)
        else:
            self._pass_on(event)

    def start_facts(self) -> JsonObject:
        if self._epoch == 1:
            return {}
        # Whoever has seen more than this has seen what was never committed: it is told anew.
        return {"epoch": self._epoch, "resumed_after": str(self.resumed_after)}

    def report(self, event: AgentEvent) -> None:
        self._publish(self._exposure.redacted(event))

    def prepare(self, event: AgentEvent) -> None:
        event = self._exposure.redacted(event)
        self._prepared.append((self._log.promise(encode_event(event, self._by)), event))

    def release(self) -> None:
        for number, event in self._prepared:
            self._pass_along(number, 0, event)
        self._prepared.clear()

    def close(self) -> None:
        self.feed.close()

    def go_live(self) -> None:
        self.is_repeating = False
        if self._before is not None:
            self._before.go_live(self._exposure.held_texts)
            if self._before.is_done:
                self._before = None

    def supersede(self, message_id: str) -> None:
        if self._before is not None:
            for mark in self._before.repeated(message_id, self._by.run_id):
                self._publish(mark)

    def compare(self, runs: Iterable[str], untold: Untold) -> None:
        self._compared.update(dict.fromkeys(runs, untold))

    @property
    def last_number(self) -> int:
        """The number of the last event that was told."""
        return self._prepared[0][0] - 1 if self._prepared else self._log.last_number

    def open_end(self) -> list[LoggedEvent]:
        """What was told and cannot be read from the journal yet; what is only prepared was not told."""
        last = self.last_number
        return [item for item in self._log.open_end(self._epoch) if item.number <= last]

    def _pass_on(self, event: AgentEvent) -> None:
        if self._compared and (untold := self._compared.get(event.attribution.run_id)) is not None:
            if (lacking := untold(event)) is not None:
                self._publish(lacking)
            return
        before = self._before
        if before is None:
            self._publish(event)
        elif not before.is_next(event):
            for mark in before.superseded_by(event):
                self._publish(mark)
            unsaid = before.unsaid(event)
            if unsaid is not None:
                self._publish(unsaid)

    def _publish(self, event: AgentEvent) -> None:
        piece = piece_of(event)
        if piece is None or event.metadata:
            number, offset = self._log.add(encode_event(event, self._by)), 0
        else:
            text, words = piece
            number, offset = self._log.grow(text, words) or self._log.begin(
                text, encode_frame(event, self._by), words
            )
        self._pass_along(number, offset, event)

    def _pass_along(self, number: int, offset: int, event: AgentEvent) -> None:
        if self.feed.is_heard:
            self.feed.publish((self._epoch, number, offset, event))
        if self._forward is not None:
            self._forward(event)


_MOST_WAITING = QUEUE_LIMIT // 2
"""What a reader has taken and what waits behind it are within the limit together."""


class DirectEventWriter(EventWriter, AsyncIterator[AgentEvent]):
    """Takes what the run tells and is what its reader iterates. A slow reader slows the run.

    A child has no reader of its own: what it tells goes `forward` to its parent.
    """

    def __init__(self, exposure: Exposure, forward: Callable[[AgentEvent], None] | None = None) -> None:
        self._exposure = exposure
        self._forward = forward
        self._prepared: list[AgentEvent] = []
        self._waiting: list[AgentEvent] = []
        self._reader: asyncio.Future[None] | None = None
        self._writer: asyncio.Future[None] | None = None
        self._has_begun = self._is_over = self.is_full = False

    def say(self, event: AgentEvent) -> None:
        exposure = self._exposure
        # `is_transparent` and `_pass_on` without the calls: this is done for every piece of a text.
        if self._forward is None and exposure.holds_nothing and exposure.redactor.is_idle:
            self._waiting.append(event)
            if self._reader is not None or len(self._waiting) >= _MOST_WAITING:
                self._be_noticed()
        else:
            for released in exposure.push(event):
                self._pass_on(released)

    def report(self, event: AgentEvent) -> None:
        self._pass_on(self._exposure.redacted(event))

    def prepare(self, event: AgentEvent) -> None:
        self._prepared.append(self._exposure.redacted(event))

    def release(self) -> None:
        for event in self._prepared:
            self._pass_on(event)
        self._prepared.clear()

    def close(self) -> None:
        """There will be no more, and nobody waits any longer."""
        self._is_over = True
        release(self._reader)
        release(self._writer)

    async def room(self) -> None:
        """Return when the reader has caught up, or has left."""
        while self.is_full and not self._is_over:
            self._writer = asyncio.get_running_loop().create_future()
            await self._writer

    def ready(self) -> Iterable[AgentEvent]:
        """Everything that is there already."""
        taken, self._waiting = self._waiting, []
        self._make_room()
        return taken

    async def __anext__(self) -> AgentEvent:
        if not self._has_begun:
            # The run has its first turn before anybody waits for it: then there is something to read, without a wait.
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

    def _pass_on(self, event: AgentEvent) -> None:
        if self._forward is not None:
            self._forward(event)
            return
        self._waiting.append(event)
        if self._reader is not None or len(self._waiting) >= _MOST_WAITING:
            self._be_noticed()

    def _be_noticed(self) -> None:
        """Wake the reader that waits; where none does, there may be too much by now."""
        if self._reader is None:
            self.is_full = True
        release(self._reader)
        self._reader = None

    def _make_room(self) -> None:
        self.is_full = False
        release(self._writer)

"""Reading the events of a run: from a cursor on, first what is in its log, then live, with nothing left out."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Sequence
from typing import Self

from pilotage.agent.events import AgentEvent, AgentEventAttribution
from pilotage.agent.ports.journal import IAgentJournal, RunKey
from pilotage.ids import IClock
from pilotage.runtime.events.event_log import (
    LoggedEvent,
    events_after,
    last_valid,
    logged_events,
    refuse_erased,
    still_needed,
)
from pilotage.runtime.events.feed import START, EventCursor, PositionedEvent, SubscriberQueue
from pilotage.runtime.events.writer import DurableEventWriter

POLL_SECONDS = 1.0


class LogReader:
    """Reads the log of one run, each row once, and keeps what its reader has not read."""

    def __init__(
        self,
        journal: IAgentJournal,
        find: Callable[[], Awaitable[RunKey]],
        describe: Callable[[RunKey], Awaitable[AgentEventAttribution]],
    ) -> None:
        self._journal = journal
        self._find = find
        self._describe = describe
        self._run: RunKey | None = None
        self._by: AgentEventAttribution | None = None
        self._seq = self._epoch = 0
        self._items: list[LoggedEvent] = []

    async def by(self) -> AgentEventAttribution:
        """Whose events they are.

        Raises:
            RunNotFoundError: there is no such run.
        """
        if self._by is None:
            self._by = await self._describe(await self._found())
        return self._by

    @property
    def is_over(self) -> bool:
        """Whether the run has paused or ended, as far as was read: nobody has taken it since."""
        return bool(self._items) and self._items[-1].is_end and self._items[-1].epoch == self._epoch

    async def read(self) -> Sequence[LoggedEvent]:
        """Everything that is durable by now, without what was forgotten.

        Raises:
            RunErasedError: what the run said was erased.
        """
        rows = [row async for row in self._journal.read(await self._found(), self._seq)]
        refuse_erased(await self._found(), rows)
        if rows:
            self._seq, self._epoch = rows[-1].seq, rows[-1].epoch
            self._items += logged_events(rows)
        return self._items

    async def _found(self) -> RunKey:
        if self._run is None:
            self._run = await self._find()
        return self._run

    def forget(self, seen: EventCursor) -> None:
        """The reader has read up to here, and does not come back."""
        self._items = still_needed(self._items, seen)


class Subscription(AsyncIterator[AgentEvent]):
    """An async iterator over events; `cursor` says where it stands, and another one goes on from there.

    It ends when the run pauses or is over, and when this process stops driving it: an end without `RunFinished` or
    `RunPaused` is one to come back from, with the cursor. Dropping it costs nothing and touches nothing. One that does
    not follow ends where the run stands now.
    """

    def __init__(
        self,
        log: LogReader,
        telling: DurableEventWriter | None,
        clock: IClock,
        after: EventCursor = START,
        *,
        follows: bool = True,
    ) -> None:
        self._log = log
        self._telling = telling
        self._clock = clock
        self._epoch: int = after.epoch
        self._number: int = after.number
        self._offset: int = after.offset
        self._listener = SubscriberQueue()
        self._missed: Iterator[PositionedEvent] | None = None
        self._is_over = False
        self._follows = follows
        self._listener.has_fallen_behind = telling is not None
        if telling is not None:
            telling.feed.listen(self._listener)

    @property
    def cursor(self) -> str:
        """Where this reader stands: hand it to `events(run, after=...)` to go on from here."""
        return str(self._position)

    @property
    def _position(self) -> EventCursor:
        return EventCursor(self._epoch, self._number, self._offset)

    def __aiter__(self) -> Self:
        return self

    def take(self) -> AgentEvent | None:
        """The next event, or None where it must be waited for."""
        told = self._listener.take() if self._missed is None else self._next_missed()
        if told is None:
            return None
        self._epoch, self._number, self._offset, event = told
        return event

    def ready(self) -> Iterator[AgentEvent]:
        """What is there already, one after the other."""
        return iter(self.take, None)

    async def __anext__(self) -> AgentEvent:
        while True:
            if (event := self.take()) is not None:
                return event
            if self._missed is not None:
                self._missed = None
                self._log.forget(self._position)
            elif self._is_over:
                raise StopAsyncIteration
            elif self._telling is None:
                await self._tail()
            elif self._listener.has_fallen_behind:
                await self._catch_up(self._telling)
            elif self._telling.feed.is_over or not self._follows:
                self._is_over = True
            else:
                await self._listener.wait()

    async def next_batch(self, most: int) -> Sequence[PositionedEvent]:
        """The next event, and those behind it that are there already, each with where it lies; none at the end."""
        event = await anext(self, None)
        if event is None:
            return ()
        batch: list[PositionedEvent] = [(self._epoch, self._number, self._offset, event)]
        while len(batch) < most and (told := self._ready()) is not None:
            batch.append(told)
        self._epoch, self._number, self._offset, _ = batch[-1]
        return batch

    def _ready(self) -> PositionedEvent | None:
        """The next event where it is there already."""
        try:
            return self._listener.take() if self._missed is None else self._next_missed()
        except Exception:  # noqa: BLE001 - whoever asks again gets the same error, and has what came before it
            return None

    async def aclose(self) -> None:
        """Stop listening."""
        self._is_over, self._missed, self._listener, self._telling = True, None, SubscriberQueue(), None

    def _next_missed(self) -> PositionedEvent | None:
        try:
            return next(self._missed, None) if self._missed is not None else None
        except BaseException:
            # An event that cannot be read is not skipped: whoever asks again gets the same error.
            self._missed, self._listener.has_fallen_behind = None, True
            raise

    async def _catch_up(self, telling: DurableEventWriter) -> None:
        """Read what was told since the cursor, from the log and from what is not in it yet."""
        # From this line on the queue fills again; what came before it is in the log, or in its open end.
        self._listener.start_over()
        open_end, last = telling.open_end(), telling.last_number
        end_of_log = open_end[0].number - 1 if open_end else last
        try:
            log = [item for item in await self._log.read() if item.number <= end_of_log]
            await self._take([*log, *open_end])
        except BaseException:
            # Whoever gives up waiting, or finds the store away, may ask again and has missed nothing.
            self._listener.has_fallen_behind = True
            raise

    async def _tail(self) -> None:
        """Follow a run that another process drives: look into the log again and again until it pauses or ends."""
        if await self._take(await self._log.read()):
            return
        if self._log.is_over or not self._follows:
            self._is_over = True
        else:
            await self._clock.sleep(POLL_SECONDS)

    async def _take(self, items: Sequence[LoggedEvent]) -> bool:
        """Go on with what of the items the reader has not read; False where that is nothing."""
        by = await self._log.by()
        seen = last_valid(items, self._position)
        if not items or (items[-1].number, len(items[-1].text)) <= (seen.number, seen.offset):
            return False
        self._missed = events_after(items, seen, by)
        return True

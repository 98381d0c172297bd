"""Subscriptions to the events of a run: from a cursor on, first from its log, then live, without gaps."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Sequence
from typing import Self, TypeAlias

from pilotage.agent.events import AgentEvent, AgentEventAttribution
from pilotage.agent.ports.journal import IAgentJournal
from pilotage.agent.ports.persistence import RunKey
from pilotage.ids import IClock
from pilotage.runtime.events.event_log import (
    LoggedEvent,
    LogRows,
    events_after,
    last_valid,
    refuse_erased,
    still_needed,
)
from pilotage.runtime.events.feed import START, EventCursor, PositionedEvent, SubscriberQueue
from pilotage.runtime.events.writer import DurableEventWriter

POLL_SECONDS = 1.0
LiveWriter: TypeAlias = Callable[[], DurableEventWriter | None]
"""Returns the writer of a run that is live in this process, else None."""
NextAttempt: TypeAlias = Callable[[], Awaitable[DurableEventWriter | None]]
"""Waits until an attempt that is about to begin has begun; returns its writer, or None if it is not live here."""


class LogReader:
    """Reads the event log of one run, each row once, and holds the events that its subscriber has not read."""

    def __init__(
        self,
        journal: IAgentJournal,
        find: Callable[[], Awaitable[RunKey]],
        describe: Callable[[RunKey], Awaitable[AgentEventAttribution]],
        is_at_rest: Callable[[RunKey], Awaitable[bool]],
    ) -> None:
        self._journal = journal
        self._find = find
        self._describe = describe
        self._is_at_rest = is_at_rest
        self._run: RunKey | None = None
        self._by: AgentEventAttribution | None = None
        self._seq = self._epoch = 0
        self._items: list[LoggedEvent] = []
        self._rows: LogRows | None = None

    async def by(self) -> AgentEventAttribution:
        """Return the attribution of the run.

        Raises:
            RunNotFoundError: there is no such run.
        """
        if self._by is None:
            self._by = await self._describe(await self._found())
        return self._by

    @property
    def is_over(self) -> bool:
        """Whether the run has paused or ended, as far as was read, and no attempt has begun since."""
        return bool(self._items) and self._items[-1].is_end and self._items[-1].epoch == self._epoch

    async def is_at_rest(self) -> bool:
        """Return whether the run has paused or ended by its state."""
        return await self._is_at_rest(await self._found())

    async def read(self) -> Sequence[LoggedEvent]:
        """Return all durable events, except for the forgotten ones.

        Raises:
            RunErasedError: the events of the run were erased.
        """
        run = await self._found()
        rows = [row async for row in self._journal.read(run, self._seq)]
        refuse_erased(run, rows)
        if rows:
            self._seq, self._epoch = rows[-1].seq, rows[-1].epoch
            self._rows = self._rows or LogRows(run.run_id)
            self._items += self._rows.read(rows)
            self._rows.detach()
        return self._items

    async def _found(self) -> RunKey:
        if self._run is None:
            self._run = await self._find()
        return self._run

    def forget(self, seen: EventCursor) -> None:
        """Drop the events that a subscriber at this cursor does not need any more."""
        self._items = still_needed(self._items, seen)


class Subscription(AsyncIterator[AgentEvent]):
    """An async iterator over the events of a run. `cursor` is its position; another one can continue from there.

    It ends when the run pauses or ends, and when this process stops driving it: after an end without `RunFinished` or
    `RunPaused`, subscribe again with the cursor. Dropping it has no effect on the run. With `follows=False` it ends
    after the events that exist now. With `next_attempt` it goes on with that attempt after the end of the current one.
    A run that another process drives is read from its log, and live once this process drives it: `live` says so.
    """

    def __init__(
        self,
        log: LogReader,
        writer: DurableEventWriter | None,
        clock: IClock,
        after: EventCursor = START,
        *,
        follows: bool = True,
        next_attempt: NextAttempt | None = None,
        live: LiveWriter | None = None,
    ) -> None:
        self._log = log
        self._clock = clock
        # Three integers instead of a cursor: they change with every event.
        self._epoch: int = after.epoch
        self._number: int = after.number
        self._offset: int = after.offset
        self._missed: Iterator[PositionedEvent] | None = None
        self._is_over = False
        self._follows = follows
        self._next_attempt = next_attempt
        self._live = live
        # Asked once: an end that is written later is in the log with its event.
        self._may_have_lost_its_end = next_attempt is None
        self._writer: DurableEventWriter | None = None
        self._queue = SubscriberQueue()
        self._attach(writer)

    @property
    def cursor(self) -> str:
        """The position after the last event; pass it to `events(run, after=...)` to continue from here."""
        return str(self._position)

    @property
    def _position(self) -> EventCursor:
        return EventCursor(self._epoch, self._number, self._offset)

    def __aiter__(self) -> Self:
        return self

    def take(self) -> AgentEvent | None:
        """Return the next event, or None if it must be awaited."""
        # The branch of `_next` that every live event takes, without the call.
        positioned = self._queue.take() if self._missed is None else self._next()
        if positioned is None:
            return None
        self._epoch, self._number, self._offset, event = positioned
        return event

    def ready(self) -> Iterator[AgentEvent]:
        """Return the events that need not be awaited."""
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
            elif self._writer is None:
                await self._tail()
            elif self._queue.has_overflowed:
                await self._catch_up(self._writer)
            elif self._writer.feed.is_over or not self._follows:
                await self._end_attempt()
            else:
                await self._queue.wait()

    async def next_batch(self, most: int) -> Sequence[PositionedEvent]:
        """Wait for the next event; return it with those that follow without waiting. Empty at the end."""
        event = await anext(self, None)
        if event is None:
            return ()
        batch: list[PositionedEvent] = [(self._epoch, self._number, self._offset, event)]
        try:
            while len(batch) < most and (positioned := self._next()) is not None:
                batch.append(positioned)
        except Exception:  # noqa: BLE001, S110 - the next call raises it again, after this batch was delivered
            pass
        self._epoch, self._number, self._offset, _ = batch[-1]
        return batch

    async def aclose(self) -> None:
        """Unsubscribe."""
        self._is_over, self._missed, self._queue, self._writer = True, None, SubscriberQueue(), None

    def _next(self) -> PositionedEvent | None:
        if self._missed is None:
            return self._queue.take()
        try:
            return next(self._missed, None)
        except BaseException:
            # An event that cannot be decoded is not skipped: the next call raises the same error.
            self._missed, self._queue.has_overflowed = None, True
            raise

    def _attach(self, writer: DurableEventWriter | None) -> None:
        """Take the live events of an attempt; without one, those that are written to the log."""
        self._writer = writer
        if writer is not None:
            self._queue = SubscriberQueue()
            self._queue.has_overflowed = True
            writer.feed.subscribe(self._queue)

    async def _end_attempt(self) -> None:
        """Go on with the next attempt if one is about to begin, or else end."""
        if self._next_attempt is None:
            self._is_over = True
            return
        writer = await self._next_attempt()
        self._next_attempt = None
        if not self._is_over:
            self._attach(writer)

    async def _catch_up(self, writer: DurableEventWriter) -> None:
        """Read the events since the cursor, from the log and from the writer's open end."""
        # The queue fills again from here on; earlier events are in the log or in the open end.
        self._queue.restart()
        open_end, last = writer.open_end(), writer.last_number
        # The open end may be committed while the log is read: its events are taken from one side only.
        end_of_log = open_end[0].number - 1 if open_end else last
        try:
            log = [item for item in await self._log.read() if item.number <= end_of_log]
            await self._take([*log, *open_end])
        except BaseException:
            # After a cancelled or failed read the next call starts over and misses nothing.
            self._queue.has_overflowed = True
            raise

    async def _tail(self) -> None:
        """Poll the log of a run that another process drives until it pauses or ends."""
        if await self._take(await self._log.read()):
            return
        if self._log.is_over or not self._follows:
            await self._end_attempt()
        elif self._may_have_lost_its_end and await self._log.is_at_rest():
            # The end may have been committed after the log was read. Where it was not, its row is damaged.
            self._may_have_lost_its_end = False
            self._is_over = not await self._take(await self._log.read())
        else:
            self._may_have_lost_its_end = False
            self._attach(self._live() if self._live is not None else None)
            if self._writer is None:
                await self._clock.sleep(POLL_SECONDS)

    async def _take(self, items: Sequence[LoggedEvent]) -> bool:
        """Continue with the items after the cursor; return False if there are none."""
        by = await self._log.by()
        seen = last_valid(items, self._position)
        if not items or (items[-1].number, len(items[-1].text)) <= (seen.number, seen.offset):
            return False
        self._missed = events_after(items, seen, by)
        return True

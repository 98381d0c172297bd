"""Subscriptions over a log and a live feed: no event is missed, whatever happens while the log is read."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Sequence

import pytest

from pilotage.agent.events import (
    AgentEvent,
    AgentEventAttribution,
    MessageDeltaEvent,
    RunFinishedEvent,
    RunPausedEvent,
)
from pilotage.agent.ports.journal import CommitOutcome, IAgentJournal, JournalCommit, JournalHead
from pilotage.agent.ports.persistence import JournalRow, JournalStage, RunKey
from pilotage.agent.state import AgentStateReason
from pilotage.agent.tools.metadata import Idempotency
from pilotage.errors import DamagedEntryError, RunNotFoundError
from pilotage.jsonvalue import JsonObject
from pilotage.runtime.events.event_record import encode_event
from pilotage.runtime.events.feed import START, EventCursor
from pilotage.runtime.events.subscription import POLL_SECONDS, LogReader, Subscription
from pilotage.testing import VirtualClock

BY = AgentEventAttribution("clerk", "run-1", "talk-1")
RUN = RunKey("default", "run-1")
PAUSED = RunPausedEvent(BY, AgentStateReason.USER_INTERRUPTED, "paused", "run-1")


class Rows(IAgentJournal):
    """A journal that a test writes row by row, and that may be away."""

    def __init__(self) -> None:
        self.rows: list[JournalRow] = []
        self.reads: list[int] = []
        self.failure: Exception | None = None
        self.numbers = 0

    def tell(self, *events: JsonObject, epoch: int = 1) -> None:
        """Add a row of events."""
        record: JsonObject = {"first": self.numbers + 1, "events": [{"event": event} for event in events]}
        self.numbers += len(events)
        self._add(JournalStage.TOLD, epoch, record)

    def claim(self, epoch: int) -> None:
        """Add the claim of an attempt."""
        self._add(JournalStage.CLAIMED, epoch, None)

    def _add(self, stage: JournalStage, epoch: int, record: JsonObject | None) -> None:
        seq = len(self.rows) + 1
        row = JournalRow(
            seq, f"row#{seq}", None, stage, 1, epoch, "", Idempotency.IDEMPOTENT, record, record, "-"
        )
        self.rows.append(row)

    async def commit(self, commits: Sequence[JournalCommit]) -> Sequence[CommitOutcome]:
        raise NotImplementedError

    async def head(self, run: RunKey) -> JournalHead | None:
        raise NotImplementedError

    async def read(self, run: RunKey, after: int = 0) -> AsyncIterator[JournalRow]:
        self.reads.append(after)
        await asyncio.sleep(0)
        if self.failure is not None:
            raise self.failure
        for row in self.rows[after:]:
            yield row


def words(text: str) -> JsonObject:
    return encode_event(MessageDeltaEvent(BY, "m", text), BY)


async def find() -> RunKey:
    return RUN


async def describe(run: RunKey) -> AgentEventAttribution:
    if run != RUN:
        raise RunNotFoundError(f"there is no run {run.run_id!r}.")
    return BY


async def is_active(run: RunKey) -> bool:
    return False


def reader(rows: Rows, clock: VirtualClock | None = None, after: EventCursor = START) -> Subscription:
    return Subscription(LogReader(rows, find, describe, is_active), None, clock or VirtualClock(), after)


async def fallen_asleep(clock: VirtualClock) -> None:
    """Let the reader come to its next wait."""
    for _ in range(20):
        await asyncio.sleep(0)
    assert clock.sleepers


async def deltas_read(subscription: Subscription, count: int) -> list[str]:
    """Return the next deltas."""
    events = [await anext(subscription) for _ in range(count)]
    return [event.delta for event in events if isinstance(event, MessageDeltaEvent)]


async def test_a_follower_reads_each_row_once_and_polls() -> None:
    rows, clock = Rows(), VirtualClock()
    rows.claim(1)
    rows.tell(words("a"), words("b"))
    following = reader(rows, clock)
    assert await deltas_read(following, 2) == ["a", "b"]
    waiting = asyncio.ensure_future(anext(following))
    await fallen_asleep(clock)
    rows.tell(words("c"))
    clock.advance(POLL_SECONDS)
    assert await waiting == MessageDeltaEvent(BY, "m", "c")
    assert rows.reads == [0, 2, 2]
    assert following.cursor == "1.3.0"


async def test_a_follower_of_a_run_at_rest_whose_end_was_lost_ends_and_does_not_wait() -> None:
    rows = Rows()
    rows.tell(words("a"))

    async def is_at_rest(run: RunKey) -> bool:
        return True

    following = Subscription(LogReader(rows, find, describe, is_at_rest), None, VirtualClock())
    assert [piece(event) async for event in following] == ["a"]


async def test_an_end_that_is_committed_while_the_state_is_read_is_not_lost() -> None:
    rows = Rows()
    rows.tell(words("a"))

    async def has_just_ended(run: RunKey) -> bool:
        rows.tell(words("b"), encode_event(RunFinishedEvent(BY), BY))
        return True

    following = Subscription(LogReader(rows, find, describe, has_just_ended), None, VirtualClock())
    assert [type(event) for event in [event async for event in following]][-1] is RunFinishedEvent


@pytest.mark.parametrize("end", [PAUSED, RunFinishedEvent(BY)])
async def test_a_follower_ends_with_a_pause_or_an_end(end: RunPausedEvent | RunFinishedEvent) -> None:
    rows = Rows()
    rows.tell(words("a"), encode_event(end, BY))
    following = reader(rows)
    assert [event async for event in following] == [MessageDeltaEvent(BY, "m", "a"), end]
    with pytest.raises(StopAsyncIteration):
        await anext(following)


async def test_a_pause_is_no_end_once_the_run_was_claimed_again() -> None:
    rows, clock = Rows(), VirtualClock()
    rows.tell(encode_event(PAUSED, BY))
    rows.claim(2)
    following = reader(rows, clock, EventCursor(1, 1, 0))
    waiting = asyncio.ensure_future(anext(following, None))
    await fallen_asleep(clock)
    rows.tell(encode_event(PAUSED, BY), epoch=2)
    clock.advance(POLL_SECONDS)
    assert await waiting == PAUSED
    assert await anext(following, None) is None


async def test_a_reader_misses_nothing_while_the_store_fails() -> None:
    rows = Rows()
    rows.tell(words("a"), words("b"), encode_event(RunFinishedEvent(BY), BY))
    following = reader(rows)
    rows.failure = OSError("away")
    for _ in range(2):
        with pytest.raises(OSError, match="away"):
            await anext(following)
    rows.failure = None
    assert await deltas_read(following, 2) == ["a", "b"]


async def test_an_event_that_cannot_be_decoded_is_not_skipped() -> None:
    rows = Rows()
    rows.tell(words("a"), {"kind": "unheard of"}, words("c"))
    following = reader(rows)
    assert await deltas_read(following, 1) == ["a"]
    for _ in range(2):
        with pytest.raises(DamagedEntryError, match="'unheard of'"):
            await anext(following)


async def test_a_batch_holds_the_ready_events_with_their_positions() -> None:
    rows = Rows()
    rows.tell(words("a"), words("b"), words("c"))
    following = reader(rows)
    assert [(number, piece(event)) for _, number, _, event in await following.next_batch(2)] == [
        (1, "a"),
        (2, "b"),
    ]
    assert following.cursor == "1.2.0"
    rows.tell(encode_event(PAUSED, BY))
    assert [piece(event) for *_, event in await following.next_batch(9)] == ["c"]
    assert [event for *_, event in await following.next_batch(9)] == [PAUSED]
    assert await following.next_batch(9) == ()


async def test_a_batch_ends_before_an_event_that_cannot_be_decoded() -> None:
    rows = Rows()
    rows.tell(words("a"), words("b"), {"kind": "unheard of"}, words("c"))
    following = reader(rows)
    assert [piece(event) for *_, event in await following.next_batch(9)] == ["a", "b"]
    for _ in range(2):
        with pytest.raises(DamagedEntryError, match="'unheard of'"):
            await following.next_batch(9)


def piece(event: AgentEvent) -> str:
    assert isinstance(event, MessageDeltaEvent)
    return event.delta


async def test_a_reader_holds_unread_events_only() -> None:
    rows, clock = Rows(), VirtualClock()
    log = LogReader(rows, find, describe, is_active)
    following = Subscription(log, None, clock)
    for _ in range(50):
        rows.tell(words("a"), words("b"))
        await deltas_read(following, 2)
        waiting = asyncio.ensure_future(anext(following))
        await fallen_asleep(clock)
        waiting.cancel()
        clock.advance(POLL_SECONDS)
        await asyncio.wait([waiting])
        assert len(await log.read()) == 1


async def test_a_closed_subscription_gets_nothing_more() -> None:
    rows = Rows()
    rows.tell(words("a"), words("b"))
    following = reader(rows)
    await deltas_read(following, 1)
    await following.aclose()
    assert [event async for event in following] == []
    assert following.cursor == "1.1.0"

"""Events of a durable run: in the log with the next commit, with subscribers at once; an end only when it is durable."""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence

import pytest

from pilotage.agent.events import (
    SUPERSEDED,
    AgentEvent,
    AgentEventAttribution,
    MessageDeltaEvent,
    RunFinishedEvent,
    RunStartedEvent,
    StepStartedEvent,
)
from pilotage.agent.ports.persistence import RunKey
from pilotage.agent.spec import StreamingExposureMode
from pilotage.agent.state import AgentState, AgentStatus
from pilotage.runtime.events.event_log import LoggedEvent, PendingEvents
from pilotage.runtime.events.event_record import encode_event
from pilotage.runtime.events.feed import SubscriberQueue
from pilotage.runtime.events.writer import DurableEventWriter
from pilotage.runtime.exposure.modes import Exposure
from pilotage.runtime.exposure.redactor import Redactor
from pilotage.runtime.journal.chain import NO_HEAD
from pilotage.runtime.journal.commits import JournalWriter
from pilotage.runtime.journal.ledger import Ledger
from pilotage.testing import MemoryStore

BY = AgentEventAttribution("clerk", "run-1", "talk-1")
STEP = StepStartedEvent(BY, "look")
END = RunFinishedEvent(BY)


class Written:
    """A writer over a ledger, and the events that its subscriber gets."""

    def __init__(
        self,
        logged: Sequence[LoggedEvent] = (),
        mode: StreamingExposureMode = StreamingExposureMode.LOW_LATENCY,
        epoch: int = 1,
    ) -> None:
        state = AgentState("run-1", "clerk", AgentStatus.ACTIVE)
        log = PendingEvents(logged[-1].number if logged else 0)
        store = MemoryStore()
        self.ledger = Ledger(
            RunKey("default", "run-1"), state, NO_HEAD, JournalWriter(store.journal), "w", log=log
        )
        self.ledger.epoch = epoch
        self.forwarded: list[AgentEvent] = []
        self.writer = DurableEventWriter(
            BY,
            Exposure(mode, Redactor()),
            log=log,
            epoch=epoch,
            logged=deque(logged),
            forward=self.forwarded.append,
        )
        self.queue = SubscriberQueue()
        self.writer.feed.subscribe(self.queue)

    def received(self) -> list[tuple[int, int, int, AgentEvent]]:
        found: list[tuple[int, int, int, AgentEvent]] = []
        while (event := self.queue.take()) is not None:
            found.append(event)
        return found

    def open_end(self) -> list[tuple[int, AgentEvent]]:
        return [(item.number, item.event(BY)) for item in self.writer.open_end()]


def says(text: str, message_id: str = "m") -> MessageDeltaEvent:
    return MessageDeltaEvent(BY, message_id, text)


def test_deltas_are_published_one_by_one_and_logged_together() -> None:
    written = Written()
    for event in (STEP, says("a"), says("b"), says("x", "n")):
        written.writer.write(event)
    assert written.received() == [
        (1, 1, 0, STEP),
        (1, 2, 1, says("a")),
        (1, 2, 2, says("b")),
        (1, 3, 1, says("x", "n")),
    ]
    assert written.open_end() == [(1, STEP), (2, says("ab")), (3, says("x", "n"))]
    assert written.forwarded == [STEP, says("a"), says("b"), says("x", "n")]


def test_a_prepared_event_is_logged_and_published_only_when_it_is_released() -> None:
    written = Written()
    written.writer.write(STEP)
    written.writer.prepare(END)
    assert [event for *_, event in written.received()] == [STEP]
    assert written.open_end() == [(1, STEP)]
    assert (written.writer.last_number, written.ledger.log.last_number) == (1, 2)
    assert written.ledger.log.is_promised
    written.writer.release()
    assert written.received() == [(1, 2, 0, END)]
    assert written.open_end() == [(1, STEP), (2, END)]
    written.writer.release()
    assert written.received() == []


def test_a_later_attempt_names_the_cursor_it_continues_from() -> None:
    assert Written().writer.start_metadata() == {}
    before = [
        LoggedEvent(1, 4, {"event": {"kind": "message_delta", "message_id": "m", "delta": ""}, "text": "abc"})
    ]
    assert Written(before, epoch=3).writer.start_metadata() == {"epoch": 3, "resumed_after": "1.4.3"}


def test_replay_publishes_new_events_only() -> None:
    before = [LoggedEvent(1, 1, {"event": {"kind": "step_started", "step_name": "look"}})]
    written = Written(before, epoch=2)
    assert written.writer.is_replaying
    written.writer.write(STEP)
    assert written.received() == []
    written.writer.go_live()
    assert not written.writer.is_replaying
    written.writer.write(STEP)
    assert written.received() == [(2, 2, 0, STEP)]


@pytest.mark.parametrize("event", [RunStartedEvent(BY), STEP])
def test_an_event_of_the_runtime_is_new_each_time(event: AgentEvent) -> None:
    written = Written([LoggedEvent(1, 1, {"event": encode_event(event, BY)})], epoch=2)
    written.writer.write_now(event)
    assert written.received() == [(2, 2, 0, event)]


def test_a_held_text_that_is_logged_is_not_published_again_after_replay() -> None:
    before = [
        LoggedEvent(1, 1, {"event": {"kind": "message_delta", "message_id": "m", "delta": ""}, "text": "abc"})
    ]
    written = Written(before, StreamingExposureMode.STRICT, epoch=2)
    written.writer.write(says("abc"))
    written.writer.go_live()
    written.writer.write(says("d"))
    assert written.received() == []
    written.writer.flush()
    assert [event for *_, event in written.received()] == [says("d")]


@pytest.mark.parametrize("explicitly", [True, False])
def test_a_repeated_message_supersedes_its_earlier_text(explicitly: bool) -> None:
    event = {"kind": "message_delta", "message_id": "run-1:model#1@1", "delta": ""}
    written = Written([LoggedEvent(1, 1, {"event": event, "text": "half"})], epoch=2)
    written.writer.go_live()
    if explicitly:
        written.writer.supersede("run-1:model#1@2")
    written.writer.write(says("whole", "run-1:model#1@2"))
    mark = MessageDeltaEvent(BY, "run-1:model#1@1", "", {SUPERSEDED: True})
    assert [event for *_, event in written.received()] == [mark, says("whole", "run-1:model#1@2")]

"""What is told is in the log with the next commit and with its listeners at once; an end only when it is durable."""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence

import pytest

from pilotage.agent.events import (
    AgentEvent,
    AgentEventAttribution,
    MessageDeltaEvent,
    RunFinishedEvent,
    RunStartedEvent,
    StepStartedEvent,
)
from pilotage.agent.ports.journal import RunKey
from pilotage.agent.spec import StreamingExposureMode
from pilotage.agent.state import AgentState, AgentStatus
from pilotage.runtime.events.event_log import LoggedEvent, PendingEvents
from pilotage.runtime.events.event_record import encode_event
from pilotage.runtime.events.feed import SubscriberQueue
from pilotage.runtime.events.writer import DurableEventWriter
from pilotage.runtime.exposure.deltas import SUPERSEDED
from pilotage.runtime.exposure.modes import Exposure
from pilotage.runtime.exposure.redactor import Redactor
from pilotage.runtime.journal.chain import NO_HEAD
from pilotage.runtime.journal.commits import JournalWriter
from pilotage.runtime.journal.ledger import Ledger
from pilotage.testing import MemoryStore

BY = AgentEventAttribution("clerk", "run-1", "talk-1")
STEP = StepStartedEvent(BY, "look")
END = RunFinishedEvent(BY)


class Told:
    """A telling over a ledger, and what its listener hears."""

    def __init__(
        self,
        told: Sequence[LoggedEvent] = (),
        mode: StreamingExposureMode = StreamingExposureMode.LOW_LATENCY,
        epoch: int = 1,
    ) -> None:
        state = AgentState("run-1", "clerk", AgentStatus.ACTIVE)
        log = PendingEvents(told[-1].number if told else 0)
        store = MemoryStore()
        self.ledger = Ledger(
            RunKey("default", "run-1"), state, NO_HEAD, JournalWriter(store.journal), "w", log=log
        )
        self.ledger.epoch = epoch
        self.forwarded: list[AgentEvent] = []
        self.telling = DurableEventWriter(
            BY,
            Exposure(mode, Redactor()),
            log=log,
            epoch=epoch,
            logged=deque(told),
            forward=self.forwarded.append,
        )
        self.listener = SubscriberQueue()
        self.telling.feed.subscribe(self.listener)

    def heard(self) -> list[tuple[int, int, int, AgentEvent]]:
        found: list[tuple[int, int, int, AgentEvent]] = []
        while (told := self.listener.take()) is not None:
            found.append(told)
        return found

    def open_end(self) -> list[tuple[int, AgentEvent]]:
        return [(item.number, item.event(BY)) for item in self.telling.open_end()]


def says(text: str, message_id: str = "m") -> MessageDeltaEvent:
    return MessageDeltaEvent(BY, message_id, text)


def test_pieces_are_heard_one_by_one_and_kept_together() -> None:
    told = Told()
    for event in (STEP, says("a"), says("b"), says("x", "n")):
        told.telling.say(event)
    assert told.heard() == [
        (1, 1, 0, STEP),
        (1, 2, 1, says("a")),
        (1, 2, 2, says("b")),
        (1, 3, 1, says("x", "n")),
    ]
    assert told.open_end() == [(1, STEP), (2, says("ab")), (3, says("x", "n"))]
    assert told.forwarded == [STEP, says("a"), says("b"), says("x", "n")]


def test_what_is_prepared_is_in_the_log_and_told_to_nobody_before_it_is_released() -> None:
    told = Told()
    told.telling.say(STEP)
    told.telling.prepare(END)
    assert [event for *_, event in told.heard()] == [STEP]
    assert told.open_end() == [(1, STEP)]
    assert (told.telling.last_number, told.ledger.log.last_number) == (1, 2)
    assert told.ledger.log.is_promised
    told.telling.release()
    assert told.heard() == [(1, 2, 0, END)]
    assert told.open_end() == [(1, STEP), (2, END)]
    told.telling.release()
    assert told.heard() == []


def test_a_later_owner_says_what_it_goes_on_from() -> None:
    assert Told().telling.start_facts() == {}
    before = [
        LoggedEvent(1, 4, {"event": {"kind": "message_delta", "message_id": "m", "delta": ""}, "text": "abc"})
    ]
    assert Told(before, epoch=3).telling.start_facts() == {"epoch": 3, "resumed_after": "1.4.3"}


def test_in_replay_only_what_is_new_is_told() -> None:
    before = [LoggedEvent(1, 1, {"event": {"kind": "step_started", "step_name": "look"}})]
    told = Told(before, epoch=2)
    assert told.telling.is_repeating
    told.telling.say(STEP)
    assert told.heard() == []
    told.telling.go_live()
    assert not told.telling.is_repeating
    told.telling.say(STEP)
    assert told.heard() == [(2, 2, 0, STEP)]


@pytest.mark.parametrize("event", [RunStartedEvent(BY), STEP])
def test_an_event_of_the_runtime_is_new_each_time(event: AgentEvent) -> None:
    told = Told([LoggedEvent(1, 1, {"event": encode_event(event, BY)})], epoch=2)
    told.telling.report(event)
    assert told.heard() == [(2, 2, 0, event)]


def test_a_held_text_that_was_told_before_is_not_told_again_behind_the_repetition() -> None:
    before = [
        LoggedEvent(1, 1, {"event": {"kind": "message_delta", "message_id": "m", "delta": ""}, "text": "abc"})
    ]
    told = Told(before, StreamingExposureMode.STRICT, epoch=2)
    told.telling.say(says("abc"))
    told.telling.go_live()
    told.telling.say(says("d"))
    assert told.heard() == []
    told.telling.flush()
    assert [event for *_, event in told.heard()] == [says("d")]


@pytest.mark.parametrize("explicitly", [True, False])
def test_a_message_that_is_made_again_supersedes_what_was_told_of_it(explicitly: bool) -> None:
    event = {"kind": "message_delta", "message_id": "run-1:model#1@1", "delta": ""}
    told = Told([LoggedEvent(1, 1, {"event": event, "text": "half"})], epoch=2)
    told.telling.go_live()
    if explicitly:
        told.telling.supersede("run-1:model#1@2")
    told.telling.say(says("whole", "run-1:model#1@2"))
    mark = MessageDeltaEvent(BY, "run-1:model#1@1", "", {SUPERSEDED: True})
    assert [event for *_, event in told.heard()] == [mark, says("whole", "run-1:model#1@2")]

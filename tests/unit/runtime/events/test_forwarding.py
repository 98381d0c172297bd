"""What a parent tells of its children after a crash, given what the two logs have."""

from __future__ import annotations

import pytest

from pilotage.agent.events import (
    AgentEvent,
    AgentEventAttribution,
    MessageDeltaEvent,
    RunFinishedEvent,
    RunPausedEvent,
    RunStartedEvent,
    StepFinishedEvent,
)
from pilotage.agent.spec import StreamingExposureMode
from pilotage.agent.state import AgentStateReason
from pilotage.runtime.events.event_log import LoggedEvent, PendingEvents
from pilotage.runtime.events.event_record import encode_event
from pilotage.runtime.events.forwarding import Relay
from pilotage.runtime.events.writer import DurableEventWriter
from pilotage.runtime.exposure.deltas import delta_of, with_text
from pilotage.runtime.exposure.modes import Exposure
from pilotage.runtime.exposure.redactor import Redactor
from pilotage.safety import StreamingRedactionPolicy, StreamingSensitivePattern

PARENT = AgentEventAttribution("p", "parent", "parent")
CHILD = AgentEventAttribution("c", "child", "child", "parent")
GRANDCHILD = AgentEventAttribution("g", "grandchild", "grandchild", "child")
OTHER = AgentEventAttribution("c", "other", "other", "parent")

POLICY = StreamingRedactionPolicy([StreamingSensitivePattern("badge", r"BADGE-\d+", "[B]")])
STARTED, FINISHED = RunStartedEvent(CHILD), RunFinishedEvent(CHILD)
PAUSED = RunPausedEvent(CHILD, AgentStateReason.APPROVAL_REQUIRED, "may I?", "child", "q")


def step(name: str, by: AgentEventAttribution = CHILD) -> StepFinishedEvent:
    return StepFinishedEvent(by, name)


def says(text: str, epoch: int = 1) -> MessageDeltaEvent:
    return MessageDeltaEvent(CHILD, f"child:model#1@{epoch}", text)


def log(*events: AgentEvent) -> list[LoggedEvent]:
    """The log of the parent."""
    items: list[LoggedEvent] = []
    for number, event in enumerate(events, start=1):
        piece = delta_of(event)
        if piece is None or event.metadata:
            items.append(LoggedEvent(1, number, {"event": encode_event(event, PARENT)}))
        else:
            record = {"event": encode_event(with_text(event, ""), PARENT), "text": piece[1]}
            items.append(LoggedEvent(1, number, record))
    return items


def relayed(
    parents: list[LoggedEvent],
    policy: StreamingRedactionPolicy | None = None,
    mode: StreamingExposureMode = StreamingExposureMode.LOW_LATENCY,
) -> tuple[Relay, DurableEventWriter, list[AgentEvent]]:
    """The relay of a parent that comes back with this log, and what is heard of it."""
    heard: list[AgentEvent] = []
    exposure = Exposure(mode, Redactor(policy))
    telling = DurableEventWriter(PARENT, exposure, log=PendingEvents(), epoch=2, forward=heard.append)
    return Relay(telling, parents, "child"), telling, heard


def caught_up(parents: list[LoggedEvent], *childs: AgentEvent) -> list[AgentEvent]:
    relay, _, heard = relayed(parents)
    for event in childs:
        relay.catch_up(event)
    return heard


def test_a_parent_that_told_nothing_tells_everything() -> None:
    assert caught_up([], STARTED, step("a"), FINISHED) == [STARTED, step("a"), FINISHED]


def test_what_the_parent_has_told_is_not_told_again() -> None:
    told = log(RunStartedEvent(PARENT), STARTED, step("a"), step("a", OTHER))
    assert caught_up(told, STARTED, step("a"), step("a"), FINISHED) == [step("a"), FINISHED]


def test_the_rest_of_a_text_is_told() -> None:
    assert caught_up(log(STARTED, says("one ")), STARTED, says("one two")) == [says("two")]


def test_equal_pauses_are_told_as_often_as_they_were() -> None:
    again = RunStartedEvent(CHILD, {"epoch": 2})
    told = log(STARTED, PAUSED)
    assert caught_up(told, STARTED, PAUSED, again, PAUSED) == [again, PAUSED]


def test_runs_further_below_belong_to_the_child_they_came_through() -> None:
    told = log(STARTED, RunStartedEvent(GRANDCHILD), step("g", GRANDCHILD))
    rest = step("h", GRANDCHILD)
    assert caught_up(told, STARTED, RunStartedEvent(GRANDCHILD), step("g", GRANDCHILD), rest) == [rest]


def test_what_a_child_could_not_write_down_is_not_told_again_when_it_says_it_again() -> None:
    relay, _, heard = relayed(log(STARTED, step("a")))
    again = RunStartedEvent(CHILD, {"epoch": 2})
    for event in (again, step("a"), step("b")):
        relay.tell(event)
    assert heard == [again, step("b")]


def test_a_model_call_that_is_made_again_supersedes_what_the_parent_told_of_it() -> None:
    relay, _, heard = relayed(log(STARTED, says("one ")))
    relay.tell(says("three", epoch=2))
    mark, new = heard
    assert isinstance(mark, MessageDeltaEvent)
    assert (mark.message_id, mark.metadata) == ("child:model#1@1", {"superseded": True})
    assert new == says("three", epoch=2)


def test_a_text_is_superseded_once_though_child_and_parent_both_know_of_it() -> None:
    relay, _, heard = relayed(log(STARTED, says("one two")))
    relay.catch_up(says("one "))
    mark = MessageDeltaEvent(CHILD, "child:model#1@1", "", {"superseded": True})
    relay.tell(mark)
    relay.tell(says("three", epoch=2))
    assert heard == [mark, says("three", epoch=2)]


def test_a_mark_that_stands_in_the_log_is_not_told_again() -> None:
    mark = MessageDeltaEvent(CHILD, "child:model#1@1", "", {"superseded": True})
    told = log(STARTED, says("one"), mark, says("two", epoch=2))
    assert caught_up(told, STARTED, says("one"), mark, says("two!", epoch=2)) == [says("!", epoch=2)]


WORDS = "my badge is BADGE-123456 and the gate was open"
SHOWN = "my badge is [B] and the gate was open"


@pytest.mark.parametrize("mode", [StreamingExposureMode.LOW_LATENCY, StreamingExposureMode.BALANCED])
@pytest.mark.parametrize("told", range(1, len(SHOWN)))
def test_a_policy_that_only_the_parent_has_changes_nothing_wherever_its_log_ends(
    told: int, mode: StreamingExposureMode
) -> None:
    relay, telling, heard = relayed(log(STARTED, says(SHOWN[:told])), POLICY, mode)
    for event in (STARTED, says(WORDS)):
        relay.catch_up(event)
    telling.flush()
    rest = "".join(event.delta for event in heard if isinstance(event, MessageDeltaEvent))
    assert SHOWN[:told] + rest == SHOWN


def test_what_is_said_besides_is_known_in_the_words_of_the_parent() -> None:
    relay, _, heard = relayed(log(STARTED, step("saw [B]")), POLICY)
    for event in (STARTED, step("saw BADGE-77"), FINISHED):
        relay.catch_up(event)
    assert heard == [FINISHED]


@pytest.mark.parametrize("mode", [StreamingExposureMode.LOW_LATENCY, StreamingExposureMode.BALANCED])
def test_a_text_that_is_superseded_is_marked_behind_its_last_word_though_the_parent_holds_words_back(
    mode: StreamingExposureMode,
) -> None:
    relay, _, heard = relayed(log(STARTED), POLICY, mode)
    mark = MessageDeltaEvent(CHILD, "child:model#1@1", "", {"superseded": True})
    for event in (STARTED, says("one BADGE-1"), mark):
        relay.catch_up(event)
    assert heard[-1] == mark
    texts = [event.delta for event in heard[:-1] if isinstance(event, MessageDeltaEvent)]
    assert "".join(texts) == "one [B]"

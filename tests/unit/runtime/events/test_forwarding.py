"""Events of child runs that a parent forwards after a crash, given the two logs."""

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
    ToolCallArgsDeltaEvent,
    ToolCallEndEvent,
    ToolCallStartEvent,
    delta_of,
    with_text,
)
from pilotage.agent.spec import StreamingExposureMode
from pilotage.agent.state import AgentStateReason
from pilotage.runtime.events.event_log import LoggedEvent, PendingEvents
from pilotage.runtime.events.event_record import encode_event
from pilotage.runtime.events.forwarding import Relay
from pilotage.runtime.events.writer import DurableEventWriter
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


def call(epoch: int) -> ToolCallStartEvent:
    """The start of a tool call; a model that is called again may give it the same id."""
    return ToolCallStartEvent(CHILD, "c1", "pay", f"child:model#1@{epoch}")


def arguments(text: str) -> ToolCallArgsDeltaEvent:
    return ToolCallArgsDeltaEvent(CHILD, "c1", text)


CALLED = ToolCallEndEvent(CHILD, "c1")
CALL_SUPERSEDED = ToolCallEndEvent(CHILD, "c1", {"superseded": True})
OLD, NEW = '{"amount": 1', '{"amount": 25}'


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
    """Return the relay of a resumed parent with this log, its writer, and the events that it emits."""
    forwarded: list[AgentEvent] = []
    exposure = Exposure(mode, Redactor(policy))
    writer = DurableEventWriter(PARENT, exposure, log=PendingEvents(), epoch=2, forward=forwarded.append)
    return Relay(writer, parents, "child"), writer, forwarded


def caught_up(parents: list[LoggedEvent], *childs: AgentEvent) -> list[AgentEvent]:
    relay, _, forwarded = relayed(parents)
    for event in childs:
        relay.catch_up(event)
    return forwarded


def test_a_parent_with_an_empty_log_forwards_everything() -> None:
    assert caught_up([], STARTED, step("a"), FINISHED) == [STARTED, step("a"), FINISHED]


def test_logged_events_are_not_forwarded_again() -> None:
    logged = log(RunStartedEvent(PARENT), STARTED, step("a"), step("a", OTHER))
    assert caught_up(logged, STARTED, step("a"), step("a"), FINISHED) == [step("a"), FINISHED]


def test_the_rest_of_a_text_is_forwarded() -> None:
    assert caught_up(log(STARTED, says("one ")), STARTED, says("one two")) == [says("two")]


def test_equal_pauses_are_forwarded_as_often_as_they_occurred() -> None:
    again = RunStartedEvent(CHILD, {"epoch": 2})
    logged = log(STARTED, PAUSED)
    assert caught_up(logged, STARTED, PAUSED, again, PAUSED) == [again, PAUSED]


def test_runs_further_below_belong_to_the_child_they_came_through() -> None:
    logged = log(STARTED, RunStartedEvent(GRANDCHILD), step("g", GRANDCHILD))
    rest = step("h", GRANDCHILD)
    assert caught_up(logged, STARTED, RunStartedEvent(GRANDCHILD), step("g", GRANDCHILD), rest) == [rest]


def test_an_event_that_the_child_did_not_commit_is_not_forwarded_again_when_it_is_repeated() -> None:
    relay, _, forwarded = relayed(log(STARTED, step("a")))
    again = RunStartedEvent(CHILD, {"epoch": 2})
    for event in (again, step("a"), step("b")):
        relay.forward(event)
    assert forwarded == [again, step("b")]


def test_a_repeated_model_call_supersedes_its_events_in_the_parents_log() -> None:
    relay, _, forwarded = relayed(log(STARTED, says("one ")))
    relay.forward(says("three", epoch=2))
    mark, new = forwarded
    assert isinstance(mark, MessageDeltaEvent)
    assert (mark.message_id, mark.metadata) == ("child:model#1@1", {"superseded": True})
    assert new == says("three", epoch=2)


def test_a_text_is_superseded_once_though_both_logs_have_it() -> None:
    relay, _, forwarded = relayed(log(STARTED, says("one two")))
    relay.catch_up(says("one "))
    mark = MessageDeltaEvent(CHILD, "child:model#1@1", "", {"superseded": True})
    relay.forward(mark)
    relay.forward(says("three", epoch=2))
    assert forwarded == [mark, says("three", epoch=2)]


def test_a_logged_mark_is_not_forwarded_again() -> None:
    mark = MessageDeltaEvent(CHILD, "child:model#1@1", "", {"superseded": True})
    logged = log(STARTED, says("one"), mark, says("two", epoch=2))
    assert caught_up(logged, STARTED, says("one"), mark, says("two!", epoch=2)) == [says("!", epoch=2)]


def test_a_repeated_call_with_the_same_id_has_all_its_arguments() -> None:
    relay, _, forwarded = relayed(log(STARTED, call(1), arguments(OLD)))
    for event in (STARTED, call(1), arguments(OLD)):
        relay.catch_up(event)
    for event in (CALL_SUPERSEDED, call(2), arguments(NEW), CALLED):
        relay.forward(event)
    assert forwarded == [CALL_SUPERSEDED, call(2), arguments(NEW), CALLED]


@pytest.mark.parametrize("ended", [(), (CALLED,)], ids=["cut in its arguments", "with its end"])
def test_a_repeated_call_that_only_the_parent_had_logged_is_forwarded_whole(
    ended: tuple[AgentEvent, ...],
) -> None:
    relay, _, forwarded = relayed(log(STARTED, call(1), arguments(OLD), *ended))
    relay.catch_up(STARTED)
    for event in (call(2), arguments(NEW), CALLED):
        relay.forward(event)
    assert forwarded == [CALL_SUPERSEDED, call(2), arguments(NEW), CALLED]


REPEATED = (STARTED, call(1), arguments(OLD), CALLED, CALL_SUPERSEDED, call(2), arguments(NEW), CALLED)


@pytest.mark.parametrize("logged", range(1, len(REPEATED) + 1))
def test_the_rest_of_a_repeated_call_is_forwarded_wherever_the_parents_log_ends(logged: int) -> None:
    assert caught_up(log(*REPEATED[:logged]), *REPEATED) == list(REPEATED[logged:])


@pytest.mark.parametrize("logged", range(5, len(REPEATED) + 1))
def test_a_child_that_has_lost_its_first_call_has_the_rest_of_the_second_forwarded(logged: int) -> None:
    childs = (STARTED, call(2), arguments(NEW), CALLED)
    assert caught_up(log(*REPEATED[:logged]), *childs) == list(REPEATED[logged:])


def test_the_rest_of_the_arguments_of_a_repeated_call_is_forwarded() -> None:
    logged = log(STARTED, call(1), arguments(OLD), CALL_SUPERSEDED, call(2), arguments(NEW[:5]))
    assert caught_up(logged, *REPEATED) == [arguments(NEW[5:]), CALLED]


def test_a_call_that_is_repeated_twice_with_the_same_id_is_superseded_twice() -> None:
    logged = log(STARTED, call(1), arguments(OLD), CALL_SUPERSEDED, call(2), arguments(OLD))
    relay, _, forwarded = relayed(logged)
    for event in (STARTED, call(1), arguments(OLD)):
        relay.catch_up(event)
    for event in (CALL_SUPERSEDED, call(3), arguments(NEW), CALLED):
        relay.forward(event)
    assert forwarded == [CALL_SUPERSEDED, call(3), arguments(NEW), CALLED]


def test_a_parent_with_an_empty_log_forwards_each_mark_on_a_call() -> None:
    childs = (STARTED, call(1), CALL_SUPERSEDED, call(2), CALL_SUPERSEDED, call(3), arguments(NEW), CALLED)
    assert caught_up(log(STARTED), *childs) == list(childs[1:])


WORDS = "my badge is BADGE-123456 and the gate was open"
SHOWN = "my badge is [B] and the gate was open"


@pytest.mark.parametrize("mode", [StreamingExposureMode.LOW_LATENCY, StreamingExposureMode.BALANCED])
@pytest.mark.parametrize("logged", range(1, len(SHOWN)))
def test_a_policy_that_only_the_parent_has_changes_nothing_wherever_its_log_ends(
    logged: int, mode: StreamingExposureMode
) -> None:
    relay, writer, forwarded = relayed(log(STARTED, says(SHOWN[:logged])), POLICY, mode)
    for event in (STARTED, says(WORDS)):
        relay.catch_up(event)
    writer.flush()
    rest = "".join(event.delta for event in forwarded if isinstance(event, MessageDeltaEvent))
    assert SHOWN[:logged] + rest == SHOWN


def test_metadata_is_compared_after_the_redaction_of_the_parent() -> None:
    relay, _, forwarded = relayed(log(STARTED, step("saw [B]")), POLICY)
    for event in (STARTED, step("saw BADGE-77"), FINISHED):
        relay.catch_up(event)
    assert forwarded == [FINISHED]


@pytest.mark.parametrize("mode", [StreamingExposureMode.LOW_LATENCY, StreamingExposureMode.BALANCED])
def test_a_superseded_text_is_marked_after_its_last_word_though_the_parent_holds_words_back(
    mode: StreamingExposureMode,
) -> None:
    relay, _, forwarded = relayed(log(STARTED), POLICY, mode)
    mark = MessageDeltaEvent(CHILD, "child:model#1@1", "", {"superseded": True})
    for event in (STARTED, says("one BADGE-1"), mark):
        relay.catch_up(event)
    assert forwarded[-1] == mark
    texts = [event.delta for event in forwarded[:-1] if isinstance(event, MessageDeltaEvent)]
    assert "".join(texts) == "one [B]"

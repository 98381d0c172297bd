"""Which events are deltas, and of which text."""

from __future__ import annotations

import pytest

from pilotage.agent.events import (
    AgentEvent,
    AgentEventAttribution,
    ArtifactEvent,
    MessageDeltaEvent,
    ReasoningDeltaEvent,
    RunStartedEvent,
    StepStartedEvent,
    TextId,
    ToolCallArgsDeltaEvent,
    ToolCallEndEvent,
    ToolCallResultEvent,
    ToolCallStartEvent,
    delta_of,
    text_of,
    with_text,
)

BY = AgentEventAttribution("clerk", "run-1", "talk-1")
OTHER = AgentEventAttribution("kid", "run-2", "talk-1", "run-1")


@pytest.mark.parametrize(
    ("event", "text"),
    [
        (MessageDeltaEvent(BY, "m", "abc"), ("message", "run-1", "m")),
        (MessageDeltaEvent(OTHER, "m", "abc"), ("message", "run-2", "m")),
        (ReasoningDeltaEvent(BY, "r", "abc", {"k": 1}), ("reasoning", "run-1", "r")),
        (ToolCallArgsDeltaEvent(BY, "c", "abc"), ("arguments", "run-1", "c")),
    ],
)
def test_a_delta_is_a_delta_of_its_text(event: AgentEvent, text: TextId) -> None:
    assert delta_of(event) == (text, "abc")
    changed = with_text(event, "d")
    assert delta_of(changed) == (text, "d")
    assert with_text(changed, "abc") == event


@pytest.mark.parametrize(
    "event",
    [
        RunStartedEvent(BY),
        ToolCallStartEvent(BY, "c", "look"),
        ToolCallEndEvent(BY, "c"),
        ArtifactEvent(BY, "a", "abc"),
    ],
)
def test_other_events_are_no_deltas_and_stay_as_they_are(event: AgentEvent) -> None:
    assert delta_of(event) is None
    assert with_text(event, "d") is event


@pytest.mark.parametrize(
    "event",
    [
        ToolCallStartEvent(BY, "c", "look"),
        ToolCallArgsDeltaEvent(BY, "c", "{}"),
        ToolCallEndEvent(BY, "c"),
        ToolCallResultEvent(BY, "c", "look", "m"),
    ],
)
def test_every_event_of_a_tool_call_belongs_to_its_arguments(event: AgentEvent) -> None:
    assert text_of(event) == ("arguments", BY.run_id, "c")


def test_a_message_belongs_to_its_text_and_a_step_to_none() -> None:
    assert text_of(MessageDeltaEvent(BY, "m", "")) == ("message", BY.run_id, "m")
    assert text_of(StepStartedEvent(BY, "look")) is None

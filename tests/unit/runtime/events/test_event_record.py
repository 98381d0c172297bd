"""Events survive encoding as JSON text, and records hold only the fields that are set."""

from __future__ import annotations

import json
from typing import cast, get_args

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pilotage.agent.events import (
    AgentEvent,
    AgentEventAttribution,
    AgentEventKind,
    ArtifactEvent,
    MessageDeltaEvent,
    ReasoningDeltaEvent,
    RunFinishedEvent,
    RunPausedEvent,
    RunStartedEvent,
    StateDeltaEvent,
    StateSnapshotEvent,
    StepFinishedEvent,
    StepStartedEvent,
    ToolCallArgsDeltaEvent,
    ToolCallEndEvent,
    ToolCallResultEvent,
    ToolCallStartEvent,
    with_text,
)
from pilotage.agent.state import AgentStateReason
from pilotage.errors import DamagedEntryError
from pilotage.jsonvalue import JsonObject, JsonValue, canonical_json
from pilotage.runtime.events.event_record import decode_event, encode_event, is_record_of

BY = AgentEventAttribution("clerk", "run-1", "talk-1")
CHILD = AgentEventAttribution("scout", "run-2", "talk-1", "run-1")

texts = st.text(max_size=8)
names = st.text("abc", min_size=1, max_size=3)
json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | texts,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(texts, inner, max_size=3),
    max_leaves=6,
)
objects = st.dictionaries(texts, json_values, max_size=3)
whose = st.sampled_from([BY, CHILD, AgentEventAttribution("clerk", "run-1", "talk-1")])

EVENTS: dict[type, st.SearchStrategy[AgentEvent]] = {
    MessageDeltaEvent: st.builds(MessageDeltaEvent, whose, texts, texts, objects),
    ReasoningDeltaEvent: st.builds(ReasoningDeltaEvent, whose, texts, texts, objects),
    ToolCallStartEvent: st.builds(ToolCallStartEvent, whose, texts, texts, st.none() | texts, objects),
    ToolCallArgsDeltaEvent: st.builds(ToolCallArgsDeltaEvent, whose, texts, texts, objects),
    ToolCallEndEvent: st.builds(ToolCallEndEvent, whose, texts, objects),
    ToolCallResultEvent: st.builds(ToolCallResultEvent, whose, texts, texts, texts, json_values, objects),
    RunStartedEvent: st.builds(RunStartedEvent, whose, objects),
    RunPausedEvent: st.builds(
        RunPausedEvent,
        whose,
        st.sampled_from(AgentStateReason),
        names,
        names,
        st.none() | names,
        st.none() | names,
        st.lists(texts, max_size=3).map(tuple),
        objects,
    ),
    RunFinishedEvent: st.builds(RunFinishedEvent, whose, st.none() | objects, objects),
    StepStartedEvent: st.builds(StepStartedEvent, whose, texts, objects),
    StepFinishedEvent: st.builds(StepFinishedEvent, whose, texts, objects),
    StateSnapshotEvent: st.builds(StateSnapshotEvent, whose, json_values, objects),
    StateDeltaEvent: st.builds(StateDeltaEvent, whose, json_values, objects),
    ArtifactEvent: st.builds(ArtifactEvent, whose, texts, json_values, st.none() | texts, objects),
}


def through_text(event: AgentEvent) -> AgentEvent:
    return decode_event(cast(JsonObject, json.loads(canonical_json(encode_event(event, BY)))), BY)


def test_every_kind_of_event_is_tried() -> None:
    assert set(EVENTS) == set(get_args(AgentEvent))


@given(event=st.one_of(*EVENTS.values()))
def test_an_event_comes_back_from_its_json_text_as_it_was(event: AgentEvent) -> None:
    back = through_text(event)
    assert back == event
    assert type(back) is type(event)
    assert back.kind is event.kind


@given(st.one_of(*EVENTS.values()), st.one_of(*EVENTS.values()))
def test_an_event_matches_its_own_record_and_no_other(one: AgentEvent, other: AgentEvent) -> None:
    kept = cast(JsonObject, json.loads(canonical_json(encode_event(one, BY))))
    # Whoever follows a log passes over pauses.
    assert isinstance(one, RunPausedEvent) or is_record_of(kept, one, BY)
    assert not is_record_of(kept, other, BY) or encode_event(other, BY) == kept


@pytest.mark.parametrize(
    ("text", "event"),
    [
        ("Hi", MessageDeltaEvent(BY, "m", "Hi")),
        ("Hi", ReasoningDeltaEvent(BY, "m", "Hi")),
        ("{}", ToolCallArgsDeltaEvent(BY, "m", "{}")),
    ],
)
def test_a_delta_matches_its_record_with_the_text_beside_it(text: str, event: AgentEvent) -> None:
    kept = encode_event(with_text(event, ""), BY)
    assert is_record_of({"event": kept, "text": text}, event, BY)
    assert not is_record_of(kept, event, BY)
    assert not is_record_of({"event": kept}, event, BY)
    assert not is_record_of({"event": kept, "text": "He"}, event, BY)
    assert not is_record_of({"event": kept, "text": "Hi"}, with_text(event, "He"), BY)
    of_another = {**kept, "by": ["kid", "run-2", "talk", None]}
    assert not is_record_of({"event": of_another, "text": text}, event, BY)


def test_a_record_leaves_out_empty_fields() -> None:
    assert encode_event(MessageDeltaEvent(BY, "m", "Hi"), BY) == {
        "kind": "message_delta",
        "message_id": "m",
        "delta": "Hi",
    }
    assert encode_event(ToolCallStartEvent(BY, "c", "pay"), BY) == {
        "kind": "tool_call_start",
        "call_id": "c",
        "tool_name": "pay",
    }


def test_an_event_of_another_run_is_recorded_with_its_attribution() -> None:
    record = encode_event(StepStartedEvent(CHILD, "look"), BY)
    assert record["by"] == ["scout", "run-2", "talk-1", "run-1"]
    assert decode_event(record, BY).attribution == CHILD


def test_results_that_are_empty_are_no_missing_results() -> None:
    empty: list[JsonValue] = [0, False, "", [], {}]
    for result in empty:
        event = ToolCallResultEvent(BY, "c", "pay", "m", result)
        assert through_text(event) == event
        assert "result" in encode_event(event, BY)


@pytest.mark.parametrize("record", [{"kind": "no_such_kind"}, {}, {"kind": None}, {"kind": "AgentState"}])
def test_an_unknown_kind_is_named(record: JsonObject) -> None:
    with pytest.raises(DamagedEntryError, match=f"of kind {record.get('kind')!r} is recorded") as caught:
        decode_event(record, BY)
    assert all(kind.value in str(caught.value) for kind in AgentEventKind)


def test_a_record_that_lacks_a_field_is_refused() -> None:
    with pytest.raises(DamagedEntryError, match="'tool_call_start' event lacks 'tool_name'"):
        decode_event({"kind": "tool_call_start", "call_id": "c"}, BY)


@pytest.mark.parametrize("by", [None, "scout", ["scout", "run-2"], ["scout", "run-2", "talk-1", 7]])
def test_a_damaged_attribution_is_refused(by: JsonValue) -> None:
    with pytest.raises(DamagedEntryError, match="attribution .* cannot be decoded"):
        decode_event({"kind": "step_started", "step_name": "look", "by": by}, BY)

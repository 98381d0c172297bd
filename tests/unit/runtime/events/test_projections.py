"""Projections: the events of an item, and the items of events."""

from __future__ import annotations

from datetime import UTC, datetime
from decimal import Decimal
from typing import cast

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pilotage import (
    AgentYield,
    Approval,
    ApprovalDecision,
    Cancel,
    Error,
    Evidence,
    Final,
    Progress,
    State,
    StatePatch,
    Token,
    Tool,
)
from pilotage.agent.events import (
    AgentEvent,
    AgentEventAttribution,
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
)
from pilotage.agent.evidence import AgentEvidence, AgentEvidenceKind
from pilotage.agent.state import AgentStateReason
from pilotage.agent.yields import AgentYieldKind
from pilotage.errors import AgentDefinitionError
from pilotage.jsonvalue import JsonObject, to_json_value
from pilotage.runtime.events.projections import ITEM_FIELDS, YieldProjector, events_of
from pilotage.safety.fields import PII, SecretField, SensitiveField, SensitiveFieldDescriptor

BY = AgentEventAttribution("clerk", "run-1", "talk-1")
CHILD = AgentEventAttribution("scout", "run-2", "talk-1", "run-1")
MESSAGE = "run-1:message"
RECORD = AgentEvidence(
    "e-1",
    "run-1",
    AgentEvidenceKind.TOOL,
    {"result": {"email": "[REDACTED]"}},
    summary="looked",
    sensitive_fields=(
        SensitiveFieldDescriptor(("result", "email"), SensitiveField(PII.EMAIL, label="mail")),
        SensitiveFieldDescriptor(("key",), SecretField(), (0,)),
    ),
    created_at=datetime(2026, 11, 1, 12, tzinfo=UTC),
)

REMOVE = {"op": "remove", "path": "/a"}
ITEMS: list[tuple[AgentYield[object], list[AgentEvent]]] = [
    (Token("Hel", {"n": 1}), [MessageDeltaEvent(BY, MESSAGE, "Hel", {"n": 1})]),
    (State({"a": [1]}, {"n": 1}), [StateSnapshotEvent(BY, {"a": [1]}, {"n": 1})]),
    (StatePatch([REMOVE]), [StateDeltaEvent(BY, [REMOVE])]),
    (AgentYield(AgentYieldKind.TOKEN, Token("lo")), [MessageDeltaEvent(BY, MESSAGE, "lo")]),
    (
        Progress("looking", "look", {"n": 2}),
        [
            StepStartedEvent(BY, "looking", {"n": 2, ITEM_FIELDS: {"current_step": "look"}}),
            StepFinishedEvent(BY, "looking"),
        ],
    ),
    (
        Tool("pay", "c-1", {"to": "DE", "amount": 5}, {"receipt": 1}, {"n": 3}),
        [
            ToolCallStartEvent(BY, "c-1", "pay", MESSAGE),
            ToolCallArgsDeltaEvent(BY, "c-1", '{"amount":5,"to":"DE"}'),
            ToolCallEndEvent(BY, "c-1"),
            ToolCallResultEvent(BY, "c-1", "pay", MESSAGE, {"receipt": 1}, {"n": 3}),
        ],
    ),
    (
        Tool("pay"),
        [
            ToolCallStartEvent(BY, "run-1:pay#7", "pay", MESSAGE, {ITEM_FIELDS: {"call_id": None}}),
            ToolCallArgsDeltaEvent(BY, "run-1:pay#7", "{}"),
            ToolCallEndEvent(BY, "run-1:pay#7"),
            ToolCallResultEvent(BY, "run-1:pay#7", "pay", MESSAGE, None),
        ],
    ),
    (
        Evidence({"a": 1}, {"n": 4}),
        [
            ArtifactEvent(
                BY, "run-1:evidence#7", {"a": 1}, "evidence", {"n": 4, ITEM_FIELDS: {"is_record": False}}
            )
        ],
    ),
    (Final("done"), []),
    (Approval("q-1", "Pay?", (ApprovalDecision.APPROVE,)), []),
    (Error("E1", "broken"), []),
    (Cancel("enough"), []),
]


@pytest.mark.parametrize(
    ("item", "events"), ITEMS, ids=[f"{n} {item.kind}" for n, (item, _) in enumerate(ITEMS)]
)
def test_each_item_is_projected_to_its_events(item: AgentYield[object], events: list[AgentEvent]) -> None:
    assert list(events_of(item, BY, ordinal=7)) == events


def test_the_message_may_be_another_one() -> None:
    assert list(events_of(Token("Hi"), BY, "m-2")) == [MessageDeltaEvent(BY, "m-2", "Hi")]


@pytest.mark.parametrize("tool", [Tool("pay", result=object()), Tool("pay", arguments={"x": float("nan")})])  # type: ignore[arg-type]
def test_a_tool_item_without_a_json_form_is_named(tool: Tool) -> None:
    with pytest.raises(AgentDefinitionError, match="Tool 'pay' cannot be streamed"):
        list(events_of(tool, BY))


def test_a_tool_item_may_hold_rich_values() -> None:
    tool = Tool("pay", "c-1", cast(JsonObject, {"amount": Decimal("2.50")}))
    assert ToolCallArgsDeltaEvent(BY, "c-1", '{"amount":"2.50"}') in events_of(tool, BY)


texts = st.text(max_size=6)
json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | texts,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(texts, inner, max_size=3),
    max_leaves=6,
)
objects = st.dictionaries(texts, json_values, max_size=3)
names = st.text("abc", min_size=1, max_size=3)
told_items = st.one_of(
    st.builds(Token, texts, objects),
    st.builds(Progress, texts, st.none() | texts, objects),
    st.builds(Tool, texts, st.none() | names, objects, json_values, objects),
    st.builds(Evidence, json_values | st.just(RECORD), objects),
)


def items_from(events: list[AgentEvent]) -> list[AgentYield[object]]:
    projector = YieldProjector("run-1")
    return [item for event in events if (item := projector.yield_of(event)) is not None]


@given(items=st.lists(told_items, max_size=5))
def test_the_same_items_come_back(items: list[AgentYield[object]]) -> None:
    events = [event for n, item in enumerate(items) for event in events_of(item, BY, "m", ordinal=n)]
    assert items_from(events) == items


def end_of(item: Final[object] | Error | Cancel) -> RunFinishedEvent:
    """The end of a run that says this."""
    match item:
        case Final(output, metadata):
            return RunFinishedEvent(BY, None, {**metadata, "output": to_json_value(output)})
        case Error(code, message, retryable, metadata):
            return RunFinishedEvent(BY, _error(code, message, metadata, retryable=retryable))
        case Cancel(reason, requested_by, metadata):
            who: JsonObject = {"reason": reason, "requested_by": requested_by}
            return RunFinishedEvent(
                BY, _error("cancelled", reason or "cancelled", who, retryable=False), metadata
            )


def _error(code: str, message: str, metadata: JsonObject, *, retryable: bool) -> JsonObject:
    return {"code": code, "message": message, "retryable": retryable, "metadata": metadata}


@given(
    end=st.one_of(
        st.builds(Final, json_values, objects),
        st.builds(Error, st.just("timeout") | names, texts, st.booleans(), objects),
        st.builds(Cancel, st.none() | texts, st.none() | texts, objects),
    )
)
def test_the_same_end_comes_back(end: Final[object] | Error | Cancel) -> None:
    assert items_from([end_of(end)]) == [end]


def test_recorded_evidence_comes_back_with_its_sensitive_fields() -> None:
    (item,) = items_from(list(events_of(Evidence(RECORD), BY)))
    assert item == Evidence(RECORD)
    assert isinstance(item, Evidence)
    assert isinstance(item.evidence, AgentEvidence)


def test_recorded_evidence_that_redaction_made_undecodable_is_projected_as_json() -> None:
    (event,) = events_of(Evidence(RECORD), BY)
    assert isinstance(event, ArtifactEvent)
    content = {**cast(JsonObject, event.content), "created_at": "[REDACTED]"}
    changed = ArtifactEvent(BY, event.artifact_id, content, "evidence", event.metadata)
    assert items_from([changed]) == [Evidence(content)]


def test_the_events_of_a_tool_call_are_one_item_at_its_result() -> None:
    events: list[AgentEvent] = [
        ToolCallStartEvent(BY, "c-1", "pay", "m"),
        ToolCallStartEvent(BY, "c-2", "look", "m"),
        ToolCallArgsDeltaEvent(BY, "c-1", '{"amo'),
        ToolCallArgsDeltaEvent(BY, "c-2", "{}"),
        ToolCallArgsDeltaEvent(BY, "c-1", 'unt": 5}'),
        ToolCallEndEvent(BY, "c-1"),
        ToolCallEndEvent(BY, "c-2"),
        StepStartedEvent(BY, "tool-1"),
        ToolCallResultEvent(BY, "c-2", "look", "m", "found"),
        ToolCallResultEvent(BY, "c-1", "pay", "m", None, {"is_error": True}),
    ]
    assert items_from(events) == [
        Tool("look", "c-2", {}, "found"),
        Tool("pay", "c-1", {"amount": 5}, None, {"is_error": True}),
    ]


@pytest.mark.parametrize("arguments", ["{", "[1]", '{"key": [SECRET]}', "null"])
def test_arguments_that_are_no_object_are_left_out(arguments: str) -> None:
    events: list[AgentEvent] = [
        ToolCallStartEvent(BY, "c", "pay"),
        ToolCallArgsDeltaEvent(BY, "c", arguments),
        ToolCallResultEvent(BY, "c", "pay", "m", 1),
    ]
    assert items_from(events) == [Tool("pay", "c", {}, 1)]


def test_a_result_whose_start_was_missed_is_still_an_item() -> None:
    events: list[AgentEvent] = [
        ToolCallArgsDeltaEvent(BY, "c", "{}"),
        ToolCallResultEvent(BY, "c", "pay", "m", 1),
    ]
    assert items_from(events) == [Tool("pay", "c", {}, 1)]


PAUSED = AgentStateReason.APPROVAL_REQUIRED
SAYS: list[tuple[str, AgentEvent, AgentYield[object] | None]] = [
    ("started", RunStartedEvent(BY), None),
    ("thought", ReasoningDeltaEvent(BY, "r", "hm"), None),
    ("step of an architecture", StepStartedEvent(BY, "model-1"), None),
    ("end of a step", StepFinishedEvent(BY, "model-1"), None),
    ("state", StateSnapshotEvent(BY, {}), State({})),
    ("state of a tool", StateSnapshotEvent(BY, 1, {ITEM_FIELDS: {"action": "run/a#1"}}), State(1)),
    ("patch", StateDeltaEvent(BY, [{"op": "remove", "path": "/a"}]), StatePatch([REMOVE])),
    ("redacted patch", StateDeltaEvent(BY, [{"op": "remove", "path": "[REDACTED]"}]), None),
    ("other artifact", ArtifactEvent(BY, "a", {}, "plan"), None),
    ("evidence of an architecture", ArtifactEvent(BY, "a", [1], "evidence"), Evidence([1])),
    (
        "approval",
        RunPausedEvent(BY, PAUSED, "Pay?", "run-1", "q-1", "c", ("approve", "reject"), {"risk": "high"}),
        Approval("q-1", "Pay?", (ApprovalDecision.APPROVE, ApprovalDecision.REJECT), {"risk": "high"}),
    ),
    (
        "recovery",
        RunPausedEvent(BY, PAUSED, "Done?", "run-1", "q-2", allowed_decisions=("retry", "done", "cancel")),
        Approval("q-2", "Done?", (ApprovalDecision.CANCEL,)),
    ),
    ("pause without a request", RunPausedEvent(BY, PAUSED, "?", "run-1"), Approval("run-1", "?", ())),
    ("answer", RunFinishedEvent(BY, None, {"output": 1, "turns": 2}), Final(1, {"turns": 2})),
    ("end without an answer", RunFinishedEvent(BY), Final(None)),
    (
        "bare error",
        RunFinishedEvent(BY, {}, {"turns": 2}),
        Error("run_error", "run_error", False, {"turns": 2}),
    ),
    ("bare cancellation", RunFinishedEvent(BY, {"code": "cancelled", "message": "x"}), Cancel()),
    ("a child's text", MessageDeltaEvent(CHILD, "m", "Hi"), None),
    ("a child's answer", RunFinishedEvent(CHILD, None, {"output": 1}), None),
]


@pytest.mark.parametrize(("event", "item"), [row[1:] for row in SAYS], ids=[row[0] for row in SAYS])
def test_each_event_is_projected_to_its_item(event: AgentEvent, item: AgentYield[object] | None) -> None:
    assert YieldProjector("run-1").yield_of(event) == item

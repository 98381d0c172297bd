"""Whatever a run tells, in whatever order, a client reads a stream that its protocol allows."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.adapters.agui.samples import BY, KID, told
from tests.adapters.agui.sequence import fault_in

from pilotage.agent import (
    AgentEvent,
    AgentEventAttribution,
    ArtifactEvent,
    MessageDeltaEvent,
    ReasoningDeltaEvent,
    RunFinishedEvent,
    RunPausedEvent,
    RunStartedEvent,
    StateSnapshotEvent,
    StepFinishedEvent,
    StepStartedEvent,
    ToolCallArgsDeltaEvent,
    ToolCallEndEvent,
    ToolCallResultEvent,
    ToolCallStartEvent,
)
from pilotage.agent.state import AgentStateReason

OWN = st.sampled_from([BY, KID, AgentEventAttribution("grandkid", "run-3", "thread-1", "run-2")])
ID, TEXT = st.sampled_from(["a", "b"]), st.sampled_from(["", "x"])
MARK = st.sampled_from([{}, {}, {"superseded": True}])
REASON = st.just(AgentStateReason.APPROVAL_REQUIRED)
ERROR = st.sampled_from([None, {"code": "cancelled"}, {"message": "no"}])
EVENTS: st.SearchStrategy[AgentEvent] = st.one_of(
    st.builds(MessageDeltaEvent, OWN, ID, TEXT, MARK),
    st.builds(ReasoningDeltaEvent, OWN, ID, TEXT, MARK),
    st.builds(ToolCallStartEvent, OWN, ID, ID),
    st.builds(ToolCallArgsDeltaEvent, OWN, ID, TEXT),
    st.builds(ToolCallEndEvent, OWN, ID, MARK),
    st.builds(ToolCallResultEvent, OWN, ID, ID, ID, TEXT),
    st.builds(StepStartedEvent, OWN, ID),
    st.builds(StepFinishedEvent, OWN, ID),
    st.builds(StateSnapshotEvent, OWN, TEXT),
    st.builds(ArtifactEvent, OWN, ID, TEXT),
    st.builds(RunStartedEvent, OWN),
    st.builds(RunPausedEvent, OWN, REASON, ID, ID, st.none() | ID),
    st.builds(RunFinishedEvent, OWN, ERROR),
)


@settings(max_examples=500, deadline=None)
@given(st.lists(EVENTS, max_size=30))
def test_any_events_make_a_stream_without_a_fault(events: list[AgentEvent]) -> None:
    assert fault_in(told(RunStartedEvent(BY), *events, finish=True)) is None


START, END = {"type": "RUN_STARTED"}, {"type": "RUN_FINISHED"}
TEXT_BEGINS = {"type": "TEXT_MESSAGE_START", "messageId": "a"}


@pytest.mark.parametrize(
    ("frames", "fault"),
    [
        ([START], "the stream has no end"),
        ([TEXT_BEGINS, END], "before the run has begun"),
        ([START, START, END], "not the first"),
        ([START, END, END], "after RUN_FINISHED"),
        ([START, TEXT_BEGINS, END], "while these are open"),
        ([START, TEXT_BEGINS, TEXT_BEGINS, END], "open already"),
        ([START, {"type": "TOOL_CALL_ARGS", "toolCallId": "a"}, END], "not open"),
        ([START, {"type": "STEP_FINISHED", "stepName": "a"}, END], "not open"),
        ([{**START, "runId": "r"}, {**END, "runId": "s"}], "runId is 's', not 'r'"),
        ([{**START, "threadId": "t"}, END], "threadId is 't', not 'thread-1'"),
        ([START, {"type": "TOOL_CALL_RESULT", "toolCallId": "a"}, END], "a call that nobody made"),
        ([START, {**TEXT_BEGINS, "subagentRunId": "kid"}, END], "nobody knows the sub-agent"),
        (
            [
                START,
                {"type": "TOOL_CALL_START", "toolCallId": "a"},
                {"type": "TOOL_CALL_ARGS", "toolCallId": "a", "delta": "{"},
                {"type": "TOOL_CALL_END", "toolCallId": "a"},
            ],
            "are no JSON",
        ),
    ],
)
def test_a_wrong_sequence_is_noticed(frames: list[dict[str, Any]], fault: str) -> None:
    found = fault_in(frames, thread_id="thread-1", calls=set())
    assert found is not None
    assert fault in found

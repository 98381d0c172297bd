"""Every row of the table from neutral events to AG-UI events, and that a stream is always whole."""

from __future__ import annotations

import json
from typing import Any

import pytest
from tests.adapters.agui.samples import BY, KID, told, types

from pilotage.adapters.agui import AgUiConfig, AgUiProjector
from pilotage.agent import (
    AgentEvent,
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
from pilotage.agent.state import AgentStateReason

ASKED = AgentStateReason.APPROVAL_REQUIRED
SAID, THOUGHT = MessageDeltaEvent(BY, "m1", "Hi"), ReasoningDeltaEvent(BY, "r1", "Hm")
CALLED = ToolCallStartEvent(BY, "c1", "pay")
STARTED = RunStartedEvent(BY)


def paused(approval_id: str | None = "run-1:a", **fields: Any) -> RunPausedEvent:
    allowed = ("approve", "reject") if approval_id else ()
    return RunPausedEvent(BY, ASKED, "May I?", "run-1", approval_id, "c1", allowed, **fields)


ROWS: dict[str, tuple[list[AgentEvent], list[dict[str, Any]]]] = {
    "a text begins and goes on": (
        [SAID, MessageDeltaEvent(BY, "m1", " Ada")],
        [
            {"type": "TEXT_MESSAGE_START", "messageId": "m1", "role": "assistant"},
            {"type": "TEXT_MESSAGE_CONTENT", "messageId": "m1", "delta": "Hi"},
            {"type": "TEXT_MESSAGE_CONTENT", "messageId": "m1", "delta": " Ada"},
        ],
    ),
    "an empty piece says nothing": (
        [MessageDeltaEvent(BY, "m1", "")],
        [{"type": "TEXT_MESSAGE_START", "messageId": "m1", "role": "assistant"}],
    ),
    "another text ends the one before": (
        [SAID, MessageDeltaEvent(BY, "m2", "")],
        [
            {"type": "TEXT_MESSAGE_START", "messageId": "m1", "role": "assistant"},
            {"type": "TEXT_MESSAGE_CONTENT", "messageId": "m1", "delta": "Hi"},
            {"type": "TEXT_MESSAGE_END", "messageId": "m1"},
            {"type": "TEXT_MESSAGE_START", "messageId": "m2", "role": "assistant"},
        ],
    ),
    "reasoning, then a text": (
        [THOUGHT, MessageDeltaEvent(BY, "m1", "")],
        [
            {"type": "REASONING_START", "messageId": "r1"},
            {"type": "REASONING_MESSAGE_START", "messageId": "r1", "role": "reasoning"},
            {"type": "REASONING_MESSAGE_CONTENT", "messageId": "r1", "delta": "Hm"},
            {"type": "REASONING_MESSAGE_END", "messageId": "r1"},
            {"type": "REASONING_END", "messageId": "r1"},
            {"type": "TEXT_MESSAGE_START", "messageId": "m1", "role": "assistant"},
        ],
    ),
    "a call with its arguments and its result": (
        [
            CALLED,
            ToolCallArgsDeltaEvent(BY, "c1", '{"a":'),
            ToolCallArgsDeltaEvent(BY, "c1", ""),
            ToolCallArgsDeltaEvent(BY, "c1", "1}"),
            ToolCallEndEvent(BY, "c1"),
            ToolCallResultEvent(BY, "c1", "pay", "m1", {"paid": [1, "ü"]}),
        ],
        [
            {"type": "TOOL_CALL_START", "toolCallId": "c1", "toolCallName": "pay"},
            {"type": "TOOL_CALL_ARGS", "toolCallId": "c1", "delta": '{"a":'},
            {"type": "TOOL_CALL_ARGS", "toolCallId": "c1", "delta": "1}"},
            {"type": "TOOL_CALL_END", "toolCallId": "c1"},
            {
                "type": "TOOL_CALL_RESULT",
                "messageId": "m1:c1",
                "toolCallId": "c1",
                "content": '{"paid":[1,"ü"]}',
                "role": "tool",
            },
        ],
    ),
    "what ends here and began elsewhere is left out": (
        [
            ToolCallArgsDeltaEvent(BY, "c9", "{}"),
            ToolCallEndEvent(BY, "c9"),
            StepFinishedEvent(BY, "model-9"),
        ],
        [],
    ),
    "a state": (
        [StateSnapshotEvent(BY, {"a": 1})],
        [{"type": "STATE_SNAPSHOT", "snapshot": {"a": 1}}],
    ),
    "a change of the state": (
        [StateDeltaEvent(BY, [{"op": "remove", "path": "/a"}])],
        [{"type": "STATE_DELTA", "delta": [{"op": "remove", "path": "/a"}]}],
    ),
    "a single operation is wrapped": (
        [StateDeltaEvent(BY, {"op": "remove", "path": "/a"})],
        [{"type": "STATE_DELTA", "delta": [{"op": "remove", "path": "/a"}]}],
    ),
    "an artifact": (
        [ArtifactEvent(BY, "a1", {"x": 1}, "plan")],
        [
            {
                "type": "CUSTOM",
                "name": "artifact",
                "value": {"artifactId": "a1", "name": "plan", "content": {"x": 1}},
            }
        ],
    ),
    "a step ends what was said in it": (
        [StepStartedEvent(BY, "model-1"), MessageDeltaEvent(BY, "m1", ""), StepFinishedEvent(BY, "model-1")],
        [
            {"type": "STEP_STARTED", "stepName": "model-1"},
            {"type": "TEXT_MESSAGE_START", "messageId": "m1", "role": "assistant"},
            {"type": "TEXT_MESSAGE_END", "messageId": "m1"},
            {"type": "STEP_FINISHED", "stepName": "model-1"},
        ],
    ),
    "a run starts": ([STARTED], [{"type": "RUN_STARTED", "threadId": "thread-1", "runId": "run-1"}]),
    "a run that comes back starts once": (
        [STARTED, paused(), STARTED, RunFinishedEvent(BY)],
        [
            {"type": "RUN_STARTED", "threadId": "thread-1", "runId": "run-1"},
            {
                "type": "RUN_FINISHED",
                "threadId": "thread-1",
                "runId": "run-1",
                "outcome": {"type": "success"},
            },
        ],
    ),
    "an answer": (
        [RunFinishedEvent(BY, None, {"output": {"answer": 42}})],
        [
            {
                "type": "RUN_FINISHED",
                "threadId": "thread-1",
                "runId": "run-1",
                "result": {"answer": 42},
                "outcome": {"type": "success"},
            }
        ],
    ),
    "a cancelled run": (
        [RunFinishedEvent(BY, {"code": "cancelled", "message": "enough"})],
        [
            {
                "type": "RUN_FINISHED",
                "threadId": "thread-1",
                "runId": "run-1",
                "outcome": {"type": "success"},
            }
        ],
    ),
    "a rejected run": (
        [RunFinishedEvent(BY, {"code": "approval_rejected", "message": "no"})],
        [
            {"type": "CUSTOM", "name": "approval_rejected", "value": {"runId": "run-1", "message": "no"}},
            {
                "type": "RUN_FINISHED",
                "threadId": "thread-1",
                "runId": "run-1",
                "outcome": {"type": "success"},
            },
        ],
    ),
    "a failure in words": (
        [RunFinishedEvent(BY, {"code": "timeout", "message": "too late", "reason": "x"})],
        [{"type": "RUN_ERROR", "message": "too late", "code": "timeout"}],
    ),
    "a failure with a reason": (
        [RunFinishedEvent(BY, {"reason": "too late"})],
        [{"type": "RUN_ERROR", "message": "too late", "code": "run_failed"}],
    ),
    "a failure without words": (
        [RunFinishedEvent(BY, {"code": 7})],
        [{"type": "RUN_ERROR", "message": '{"code":7}', "code": "run_failed"}],
    ),
    "nothing follows an end": (
        [RunFinishedEvent(BY, {"code": "timeout", "message": "late"}), SAID, RunFinishedEvent(BY)],
        [{"type": "RUN_ERROR", "message": "late", "code": "timeout"}],
    ),
    "a text that does not count any more": (
        [MessageDeltaEvent(BY, "m1", ""), MessageDeltaEvent(BY, "m1", "", {"superseded": True})],
        [
            {"type": "TEXT_MESSAGE_START", "messageId": "m1", "role": "assistant"},
            {"type": "TEXT_MESSAGE_END", "messageId": "m1"},
            {"type": "CUSTOM", "name": "superseded", "value": {"messageId": "m1"}},
        ],
    ),
    "a call that does not count any more": (
        [ToolCallEndEvent(BY, "c1", {"superseded": True})],
        [{"type": "CUSTOM", "name": "superseded", "value": {"toolCallId": "c1"}}],
    ),
}


@pytest.mark.parametrize("row", ROWS)
def test_an_event_is_told_as_the_table_says(row: str) -> None:
    events, frames = ROWS[row]
    assert told(*events) == frames


def test_a_call_belongs_to_the_text_that_is_open_and_leaves_it_open() -> None:
    frames = told(SAID, CALLED, MessageDeltaEvent(BY, "m1", " there"))
    assert frames[2]["parentMessageId"] == "m1"
    assert frames[3] == {"type": "TEXT_MESSAGE_CONTENT", "messageId": "m1", "delta": " there"}
    (start,) = told(ToolCallStartEvent(BY, "c1", "pay", "m7"))
    assert start["parentMessageId"] == "m7"


def test_what_is_open_is_closed_in_order_text_reasoning_calls() -> None:
    frames = told(
        StepStartedEvent(BY, "model-1"),
        SAID,
        CALLED,
        ToolCallStartEvent(BY, "c2", "pay"),
        RunFinishedEvent(BY),
    )
    assert [(f["type"], f.get("toolCallId")) for f in frames[5:]] == [
        ("TEXT_MESSAGE_END", None),
        ("TOOL_CALL_END", "c1"),
        ("TOOL_CALL_END", "c2"),
        ("STEP_FINISHED", None),
        ("RUN_FINISHED", None),
    ]


def test_a_paused_run_shows_the_deferred_call_and_ends_with_the_native_interrupt() -> None:
    facts = {"arguments": {"amount": "5"}, "expires_at": "2030-01-01T00:00:00+00:00"}
    config = AgUiConfig(approval_calls=True)
    frames = told(STARTED, SAID, paused(metadata=facts), by=AgUiProjector(config), finish=True)
    assert types(frames)[3:] == [
        "TEXT_MESSAGE_END",
        "TOOL_CALL_START",
        "TOOL_CALL_ARGS",
        "TOOL_CALL_END",
        "RUN_FINISHED",
    ]
    assert json.loads(frames[5]["delta"]) == {
        "prompt": "May I?",
        "allowed_decisions": ["approve", "reject"],
        "run_id": "run-1",
        **facts,
    }
    (interrupt,) = frames[-1]["outcome"]["interrupts"]
    assert frames[-1]["outcome"]["type"] == "interrupt"
    schema = interrupt.pop("responseSchema")
    assert schema["required"] == ["decision"]
    assert schema["properties"]["decision"]["enum"] == ["approve", "reject"]
    assert interrupt == {
        "id": "run-1:a",
        "reason": "approval_required",
        "message": "May I?",
        "toolCallId": "c1",
        "expiresAt": "2030-01-01T00:00:00+00:00",
        "metadata": facts,
    }


def test_several_questions_are_one_end_with_several_interrupts() -> None:
    frames = told(STARTED, paused("run-1:a"), paused("run-1:b"), finish=True)
    assert types(frames).count("RUN_FINISHED") == 1
    assert [each["id"] for each in frames[-1]["outcome"]["interrupts"]] == ["run-1:a", "run-1:b"]


def test_what_was_answered_since_is_no_interrupt_any_more() -> None:
    frames = told(STARTED, paused("run-1:a"), STARTED, paused("run-1:b"), finish=True)
    assert [each["id"] for each in frames[-1]["outcome"]["interrupts"]] == ["run-1:b"]


def test_a_pause_without_a_question_is_an_interrupt_and_no_call() -> None:
    frames = told(STARTED, paused(None), finish=True)
    assert types(frames) == ["RUN_STARTED", "RUN_FINISHED"]
    (interrupt,) = frames[-1]["outcome"]["interrupts"]
    assert (interrupt["id"], "responseSchema" in interrupt) == ("pause:run-1", False)


def test_a_stream_that_ends_too_early_ends_with_an_error() -> None:
    frames = told(STARTED, SAID, finish=True)
    assert types(frames)[-2:] == ["TEXT_MESSAGE_END", "RUN_ERROR"]
    assert frames[-1]["code"] == "agui_stream_broken"


def test_finishing_twice_or_after_the_end_says_nothing() -> None:
    projector = AgUiProjector()
    told(STARTED, RunFinishedEvent(BY), by=projector, finish=True)
    assert (projector.finish(), projector.fail("late", "late")) == ([], [])
    assert AgUiProjector().finish() == []


def test_the_ids_of_the_client_are_echoed() -> None:
    projector = AgUiProjector(run_id="mine", thread_id="my-thread")
    frames = told(STARTED, RunFinishedEvent(BY), by=projector)
    assert {(frame["runId"], frame["threadId"]) for frame in frames} == {("mine", "my-thread")}


def test_a_state_snapshot_can_be_left_out() -> None:
    projector = AgUiProjector(AgUiConfig(emit_state_snapshot=False))
    assert told(StateSnapshotEvent(BY, {}), by=projector) == []


def test_tokens_of_all_steps_are_summed_at_the_end() -> None:
    steps = [
        StepFinishedEvent(BY, "model-1", {"usage": {"input_tokens": 3, "output_tokens": 2}}),
        StepFinishedEvent(KID, "model-1", {"usage": {"input_tokens": 4}}),
    ]
    assert told(*steps, RunFinishedEvent(BY))[-1]["usage"] == [{"inputTokens": 7, "outputTokens": 2}]


def test_a_child_is_a_sub_agent_whose_words_do_not_close_its_parents() -> None:
    frames = told(
        STARTED,
        SAID,
        RunStartedEvent(KID),
        MessageDeltaEvent(KID, "k1", "Yes"),
        MessageDeltaEvent(BY, "m1", "!"),
        RunFinishedEvent(KID, None, {"output": "done"}),
        RunFinishedEvent(BY),
    )
    assert [(f["type"], f.get("subagentRunId")) for f in frames[3:]] == [
        ("SUBAGENT_STARTED", "run-2"),
        ("TEXT_MESSAGE_START", "run-2"),
        ("TEXT_MESSAGE_CONTENT", "run-2"),
        ("TEXT_MESSAGE_CONTENT", None),
        ("TEXT_MESSAGE_END", "run-2"),
        ("SUBAGENT_FINISHED", "run-2"),
        ("TEXT_MESSAGE_END", None),
        ("RUN_FINISHED", None),
    ]
    assert frames[3]["name"] == "kid"
    assert frames[8]["result"] == "done"


def test_a_child_that_fails_or_waits_says_so_and_its_question_is_its_own() -> None:
    asked = paused("run-2:a", metadata={"agent_state_id": "run-2"})
    waiting = RunPausedEvent(KID, ASKED, "May I?", "run-2", "run-2:a")
    frames = told(STARTED, RunStartedEvent(KID), waiting, waiting, asked, finish=True)
    assert types(frames)[1:3] == ["SUBAGENT_STARTED", "SUBAGENT_FINISHED"]
    assert types(frames).count("SUBAGENT_FINISHED") == 1
    assert frames[2]["outcome"] == {"type": "suspended"}
    assert frames[-1]["outcome"]["interrupts"][0]["subagentRunId"] == "run-2"
    failed = told(STARTED, RunFinishedEvent(KID, {"code": "timeout", "message": "late"}))[-1]
    assert failed == {
        "type": "SUBAGENT_ERROR",
        "subagentRunId": "run-2",
        "message": "late",
        "code": "timeout",
    }


def test_a_snapshot_of_the_messages_holds_what_the_client_had_and_what_it_was_told() -> None:
    from tests.adapters.agui.samples import ag_ui_input

    projector = AgUiProjector(
        AgUiConfig(messages_snapshot_enabled=True), messages=ag_ui_input("Pay!").messages
    )
    frames = told(
        STARTED,
        SAID,
        CALLED,
        ToolCallArgsDeltaEvent(BY, "c1", "{}"),
        ToolCallResultEvent(BY, "c1", "pay", "m1", 1),
        MessageDeltaEvent(BY, "m2", "Done"),
        MessageDeltaEvent(KID, "k1", "aside"),
        RunFinishedEvent(BY),
        by=projector,
    )
    assert types(frames)[-2:] == ["MESSAGES_SNAPSHOT", "RUN_FINISHED"]
    assert [(m["role"], m["content"]) for m in frames[-2]["messages"]] == [
        ("user", "Pay!"),
        ("assistant", "Hi"),
        ("tool", "1"),
        ("assistant", "Done"),
    ]
    (call,) = frames[-2]["messages"][1]["toolCalls"]
    assert call["function"] == {"name": "pay", "arguments": "{}"}

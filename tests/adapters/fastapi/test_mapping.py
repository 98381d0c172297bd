"""From bodies to what the run service is given, and from its values to what clients see."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from typing import Any

import pytest
from pydantic import ValidationError

from pilotage.adapters.fastapi.frames import (
    RECONNECT_FRAME,
    EncodedEvents,
    Frame,
    event_frame,
    item_frame,
    joined,
    problem_frame,
)
from pilotage.agent import (
    AgentActionKind,
    AgentApprovalBoundaryKind,
    AgentApprovalRequest,
    AgentEventAttribution,
    AgentRecoveryRequest,
    AgentSignal,
    AgentSignalKind,
    AgentState,
    AgentStatus,
    MessageDeltaEvent,
    ReasoningDeltaEvent,
    RunStartedEvent,
    Token,
    ToolRisk,
)
from pilotage.agent.approval import ApprovalTerms
from pilotage.errors import RunErasedError
from pilotage.inbound.bodies import AnswerBody, SignalBody, StartBody, cursor_of
from pilotage.inbound.limits import is_deeper_than
from pilotage.inbound.problems import RequestRefusedError, json_text, problem_of
from pilotage.inbound.questions import QuestionView
from pilotage.inbound.views import ResultView, RunView, SignalView
from pilotage.runtime import RunResult
from pilotage.runtime.events.feed import PositionedEvent

NOON = datetime(2030, 1, 1, 12, tzinfo=UTC)
STATE = AgentState(
    "run-1", "clerk", AgentStatus.ACTIVE, created_at=NOON, tenant_id="acme", metadata={"order": 1}
)


@pytest.mark.parametrize(
    ("sent", "details"),
    [
        ({"decision": "approve"}, {}),
        ({"decision": "reject", "comment": "no"}, {"comment": "no"}),
        ({"decision": "modify", "modified_payload": {"a": 1}}, {"modified_payload": {"a": 1}}),
        ({"decision": "done", "result": None}, {"result": None}),
        ({"decision": "cancel"}, {}),
        ({"decision": "approve", "resume": False}, {}),
        (
            {
                "decision": "retry",
                "actions": {"a": {"decision": "done", "result": None}, "b": {"decision": "retry"}},
            },
            {"actions": {"a": {"decision": "done", "result": None}, "b": {"decision": "retry"}}},
        ),
    ],
)
def test_only_what_was_sent_goes_with_an_answer(sent: dict[str, Any], details: dict[str, Any]) -> None:
    body = AnswerBody.model_validate({"request_id": "q", **sent})
    assert body.decision.value == sent["decision"]
    assert body.details() == details


@pytest.mark.parametrize("kind", ["cancel", "approval_decision"])
def test_what_has_a_way_of_its_own_is_no_signal(kind: str) -> None:
    with pytest.raises(RequestRefusedError, match="is no signal to send by itself. Send it as"):
        SignalBody.model_validate({"kind": kind}).sent_kind()


@pytest.mark.parametrize("kind", sorted({*AgentSignalKind} - {"cancel", "approval_decision"}))
def test_every_other_kind_is_sent(kind: str) -> None:
    assert SignalBody.model_validate({"kind": kind}).sent_kind() == kind


@pytest.mark.parametrize(
    "sent", [{}, {"agent": ""}, {"agent": "  "}, {"agent": "a", "inptu": 1}, {"agent": "a", "metadata": []}]
)
def test_a_start_that_cannot_be_meant_is_refused(sent: dict[str, Any]) -> None:
    with pytest.raises(ValidationError):
        StartBody.model_validate(sent)


@pytest.mark.parametrize(
    ("header", "address", "cursor"),
    [
        (None, None, None),
        (None, "1.2.3", "1.2.3"),
        ("1.5.0", "1.2.3", "1.5.0"),
        ("", "1.2.3", "1.2.3"),
    ],
)
def test_the_header_is_newer_than_the_address(
    header: str | None, address: str | None, cursor: str | None
) -> None:
    assert cursor_of(header, address) == cursor


def test_what_is_no_cursor_is_refused() -> None:
    with pytest.raises(RequestRefusedError, match="'x' is no cursor of events"):
        cursor_of("x", None)


def test_a_run_is_shown_without_its_tenant() -> None:
    assert json_text(RunView.of(STATE)).decode() == (
        '{"id":"run-1","agent_type":"clerk","status":"active","transition":null,"reason":null,'
        '"current_activity":null,"awaits":null,"metadata":{"order":1},'
        '"created_at":"2030-01-01T12:00:00+00:00","updated_at":null,"wake_at":null,"divergence":null}'
    )


def test_a_result_is_shown_without_the_exception_behind_it() -> None:
    view = ResultView.of(RunResult(STATE, {"total": 1}, error={"code": "broken"}, cause=ValueError("inside")))
    assert (view.output, view.error, view.run.id) == ({"total": 1}, {"code": "broken"}, "run-1")
    assert b"inside" not in json_text(view)


def test_an_approval_is_a_question() -> None:
    asked = AgentApprovalRequest(
        "run-1:q",
        "run-1",
        AgentApprovalBoundaryKind.TOOL_INVOCATION,
        "Refund 5?",
        ToolRisk(),
        "desk.refund",
        arguments={"amount": "5"},
        expires_at=NOON,
    ).bound_to(ApprovalTerms("ada", "the night shift", "desk/3"))
    view = QuestionView.of(asked)
    assert (view.requested_by, view.approver_scope, view.policy_version) == (
        "ada",
        "the night shift",
        "desk/3",
    )
    assert (view.kind, view.action, view.prompt, view.expires_at) == (
        "approval",
        "desk.refund",
        "Refund 5?",
        NOON,
    )
    assert view.allowed_decisions == ["approve", "reject", "modify", "defer", "cancel"]


@pytest.mark.parametrize(("name", "shown"), [("pay", "pay"), (None, "run/tool:pay#1")])
def test_a_question_about_an_unknown_outcome_shows_what_came_late(name: str | None, shown: str) -> None:
    asked = AgentRecoveryRequest(
        "run-1:q",
        "run-1",
        "run/tool:pay#1",
        2,
        "Paid?",
        AgentActionKind.TOOL_CALL,
        name,
        late_outcomes=({"ok": 1},),
    )
    view = QuestionView.of(asked)
    assert (view.kind, view.action, view.attempt, view.late_outcomes) == ("recovery", shown, 2, [{"ok": 1}])
    assert view.allowed_decisions == ["retry", "done", "fail", "cancel"]


def test_a_signal_is_confirmed_without_its_payload() -> None:
    signal = AgentSignal("s-1", "run-1", AgentSignalKind.USER_MESSAGE, {"text": "hush"})
    assert json_text(SignalView.of(signal)) == (
        b'{"id":"s-1","run_id":"run-1","kind":"user_message","end":null}'
    )


def test_an_event_is_a_frame_with_its_cursor_whatever_its_text_holds() -> None:
    by = AgentEventAttribution("clerk", "run-1", "run-1")
    frame = event_frame(MessageDeltaEvent(by, "m-1", "a\nb\r\u2028é\ud800"), "1.2.3")
    head, data, *rest = frame.sse.split("\ndata: ")
    assert (head, rest) == ("id: 1.2.3\nevent: message_delta", [])
    assert data.endswith("}\n\n")
    assert data.count("\n") == 2
    assert '"delta":"a\\nb\\r\\u2028\\u00e9\\ud800"' in data
    assert '"attribution":{"agent_id":"clerk","run_id":"run-1"' in data
    assert "metadata" not in data


def test_an_event_of_a_known_source_is_its_kind_and_what_is_new() -> None:
    by = AgentEventAttribution("clerk", "run-1", "run-1")
    frame = event_frame(MessageDeltaEvent(by, "m-1", " word"), "1.2.3", is_attributed=False)
    assert frame.data == '{"message_id":"m-1","delta":" word","kind":"message_delta"}'
    marked = event_frame(MessageDeltaEvent(by, "m-1", "", {"superseded": True}), "1.2.3")
    assert json.loads(marked.data)["metadata"] == {"superseded": True}


BY, CHILD = AgentEventAttribution("clerk", "run-1", "run-1"), AgentEventAttribution("kid", "run-2", "run-1")
SAID: list[PositionedEvent] = [
    (1, 1, 0, RunStartedEvent(BY)),
    (1, 2, 2, MessageDeltaEvent(BY, "m-1", "ab")),
    (1, 2, 3, MessageDeltaEvent(BY, "m-1", "c")),
    (1, 3, 1, MessageDeltaEvent(CHILD, "m-1", "x")),
    (1, 4, 1, MessageDeltaEvent(BY, "m-2", "d")),
    (1, 5, 1, ReasoningDeltaEvent(BY, "m-2", "e")),
    (1, 5, 2, ReasoningDeltaEvent(BY, "m-2", "", {"superseded": True})),
    (1, 5, 3, ReasoningDeltaEvent(BY, "m-2", "f")),
    (2, 5, 4, ReasoningDeltaEvent(BY, "m-2", "g")),
]


def test_pieces_of_one_text_go_out_as_one_with_the_last_cursor() -> None:
    pieces = list(joined(SAID))
    assert [len(piece) for piece in pieces] == [1, 2, 1, 1, 1, 1, 1, 1]
    frame = EncodedEvents().frame_of(pieces[1], is_attributed=False)
    assert (frame.id, json.loads(frame.data)["delta"]) == ("1.2.3", "abc")


def test_no_frame_holds_more_text_than_a_client_should_have_to_buffer() -> None:
    piece = MessageDeltaEvent(BY, "m-1", "x" * 10_000)
    counts = [len(each) for each in joined((1, 2, number * 10_000, piece) for number in range(1, 10))]
    assert sum(counts) == 9
    assert max(counts) <= 4


def test_readers_of_the_same_events_get_the_same_frame() -> None:
    encoded = EncodedEvents()
    for piece in joined(SAID):
        first, again = (encoded.frame_of(piece, is_attributed=True) for _ in range(2))
        assert first is again
        assert encoded.frame_of(piece, is_attributed=False).data != first.data


def test_a_problem_in_a_stream_has_no_id_to_come_back_to() -> None:
    text = problem_frame(problem_of(RunErasedError())).sse
    assert text.startswith("event: problem\ndata: {")
    assert "\nid:" not in text


def test_a_stream_that_ends_before_its_run_says_when_to_come_back() -> None:
    text = RECONNECT_FRAME.sse
    assert text.startswith("retry: 1000\nevent: reconnect\ndata: {")
    assert "id:" not in text


def test_a_message_over_a_socket_has_the_same_parts() -> None:
    by = AgentEventAttribution("clerk", "run-1", "run-1")
    message = json.loads(event_frame(MessageDeltaEvent(by, "m-1", 'a"\n'), "1.2.3").message)
    assert (message["event"], message["id"], message["data"]["delta"]) == ("message_delta", "1.2.3", 'a"\n')
    assert json.loads(Frame(None, "[1]").message) == {"data": [1]}


def test_whatever_has_a_json_form_can_be_told() -> None:
    by = AgentEventAttribution("clerk", "run-1", "run-1")
    assert item_frame(Token("hi")).event == "token"
    assert json.loads(item_frame(Token("hi")).data)["payload"]["text"] == "hi"
    assert item_frame(MessageDeltaEvent(by, "m-1", "hi")).event == "message_delta"
    assert item_frame({"kind": "own"}) == Frame(None, '{"kind":"own"}')


@pytest.mark.parametrize(
    ("text", "depth"),
    [
        (b"", 0),
        (b"1", 0),
        (b"[]", 1),
        (b'{"a":[{}]}', 3),
        (b'{"a":"[[[["}', 1),
        (b'{"a\\"[[":"\\\\","b":[1]}', 2),
        (b'{"a":"\\\\","b":[[[[]]]],"c":""}', 5),
        (b"[[],[[]],{}]", 3),
        (b"[" * 50, 50),
    ],
)
def test_the_depth_of_a_body_is_seen_without_decoding_it(text: bytes, depth: int) -> None:
    assert not is_deeper_than(depth, text)
    assert depth == 0 or is_deeper_than(depth - 1, text)

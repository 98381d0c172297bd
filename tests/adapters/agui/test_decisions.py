"""Decisions in AG-UI inputs: three ways in, and nothing is decided by what cannot be read."""

from __future__ import annotations

import json
from typing import Any

import pytest
from ag_ui.core import RunAgentInput
from tests.adapters.agui.samples import ag_ui_input, tool_message

from pilotage.adapters.agui import (
    AgUiApprovalDecodeError,
    AgUiContinuation,
    AgUiDecision,
    carries_approval_decision,
    decisions_in,
    ingest_decision,
)
from pilotage.adapters.agui.questions import interrupt_of
from pilotage.agent import (
    AgentEventAttribution,
    AgentSignalKind,
    AgentStateReason,
    ApprovalDecision,
    RecoveryDecision,
    RunPausedEvent,
)
from pilotage.testing import MemoryStore

APPROVED = {"request_id": "run-1:a", "decision": "approve"}


def resume(payload: object = None, status: str = "resolved", interrupt_id: str = "run-1:a") -> RunAgentInput:
    return ag_ui_input(resume=[{"interruptId": interrupt_id, "status": status, "payload": payload}])


def answered(*contents: object, call_id: str = "run-1:a", after: str | None = None) -> RunAgentInput:
    texts = [each if isinstance(each, str) else json.dumps(each) for each in contents]
    messages: list[dict[str, Any]] = [{"id": "u1", "role": "user", "content": "Pay!"}]
    messages += [tool_message(call_id, text) for text in texts]
    messages += [{"id": "u2", "role": "user", "content": after}] if after else []
    return ag_ui_input(messages=messages)


def forwarded(decision: object) -> RunAgentInput:
    return ag_ui_input(forwardedProps={"approvalDecision": decision})


@pytest.mark.parametrize("given", [resume({"decision": "approve"}), answered(APPROVED), forwarded(APPROVED)])
def test_a_decision_comes_in_one_of_three_ways(given: RunAgentInput) -> None:
    assert carries_approval_decision(given)
    assert decisions_in(given) == (AgUiDecision("run-1:a", ApprovalDecision.APPROVE),)


@pytest.mark.parametrize("decision", [*ApprovalDecision, *RecoveryDecision])
def test_every_decision_can_be_said(decision: ApprovalDecision | RecoveryDecision) -> None:
    (read,) = decisions_in(resume({"decision": decision.value}))
    assert isinstance(read, AgUiDecision)
    assert read.decision.value == decision.value


def test_details_travel_along_and_nothing_else_does() -> None:
    content = {"decision": "modify", "modified_payload": {"amount": "3"}, "comment": "less"}
    (read,) = decisions_in(resume({**content, "result": "mine"}))
    assert isinstance(read, AgUiDecision)
    assert read.to_payload() == {"request_id": "run-1:a", **content}


def test_a_result_belongs_to_what_is_done_even_if_it_is_nothing() -> None:
    (read,) = decisions_in(resume({"decision": "done", "result": None}))
    assert isinstance(read, AgUiDecision)
    assert read.details == {"result": None}


def test_answers_to_actions_inside_travel_with_a_retry() -> None:
    actions = {"run/tool:buy#1/tool:pay#1": {"decision": "done", "result": 5}}
    (read,) = decisions_in(resume({"decision": "retry", "actions": actions}))
    assert isinstance(read, AgUiDecision)
    assert read.details == {"actions": actions}


def test_a_question_about_nested_tools_has_a_schema_for_each_answer_inside() -> None:
    inside = [
        {"action_id": "run/a", "allowed_decisions": ["retry", "done"]},
        {"action_id": "run/b", "allowed_decisions": []},
    ]
    paused = RunPausedEvent(
        AgentEventAttribution("clerk", "run-1", "run-1"),
        AgentStateReason.RECOVERY_REQUIRES_HITL,
        "Did it happen?",
        "run-1",
        approval_id="run-1:a",
        allowed_decisions=("retry", "done"),
        metadata={"inside": inside},
    )
    schema = interrupt_of(paused).response_schema
    assert schema is not None
    ((action_id, answer),) = schema["properties"]["actions"]["properties"].items()
    assert (action_id, answer["properties"]["decision"]["enum"]) == ("run/a", ["retry", "done"])


def test_several_answers_are_several_decisions() -> None:
    entries = [
        {"interruptId": each, "status": "resolved", "payload": {"decision": "reject"}}
        for each in ("r:a", "r:b")
    ]
    read = decisions_in(ag_ui_input(resume=entries))
    assert [each.request_id for each in read if isinstance(each, AgUiDecision)] == ["r:a", "r:b"]


@pytest.mark.parametrize("payload", [None, {}, {"decision": "cancel"}])
def test_an_abandoned_interrupt_cancels(payload: object) -> None:
    given = resume(payload, status="cancelled")
    assert decisions_in(given) == (AgUiDecision("run-1:a", ApprovalDecision.CANCEL),)


def test_the_same_entry_twice_is_one_decision() -> None:
    entry = {"interruptId": "run-1:a", "status": "resolved", "payload": {"decision": "approve"}}
    given = ag_ui_input(
        resume=[entry, entry],
        forwardedProps={"approvalDecision": {"decision": "approve", "request_id": "run-1:a"}},
    )
    assert decisions_in(given) == (AgUiDecision("run-1:a", ApprovalDecision.APPROVE),)


@pytest.mark.parametrize(("status", "is_cancelled"), [("resolved", False), ("cancelled", True)])
def test_a_pause_without_a_question_goes_on_or_is_given_up(status: str, is_cancelled: bool) -> None:
    given = resume(status=status, interrupt_id="pause:run-1")
    assert decisions_in(given) == (AgUiContinuation("run-1", is_cancelled),)


@pytest.mark.parametrize(
    "given",
    [
        ag_ui_input(),
        ag_ui_input(resume=[]),
        answered("no JSON"),
        answered([1, 2]),
        answered({"paid": 1}),
        answered("[" * 100_000),
        answered(APPROVED, after="Never mind. What is the time?"),
        ag_ui_input(forwardedProps={"approvalDecision": None}),
        ag_ui_input(forwardedProps=["approvalDecision"]),
    ],
)
def test_an_input_without_a_decision_carries_none(given: RunAgentInput) -> None:
    assert not carries_approval_decision(given)
    with pytest.raises(AgUiApprovalDecodeError, match="carries no decision"):
        decisions_in(given)


@pytest.mark.parametrize(
    ("given", "words"),
    [
        (resume(None), "has no answer in it"),
        (resume([True]), "has no answer in it"),
        (resume("sure"), "no known decision"),
        (resume({}), "no known decision"),
        (resume({"approved": 1}), "`approved` that is not true or false"),
        (resume({"approved": False, "decision": "approve"}), "answers in two ways"),
        (
            resume({"decision": "approve"}, status="cancelled"),
            "is cancelled, and its payload decides 'approve'",
        ),
        (resume({"decision": "APPROVE"}), "no known decision"),
        (resume({"decision": True}), "no known decision"),
        (resume({"decision": ["approve"]}), "no known decision"),
        (resume({"decision": "approve"}, interrupt_id=" "), "names no request"),
        (resume({"decision": "retry", "actions": ["pay"]}), "actions that are no object of answers"),
        (resume({"decision": "modify", "modified_payload": [1]}), "modified_payload that is no object"),
        (resume({"decision": "approve", "comment": 7}), "comment that is no text"),
        (answered({"decision": "approve", "request_id": "run-2:a"}), "decides about another request"),
        (forwarded("approve"), "is no object"),
        (forwarded({"decision": "approve"}), "names no request"),
        (forwarded({"decision": "approve", "request_id": 7}), "names no request"),
    ],
)
def test_what_cannot_be_read_decides_nothing(given: RunAgentInput, words: str) -> None:
    assert carries_approval_decision(given)
    with pytest.raises(AgUiApprovalDecodeError, match=words):
        decisions_in(given)


async def test_a_decision_is_queued_as_a_signal_of_the_run() -> None:
    signals = MemoryStore().signals
    (queued,) = await ingest_decision(answered(APPROVED), signals, "run-1")
    assert list(await signals.list_pending("run-1")) == [queued]
    assert queued.id.startswith("agui-approval:")
    assert (queued.kind, queued.payload) == (AgentSignalKind.APPROVAL_DECISION, APPROVED)


async def test_nothing_is_queued_where_one_of_several_cannot_be_read() -> None:
    signals = MemoryStore().signals
    with pytest.raises(AgUiApprovalDecodeError):
        await ingest_decision(answered(APPROVED, {"decision": "sure"}), signals, "run-1")
    assert list(await signals.list_pending("run-1")) == []

"""Asking a person about an unknown outcome: the four answers and the bad ones."""

from __future__ import annotations

import pytest

from pilotage.agent.decisions import (
    DecisionMalformed,
    DecisionMisdirected,
    DecisionNotAllowed,
    DecisionRefusal,
)
from pilotage.agent.recovery import AgentActionKind
from pilotage.agent.recovery_request import (
    AgentRecoveryRequest,
    RecoveryAnswer,
    RecoveryCancelled,
    RecoveryDecision,
    RecoveryDone,
    RecoveryFailed,
    RecoveryRetried,
    check_agent_recovery_decision,
    materialize_agent_recovery_decision_state,
    parse_agent_recovery_decision_signal,
)
from pilotage.agent.signals import AgentSignal, AgentSignalKind
from pilotage.agent.state import AgentSituation, AgentState
from pilotage.errors import AgentDefinitionError
from pilotage.jsonvalue import JsonValue

REQUEST = AgentRecoveryRequest(
    "q-1", "run-1", "pay#1", 1, "The process died after the payment began.", AgentActionKind.TOOL_CALL
)
WITHOUT_RETRY = AgentRecoveryRequest(
    "q-1",
    "run-1",
    "pay#1",
    1,
    "The process died after the payment began.",
    AgentActionKind.TOOL_CALL,
    allowed_decisions=(RecoveryDecision.DONE, RecoveryDecision.FAIL),
)


def answer(decision: JsonValue, **payload: JsonValue) -> AgentSignal:
    return AgentSignal(
        "s-1",
        "run-1",
        AgentSignalKind.APPROVAL_DECISION,
        {"request_id": "q-1", "decision": decision, **payload},
    )


ANSWERS = [
    (answer("retry"), RecoveryRetried("q-1", "pay#1", 2), AgentSituation.RUNNING, "recovery retried"),
    (
        answer("done", result={"receipt": 7}, comment="seen at the bank"),
        RecoveryDone("q-1", "pay#1", {"receipt": 7}, "seen at the bank"),
        AgentSituation.RUNNING,
        "recovery done",
    ),
    (
        answer("done", result=None),
        RecoveryDone("q-1", "pay#1", None),
        AgentSituation.RUNNING,
        "recovery done",
    ),
    (answer("fail"), RecoveryFailed("q-1", "pay#1"), AgentSituation.FAILED, None),
    (
        answer("cancel"),
        RecoveryCancelled("q-1", "pay#1"),
        AgentSituation.CANCELLING,
        "recovery cancellation requested",
    ),
]


@pytest.mark.parametrize(("signal", "read", "situation", "activity"), ANSWERS)
def test_each_answer_is_read_and_moves_the_run(
    signal: AgentSignal, read: RecoveryAnswer, situation: AgentSituation, activity: str | None
) -> None:
    assert parse_agent_recovery_decision_signal(signal, request=REQUEST) == read
    assert check_agent_recovery_decision(REQUEST, signal) == read
    waiting = AgentState("run-1", "Bank", *AgentSituation.RECOVERY_REQUIRED.value, metadata={"kept": True})
    state = materialize_agent_recovery_decision_state(waiting, read)
    assert (state.status, state.transition, state.reason) == situation.value
    assert (state.current_activity, state.metadata) == (activity, {"kept": True})


@pytest.mark.parametrize(
    ("request_", "signal", "refusal"),
    [
        (
            REQUEST,
            AgentSignal("s-1", "run-1", AgentSignalKind.RESUME),
            DecisionMisdirected("Signal 's-1' is of kind 'resume'. Send an 'approval_decision'."),
        ),
        (
            REQUEST,
            answer("approve"),
            DecisionMalformed(
                "Signal 's-1' has the decision 'approve'. Use one of: retry, done, fail, cancel."
            ),
        ),
        (
            REQUEST,
            answer("done"),
            DecisionMalformed("Signal 's-1' decides 'done' without a result. Add 'result'; null is one."),
        ),
        (
            REQUEST,
            answer("retry", result="paid by hand"),
            DecisionMalformed(
                "Signal 's-1' decides 'retry' with the field 'result', which has no effect there. Leave it out."
            ),
        ),
        (
            REQUEST,
            answer("fail", modified_payload={"amount": 1}),
            DecisionMalformed(
                "Signal 's-1' decides 'fail' with the field 'modified_payload', which has no effect there. "
                "Leave it out."
            ),
        ),
        (
            WITHOUT_RETRY,
            answer("retry"),
            DecisionNotAllowed("Signal 's-1' decides 'retry', which is not offered. Use one of: done, fail."),
        ),
    ],
)
def test_a_bad_answer_is_refused_with_a_reason_for_its_sender(
    request_: AgentRecoveryRequest, signal: AgentSignal, refusal: DecisionRefusal
) -> None:
    assert check_agent_recovery_decision(request_, signal) == refusal
    with pytest.raises(AgentDefinitionError) as caught:
        parse_agent_recovery_decision_signal(signal, request=request_)
    assert str(caught.value) == refusal.reason


def test_a_request_shows_everything_as_json() -> None:
    request = AgentRecoveryRequest(
        "q-1",
        "run-1",
        "pay#1",
        2,
        "Unknown outcome.",
        AgentActionKind.TOOL_CALL,
        action_name="pay",
        arguments={"to": "***1234"},
        late_outcomes=({"receipt": 7},),
    )
    assert request.to_metadata() == {
        "id": "q-1",
        "agent_state_id": "run-1",
        "action_id": "pay#1",
        "attempt": 2,
        "reason": "Unknown outcome.",
        "action_kind": "tool_call",
        "action_name": "pay",
        "arguments": {"to": "***1234"},
        "late_outcomes": [{"receipt": 7}],
        "allowed_decisions": ["retry", "done", "fail", "cancel"],
        "metadata": {},
        "inside": [],
        "begun": None,
    }


@pytest.mark.parametrize(
    "situation", [s for s in AgentSituation if s is not AgentSituation.RECOVERY_REQUIRED]
)
def test_a_run_that_does_not_wait_for_an_answer_takes_none(situation: AgentSituation) -> None:
    state = AgentState("run-1", "Bank", *situation.value)
    with pytest.raises(AgentDefinitionError, match="waits for no recovery decision"):
        materialize_agent_recovery_decision_state(state, RecoveryFailed("q-1", "pay#1"))

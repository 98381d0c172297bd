"""Runs, results, events, questions and answers for programs, in the words of the HTTP routes. Pure."""

from __future__ import annotations

from pilotage.agent.approval import AgentApprovalRequest
from pilotage.agent.events import AgentEvent
from pilotage.agent.evidence import AgentEvidence
from pilotage.agent.ports.leases import ClaimRecord
from pilotage.agent.recovery_request import AgentRecoveryRequest, OpenAction
from pilotage.agent.run_values import RunResult
from pilotage.agent.state import AgentState
from pilotage.jsonvalue import JsonObject, JsonValue, to_json_value
from pilotage.runtime.events.event_record import encode_event
from pilotage.runtime.open_questions import Question, StoredAnswer
from pilotage.runtime.reading import RunOutline

_RUN = "id agent_type status transition reason current_activity awaits metadata created_at updated_at wake_at"
_RESULT = "output error interruption_reason turns usage spent artifacts"
_EVIDENCE = "id kind summary payload digest reference created_at"
_CLAIMS = "count last_claim problem next_claim"
_TERMS = "expires_at requested_by approver_scope policy_version"


def run_json(state: AgentState) -> JsonObject:
    """Return the state of a run."""
    return _picked(state, _RUN)


def listed_json(state: AgentState, outline: RunOutline) -> JsonObject:
    """Return the state of a run with what a list says beside it."""
    return {
        **run_json(state),
        "input": outline.input,
        "conversation_id": outline.conversation,
        "is_driven": outline.is_driven,
    }


def result_json(result: RunResult) -> JsonObject:
    """Return the result of a run."""
    return {"run": run_json(result.state), **_picked(result, _RESULT)}


def evidence_json(evidence: AgentEvidence) -> JsonObject:
    """Return one record of evidence."""
    return _picked(evidence, _EVIDENCE)


def claims_json(claims: ClaimRecord) -> JsonObject:
    """Return the claims of a run without progress."""
    return _picked(claims, _CLAIMS)


def event_json(event: AgentEvent, cursor: str | None) -> JsonObject:
    """Return an event with its attribution and the cursor after it."""
    by = event.attribution
    return {
        "cursor": cursor,
        "run_id": by.run_id,
        "agent": by.agent_id,
        "parent_run_id": by.parent_run_id,
        **encode_event(event, by),
    }


def question_json(question: Question) -> JsonObject:
    """Return a question."""
    own: dict[str, JsonValue]
    match question:
        case AgentApprovalRequest():
            own = {"kind": "approval", "action": question.action_ref, **_picked(question, _TERMS)}
            own |= {"late_outcomes": [], "inside": [], "begun": None}
        case AgentRecoveryRequest():
            own = {"kind": "recovery", "action": question.action_name or question.action_id}
            own |= {"late_outcomes": list(question.late_outcomes), **dict.fromkeys(_TERMS.split())}
            own["inside"] = [_open_action_json(each) for each in question.inside]
            own["begun"] = to_json_value(question.begun)
    return {
        "id": question.id,
        "run_id": question.agent_state_id,
        "prompt": question.prompt,
        "reason": question.reason,
        "metadata": question.metadata,
        "arguments": question.arguments,
        "allowed_decisions": [each.value for each in question.allowed_decisions],
        "attempt": question.attempt,
        **own,
    }


def _open_action_json(action: OpenAction) -> JsonObject:
    return {
        "action_id": action.action_id,
        "action": action.name,
        "arguments": action.arguments,
        "allowed_decisions": [each.value for each in action.allowed_decisions],
        "attempt": action.attempt,
    }


def answer_json(answer: StoredAnswer) -> JsonObject:
    """Return a stored answer that waits for an owner of the run."""
    return {
        "request_id": answer.question.id,
        "run_id": answer.question.agent_state_id,
        "decision": answer.decision,
        "decided_by": answer.decided_by,
        "at": to_json_value(answer.at),
    }


def _picked(value: object, names: str) -> dict[str, JsonValue]:
    return {name: to_json_value(getattr(value, name)) for name in names.split()}

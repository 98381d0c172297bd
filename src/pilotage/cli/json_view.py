"""Events, runs of lists, claims and answers for programs; everything else is a view of `pilotage.inbound`. Pure."""

from __future__ import annotations

from pydantic import BaseModel

from pilotage.agent.events import AgentEvent
from pilotage.agent.ports.leases import ClaimRecord
from pilotage.agent.state import AgentState
from pilotage.inbound.views import RunView
from pilotage.jsonvalue import JsonObject, as_object, to_json_value
from pilotage.runtime.events.event_record import encode_event
from pilotage.runtime.open_questions import StoredAnswer
from pilotage.runtime.reading import RunOutline

_CLAIMS = "count last_claim problem next_claim"


def view_json(view: BaseModel) -> JsonObject:
    """Return what the HTTP routes show, as JSON."""
    return as_object(to_json_value(view.model_dump()))


def listed_json(state: AgentState, outline: RunOutline) -> JsonObject:
    """Return the state of a run with what a list says beside it."""
    return {
        **view_json(RunView.of(state)),
        "input": outline.input,
        "conversation_id": outline.conversation,
        "is_driven": outline.is_driven,
    }


def claims_json(claims: ClaimRecord) -> JsonObject:
    """Return the claims of a run without progress."""
    return {name: to_json_value(getattr(claims, name)) for name in _CLAIMS.split()}


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


def answer_json(answer: StoredAnswer) -> JsonObject:
    """Return a stored answer that waits for an owner of the run."""
    return {
        "request_id": answer.question.id,
        "run_id": answer.question.agent_state_id,
        "decision": answer.decision,
        "decided_by": answer.decided_by,
        "at": to_json_value(answer.at),
    }

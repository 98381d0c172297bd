"""Runs, results and events for programs, in the words of the HTTP routes. Pure."""

from __future__ import annotations

from pilotage.agent.events import AgentEvent
from pilotage.agent.evidence import AgentEvidence
from pilotage.agent.ports.leases import ClaimRecord
from pilotage.agent.run_values import RunResult
from pilotage.agent.state import AgentState
from pilotage.jsonvalue import JsonObject, JsonValue, to_json_value
from pilotage.runtime.events.event_record import encode_event

_RUN = "id agent_type status transition reason current_activity awaits metadata created_at updated_at wake_at"
_RESULT = "output error interruption_reason turns usage spent artifacts"
_EVIDENCE = "id kind summary payload digest reference created_at"


def run_json(state: AgentState) -> JsonObject:
    """How a run stands."""
    return _picked(state, _RUN)


def result_json(result: RunResult) -> JsonObject:
    """What a run came to."""
    return {"run": run_json(result.state), **_picked(result, _RESULT)}


def evidence_json(evidence: AgentEvidence) -> JsonObject:
    """One record of what a run did."""
    return _picked(evidence, _EVIDENCE)


def event_json(event: AgentEvent, cursor: str | None) -> JsonObject:
    """An event with whose it is, and the cursor behind it."""
    by = event.attribution
    return {
        "cursor": cursor,
        "run_id": by.run_id,
        "agent": by.agent_id,
        "parent_run_id": by.parent_run_id,
        **encode_event(event, by),
    }


def _picked(value: object, names: str) -> dict[str, JsonValue]:
    return {name: to_json_value(getattr(value, name)) for name in names.split()}


def claims_json(claims: ClaimRecord) -> JsonObject:
    """The claims of a run without progress."""
    return {
        "count": claims.count,
        "last_claim": None if claims.last_claim is None else claims.last_claim.isoformat(),
        "problem": claims.problem,
        "next_claim": None if claims.next_claim is None else claims.next_claim.isoformat(),
    }

"""The record of a run as lines: one for each action that came to its end, in order. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from pilotage.agent import AgentEvidence
from pilotage.jsonvalue import JsonObject

_WHAT_IT_DOES = {
    "idempotent": "may be repeated",
    "conditionally_idempotent": "is looked up by its key, not repeated",
    "non_idempotent": "is never repeated unasked",
    "unknown": "is never repeated unasked",
}


def timeline(evidence: Sequence[AgentEvidence]) -> Iterator[str]:
    """A line for each action: what kind it is, its name, and how it came out or what a crash would have meant."""
    actions = [each.payload for each in evidence if "action_id" in each.payload]
    done = [payload for payload in actions if payload.get("stage") == "after"]
    for number, payload in enumerate(done, start=1):
        kind = str(payload.get("action_kind")).replace("_", " ")
        name = _name(str(payload.get("action_id")))
        yield f"{number:>3}  {kind:<14} {name:<26} {_about(payload)}".rstrip()


def _name(action: str) -> str:
    """`run/tool:git.commit#1/approval` is about git.commit."""
    first = action.split("/")[1].rpartition("#")[0]
    return first.partition(":")[2] or first


def _about(payload: JsonObject) -> str:
    if payload.get("action_kind") == "approval_wait":
        return str(payload.get("decision", ""))
    if "error" in payload:
        return "failed"
    return _WHAT_IT_DOES.get(str(payload.get("idempotency")), "")

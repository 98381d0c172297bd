"""The record of a run as lines: its exceptional actions, and how many others there are. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from pilotage.agent import AgentEvidence
from pilotage.jsonvalue import JsonObject

_EXCEPTIONAL = {
    "conditionally_idempotent": "found by its key after the crash, not repeated",
    "non_idempotent": "never repeated without a person's word",
    "unknown": "never repeated without a person's word",
}


def timeline(evidence: Sequence[AgentEvidence]) -> Iterator[str]:
    """Return a line for each action that a crash must not repeat, then a line that counts the others."""
    actions = [each.payload for each in evidence if "action_id" in each.payload]
    done = [payload for payload in actions if payload.get("stage") == "after"]
    approved = sum(payload.get("action_kind") == "approval_wait" for payload in done)
    shown = [payload for payload in done if _about(payload) is not None]
    for payload in shown:
        yield f"{_name(str(payload.get('action_id'))):<26} {_about(payload)}"
    yield f"{approved} approvals, and {len(done) - len(shown) - approved} actions that may be repeated"


def _name(action: str) -> str:
    """`run/tool:git.commit#1/approval` is about git.commit."""
    first = action.split("/")[1].rpartition("#")[0]
    return first.partition(":")[2] or first


def _about(payload: JsonObject) -> str | None:
    """Return what a crash means for an action; None for one that may be repeated, or a wait for a person."""
    if payload.get("action_kind") == "approval_wait":
        return None
    return _EXCEPTIONAL.get(str(payload.get("idempotency")))

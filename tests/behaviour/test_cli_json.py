"""What programs get: the JSON of the commands, whole, with ids and times made steady."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest
from tests.behaviour.till import Called, Till

_TIME = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d+\+00:00")
_DIGEST = re.compile(r"\b[0-9a-f]{64}\b")
_REQUEST = re.compile(r"RUN:[0-9a-f]{32}")
_COUNTS = ("input", "output", "total", "cached", "cache_written", "reasoning", "other")

WAITING = {
    "id": "RUN",
    "agent_type": "desk",
    "status": "interrupted",
    "transition": "waiting_approval",
    "reason": "approval_required",
    "current_activity": "Approve the call of tool 'pay'?",
    "awaits": None,
    "metadata": {"paused_at": "TIME"},
    "created_at": "TIME",
    "updated_at": "TIME",
    "wake_at": None,
    "divergence": None,
}
QUESTION = {
    "id": "REQUEST",
    "run_id": "RUN",
    "kind": "approval",
    "prompt": "Approve the call of tool 'pay'?",
    "reason": None,
    "action": "till.Payments:pay",
    "arguments": {"amount": 5, "to": "***4711"},
    "allowed_decisions": ["approve", "reject", "modify", "defer", "cancel"],
    "attempt": 1,
    "expires_at": None,
    "requested_by": "ada",
    "approver_scope": "any principal of the tenant",
    "policy_version": "built-in/1",
    "late_outcomes": [],
    "inside": [],
    "begun": None,
}


@pytest.fixture
def till(tmp_path: Path) -> Till:
    return Till(tmp_path)


def steadied(called: Called, run: str) -> list[Any]:
    """Every line of a command's answer, without what is different every time."""
    assert called.out.isascii()
    text = _TIME.sub("TIME", called.out.replace(run, "RUN"))
    text = _DIGEST.sub("DIGEST", _REQUEST.sub("REQUEST", text))
    return [json.loads(each) for each in text.splitlines()]


def test_a_list(till: Till) -> None:
    run = till.waiting_run()
    outline = {"input": "pay to DE-0815-4711 amount 5", "conversation_id": None, "is_driven": None}
    listed = [{"runs": [WAITING | outline], "cursor": None, "damaged": []}]
    assert steadied(till.call("runs", "list", "--json"), run) == listed


def test_a_page(till: Till) -> None:
    run = till.waiting_run()
    (page,) = steadied(till.call("runs", "show", run, "--json"), run)
    evidence = page.pop("evidence")
    metadata = page["questions"][0].pop("metadata")
    assert metadata["tool_identity"] == "till.Payments:pay"
    assert page == {
        "run": WAITING,
        "output": None,
        "error": None,
        "interruption_reason": None,
        "turns": 0,
        "usage": {f"{count}_tokens": None for count in _COUNTS},
        "spent": {"steps": 0, "tool_calls": 0, "tokens": 0, "cost": "0"},
        "artifacts": {},
        "questions": [QUESTION],
        "waiting_answers": [],
    }
    assert [set(each) for each in evidence] == [
        {"id", "kind", "summary", "payload", "digest", "reference", "created_at"}
    ] * len(evidence)
    assert [(each["kind"], each["payload"]["stage"]) for each in evidence] == [
        ("model", "after"),
        ("approval", "before"),
    ]


def test_answers_and_ends(till: Till) -> None:
    run = till.waiting_run()
    assert steadied(till.call("runs", "approve", run, "--json"), run) == [
        {"request_id": "REQUEST", "decision": "approve", "is_waiting": True, "run": WAITING}
    ]
    (verified,) = steadied(till.call("runs", "verify", run, "--json"), run)
    assert verified.pop("rows") > 1
    assert verified == {"run_id": "RUN", "verified": True}
    (cancelled,) = steadied(till.call("runs", "cancel", run, "--json"), run)
    assert (cancelled["cancelled"], cancelled["run"]["status"]) == (True, "cancelled")


def test_a_run_that_is_followed(till: Till) -> None:
    called = till.call("run", "Parrot", "good day", "--json")
    run = called.lines[0]["run_id"]
    by = {"run_id": "RUN", "agent": "parrot", "parent_run_id": None, "cursor": None}
    *events, last = steadied(called, run)
    assert events == [
        {**by, "kind": "run_started"},
        {**by, "kind": "message_delta", "message_id": "RUN:message", "delta": "good day"},
        {**by, "kind": "run_finished", "metadata": events[-1]["metadata"]},
    ]
    assert events[-1]["metadata"]["output"] == "good day"
    assert (last["kind"], last["output"], last["questions"]) == ("result", "good day", [])


def test_a_resumed_run_has_cursors(till: Till) -> None:
    run = till.waiting_run()
    till.call("runs", "approve", run, "--no-resume")
    *events, last = steadied(till.call("runs", "resume", run, "--json"), run)
    assert [each["kind"] for each in events][:2] == ["run_started", "tool_call_result"]
    assert all(re.fullmatch(r"\d+\.\d+\.\d+", each["cursor"]) for each in events)
    assert last["run"]["status"] == "completed"

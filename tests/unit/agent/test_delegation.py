"""Delegation: budgets that only shrink, results by return policy, records for the parent."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest

from pilotage.agent.delegation import (
    AgentDelegateTarget,
    AgentTeammate,
    DelegationBudget,
    DelegationPacket,
    DelegationResult,
    DelegationReturnPolicy,
    DelegationToolResult,
)
from pilotage.agent.evidence import AgentEvidence, AgentEvidenceKind
from pilotage.agent.yields import AgentYieldKind, Evidence
from pilotage.jsonvalue import JsonObject

EARLY, LATE = datetime(2026, 1, 1, tzinfo=UTC), datetime(2026, 1, 2, tzinfo=UTC)
RESULT = DelegationResult(
    "r-1", "p-1", AgentDelegateTarget("Writer"), "A page.", {"pages": 1}, ("e-1",), {"k": "v"}, EARLY
)


@pytest.mark.parametrize(
    ("own", "parent", "capped"),
    [
        (DelegationBudget(), DelegationBudget(), DelegationBudget()),
        (DelegationBudget(), DelegationBudget(max_steps=3), DelegationBudget(max_steps=3)),
        (DelegationBudget(max_steps=2), DelegationBudget(max_steps=3), DelegationBudget(max_steps=2)),
        (DelegationBudget(max_steps=9), DelegationBudget(max_steps=3), DelegationBudget(max_steps=3)),
        (DelegationBudget(max_tokens=9), DelegationBudget(), DelegationBudget(max_tokens=9)),
        (
            DelegationBudget(max_tokens=9, timeout_seconds=1.5, deadline_at=LATE),
            DelegationBudget(max_tokens=5, timeout_seconds=2.0, deadline_at=EARLY),
            DelegationBudget(max_tokens=5, timeout_seconds=1.5, deadline_at=EARLY),
        ),
    ],
)
def test_a_child_never_gets_more_than_its_parent(
    own: DelegationBudget, parent: DelegationBudget, capped: DelegationBudget
) -> None:
    assert own.capped_by(parent) == capped
    assert own.within(parent) is (own == capped)
    assert capped.within(parent)


def test_a_capped_budget_keeps_its_own_metadata() -> None:
    own = DelegationBudget(metadata={"team": "a"})
    assert own.capped_by(DelegationBudget(max_steps=1, metadata={"team": "b"})).metadata == {"team": "a"}


@pytest.mark.parametrize(
    ("policy", "returned"),
    [
        (DelegationReturnPolicy.SUMMARY, {"summary": "A page."}),
        (DelegationReturnPolicy.EVIDENCE_REFS, {"evidence_refs": ("e-1",)}),
        (DelegationReturnPolicy.SUMMARY_AND_EVIDENCE, {"summary": "A page.", "evidence_refs": ("e-1",)}),
        (DelegationReturnPolicy.FINAL_OUTPUT, {"output": {"pages": 1}}),
    ],
)
def test_the_parent_sees_what_the_return_policy_allows(
    policy: DelegationReturnPolicy, returned: JsonObject
) -> None:
    assert RESULT.returned_under(policy) == returned


def test_a_result_is_recorded_in_the_parents_run() -> None:
    evidence = RESULT.to_parent_evidence(evidence_id="e-2", parent_agent_state_id="run-1")
    assert evidence == AgentEvidence(
        "e-2",
        "run-1",
        AgentEvidenceKind.DELEGATION,
        {
            "delegation_id": "r-1",
            "packet_id": "p-1",
            "target_agent_type": "Writer",
            "evidence_refs": ("e-1",),
            "metadata": {"k": "v"},
            "output": {"pages": 1},
        },
        "A page.",
        created_at=EARLY,
    )


def test_a_record_names_the_agent_and_leaves_out_an_output_that_is_not_there() -> None:
    result = DelegationResult("r-1", "p-1", AgentDelegateTarget("Writer", "bob"), "Nothing.")
    payload = result.to_parent_evidence(evidence_id="e-2", parent_agent_state_id="run-1").payload
    assert payload["target_agent_name"] == "bob"
    assert "output" not in payload


def test_a_result_is_an_evidence_item_of_the_parents_stream() -> None:
    item = RESULT.to_parent_yield(evidence_id="e-2", parent_agent_state_id="run-1")
    assert item.kind is AgentYieldKind.EVIDENCE
    assert isinstance(item.payload, Evidence)
    assert item.payload.evidence == RESULT.to_parent_evidence(
        evidence_id="e-2", parent_agent_state_id="run-1"
    )
    assert item.payload.metadata == {"delegation_id": "r-1", "packet_id": "p-1"}


def test_a_packet_has_defaults_that_grant_nothing() -> None:
    packet = DelegationPacket("p-1", "run-1", AgentDelegateTarget("Writer"), {"topic": "tea"})
    assert packet.allowed_capabilities == ()
    assert packet.context.evidence_refs == ()
    assert packet.return_policy is DelegationReturnPolicy.SUMMARY_AND_EVIDENCE
    assert packet.budget == DelegationBudget()


def test_a_teammate_is_a_pod_or_an_agent_card() -> None:
    assert AgentTeammate("writer", pod=DelegationResult).card_url is None
    assert AgentTeammate("writer", card_url="https://example.org/card").pod is None


def test_a_tool_result_needs_only_a_summary() -> None:
    assert DelegationToolResult("Done.").events == ()

"""Delegation: a bounded task for another agent, and what comes back.

Pure values. A packet says everything the child gets: task, context, limits, capabilities. A child never
gets more than its parent has; `DelegationBudget.capped_by` is that rule for budgets.
"""

from __future__ import annotations

from dataclasses import field, replace
from datetime import datetime
from enum import StrEnum
from typing import TypeVar, assert_never

from pilotage.agent.events import AgentEvent
from pilotage.agent.evidence import AgentEvidence, AgentEvidenceKind
from pilotage.agent.yields import AgentYield, Evidence
from pilotage.checks import reject_blank, reject_naive, reject_not_positive
from pilotage.errors import AgentDefinitionError
from pilotage.jsonvalue import JsonObject, JsonValue, empty_object
from pilotage.values import value

Limit = TypeVar("Limit", int, float, datetime)
_IN_THE_EVIDENCE = "(in the evidence)"


class DelegationReturnPolicy(StrEnum):
    """The part of a child's result that the parent's model gets to see."""

    SUMMARY = "summary"
    EVIDENCE_REFS = "evidence_refs"
    SUMMARY_AND_EVIDENCE = "summary_and_evidence"
    FINAL_OUTPUT = "final_output"


@value
class AgentDelegateTarget:
    """The agent a task is for."""

    agent_type: str
    agent_name: str | None = None
    metadata: JsonObject = field(default_factory=empty_object)

    def __post_init__(self) -> None:
        reject_blank(self, agent_type=self.agent_type, agent_name=self.agent_name)


@value
class AgentTeammate:
    """An agent that others may delegate to: a pod of this application, or one with an agent card."""

    name: str
    pod: type[object] | None = None
    card_url: str | None = None

    def __post_init__(self) -> None:
        reject_blank(self, name=self.name, card_url=self.card_url)
        if (self.pod is None) == (self.card_url is None):
            given = "neither pod nor card_url" if self.pod is None else "both pod and card_url"
            raise AgentDefinitionError(f"AgentTeammate {self.name!r} has {given}. Give it exactly one.")


@value
class DelegationBudget:
    """The limits of a child's spending; None is no limit of its own. The deadline is absolute, so waiting counts."""

    max_steps: int | None = None
    max_tokens: int | None = None
    timeout_seconds: float | None = None
    deadline_at: datetime | None = None
    metadata: JsonObject = field(default_factory=empty_object)

    def __post_init__(self) -> None:
        reject_not_positive(
            self,
            max_steps=self.max_steps,
            max_tokens=self.max_tokens,
            timeout_seconds=self.timeout_seconds,
        )
        reject_naive(self, deadline_at=self.deadline_at)

    def within(self, parent: DelegationBudget) -> bool:
        """Return whether no limit of this budget exceeds the parent's."""
        return self == self.capped_by(parent)

    def capped_by(self, parent: DelegationBudget) -> DelegationBudget:
        """Return this budget with each limit cut to the parent's; where one of them has none, the other's holds."""
        return replace(
            self,
            max_steps=_tighter(self.max_steps, parent.max_steps),
            max_tokens=_tighter(self.max_tokens, parent.max_tokens),
            timeout_seconds=_tighter(self.timeout_seconds, parent.timeout_seconds),
            deadline_at=_tighter(self.deadline_at, parent.deadline_at),
        )


def _tighter(own: Limit | None, parents: Limit | None) -> Limit | None:
    if own is None or parents is None:
        return parents if own is None else own
    return min(own, parents)


@value
class DelegationContextSlice:
    """The part of the parent's context that the child gets."""

    summary: str | None = None
    evidence_refs: tuple[str, ...] = ()
    manifest_ref: str | None = None
    metadata: JsonObject = field(default_factory=empty_object)

    def __post_init__(self) -> None:
        reject_blank(self, summary=self.summary, manifest_ref=self.manifest_ref)


@value
class DelegationExpectedOutput:
    """The output that the parent expects, in words and as a JSON schema."""

    description: str | None = None
    schema: JsonObject = field(default_factory=empty_object)
    metadata: JsonObject = field(default_factory=empty_object)

    def __post_init__(self) -> None:
        reject_blank(self, description=self.description)


@value
class DelegationPacket:
    """One task for one agent, with everything it may use."""

    id: str
    parent_agent_state_id: str
    target: AgentDelegateTarget
    task: JsonObject
    context: DelegationContextSlice = field(default_factory=DelegationContextSlice)
    constraints: tuple[str, ...] = ()
    expected_output: DelegationExpectedOutput = field(default_factory=DelegationExpectedOutput)
    budget: DelegationBudget = field(default_factory=DelegationBudget)
    allowed_capabilities: tuple[str, ...] = ()
    return_policy: DelegationReturnPolicy = DelegationReturnPolicy.SUMMARY_AND_EVIDENCE
    metadata: JsonObject = field(default_factory=empty_object)

    def __post_init__(self) -> None:
        reject_blank(self, id=self.id, parent_agent_state_id=self.parent_agent_state_id)


@value
class DelegationResult:
    """The result of a child run."""

    id: str
    packet_id: str
    target: AgentDelegateTarget
    summary: str
    output: JsonValue = None
    evidence_refs: tuple[str, ...] = ()
    metadata: JsonObject = field(default_factory=empty_object)
    created_at: datetime | None = None

    def __post_init__(self) -> None:
        reject_blank(self, id=self.id, packet_id=self.packet_id, summary=self.summary)
        reject_naive(self, created_at=self.created_at)

    def returned_under(self, policy: DelegationReturnPolicy) -> JsonObject:
        """Return what the parent's model gets to see of this result."""
        match policy:
            case DelegationReturnPolicy.SUMMARY:
                return {"summary": self.summary}
            case DelegationReturnPolicy.EVIDENCE_REFS:
                return {"evidence_refs": self.evidence_refs}
            case DelegationReturnPolicy.SUMMARY_AND_EVIDENCE:
                return {"summary": self.summary, "evidence_refs": self.evidence_refs}
            case DelegationReturnPolicy.FINAL_OUTPUT:
                return {"output": self.output}
            case _:
                assert_never(policy)

    def limited_to(self, policy: DelegationReturnPolicy) -> DelegationResult:
        """Return this result with the parts that a policy allows."""
        match policy:
            case DelegationReturnPolicy.SUMMARY:
                return replace(self, output=None, evidence_refs=())
            case DelegationReturnPolicy.EVIDENCE_REFS:
                return replace(self, output=None, summary=_IN_THE_EVIDENCE)
            case DelegationReturnPolicy.SUMMARY_AND_EVIDENCE:
                return replace(self, output=None)
            case DelegationReturnPolicy.FINAL_OUTPUT:
                return replace(self, evidence_refs=())
            case _:
                assert_never(policy)

    def to_parent_evidence(self, *, evidence_id: str, parent_agent_state_id: str) -> AgentEvidence:
        """Return the record of the delegation in the parent's run."""
        reject_blank(
            "DelegationResult.to_parent_evidence",
            evidence_id=evidence_id,
            parent_agent_state_id=parent_agent_state_id,
        )
        payload: dict[str, JsonValue] = {
            "delegation_id": self.id,
            "packet_id": self.packet_id,
            "target_agent_type": self.target.agent_type,
            "evidence_refs": self.evidence_refs,
            "metadata": self.metadata,
        }
        if self.target.agent_name is not None:
            payload["target_agent_name"] = self.target.agent_name
        if self.output is not None:
            payload["output"] = self.output
        return AgentEvidence(
            evidence_id,
            parent_agent_state_id,
            AgentEvidenceKind.DELEGATION,
            payload,
            self.summary,
            created_at=self.created_at,
        )

    def to_parent_yield(
        self, *, evidence_id: str, parent_agent_state_id: str
    ) -> AgentYield[DelegationResult]:
        """Return the record as an item of the parent's stream."""
        evidence = self.to_parent_evidence(
            evidence_id=evidence_id, parent_agent_state_id=parent_agent_state_id
        )
        return Evidence(evidence, {"delegation_id": self.id, "packet_id": self.packet_id})


@value
class DelegationToolResult:
    """A delegation made as a tool call: the answer for the parent's model and what the child streamed."""

    summary: str
    output: JsonValue = None
    events: tuple[AgentEvent, ...] = ()
    metadata: JsonObject = field(default_factory=empty_object)

    def __post_init__(self) -> None:
        reject_blank(self, summary=self.summary)

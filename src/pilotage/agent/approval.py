"""Approval: the question that a run puts to a person before it does something that matters.

Pure. A request shows the guarded arguments and is bound to exactly one attempt of one call of one tool with
these arguments, under terms: its cause, its approvers, its policy. `covers` and `is_bound_to` are asked
again when the call starts. Reading the answer is in `decisions`.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import field, replace
from datetime import datetime
from enum import StrEnum
from typing import Never

from pilotage.agent.signals import ApprovalDecision
from pilotage.agent.state import AgentSituation, AgentState
from pilotage.agent.tools.catalog import AgentToolDescriptor
from pilotage.agent.tools.described import described_version
from pilotage.agent.tools.metadata import ToolRisk, filled_prompt
from pilotage.agent.yields import AgentYield, Approval
from pilotage.checks import reject_blank, reject_empty, reject_naive, reject_not_positive
from pilotage.jsonvalue import JsonObject, JsonValue, empty_object, json_digest, object_or_empty
from pilotage.safety.guard import ExposurePolicy, guard_json_value
from pilotage.values import value

DEFAULT_APPROVAL_DECISIONS = tuple(ApprovalDecision)


class AgentApprovalBoundaryKind(StrEnum):
    """The kind of an action that a question is about."""

    MODEL_CALL = "model_call"
    TOOL_INVOCATION = "tool_invocation"
    DELEGATION = "delegation"
    FINAL_PUBLICATION = "final_publication"
    EXTERNAL_SIDE_EFFECT = "external_side_effect"
    CONTEXT_TRANSFORMATION = "context_transformation"
    CANCELLATION_RESUME = "cancellation_resume"


class AgentApprovalPlanAction(StrEnum):
    """Whether to go on or to ask first."""

    PROCEED = "proceed"
    WAIT_FOR_APPROVAL = "wait_for_approval"


ANY_PRINCIPAL = "any principal of the tenant"
"""The default scope of approvers."""
BUILT_IN_POLICY = "built-in/1"
"""The version of the policy of an application without an approval handler that declares one."""


@value
class ApprovalTerms:
    """The principal that caused a question, the ones that may answer it, and the version of its policy."""

    requested_by: str | None = None
    approver_scope: str = ANY_PRINCIPAL
    policy_version: str = BUILT_IN_POLICY

    def __post_init__(self) -> None:
        reject_blank(self, requested_by=self.requested_by, approver_scope=self.approver_scope)
        reject_blank(self, policy_version=self.policy_version)


@value
class AgentApprovalRequest:
    """One question to a person: what would be done, how risky it is, which answers are possible.

    `arguments` are guarded, for people to see; `argument_digest` stands for the real ones. `binding` is the digest of
    everything that an approval is bound to; questions of earlier versions have none.
    """

    id: str
    agent_state_id: str
    boundary: AgentApprovalBoundaryKind
    prompt: str
    risk: ToolRisk
    action_ref: str
    allowed_decisions: tuple[ApprovalDecision, ...] = DEFAULT_APPROVAL_DECISIONS
    metadata: JsonObject = field(default_factory=empty_object)
    arguments: JsonObject = field(default_factory=empty_object)
    argument_digest: str | None = None
    tool_digest: str | None = None
    attempt: int = 1
    call_id: str | None = None
    expires_at: datetime | None = None
    requested_by: str | None = None
    approver_scope: str | None = None
    policy_version: str | None = None
    binding: str | None = None

    def __post_init__(self) -> None:
        reject_blank(self, id=self.id, agent_state_id=self.agent_state_id, prompt=self.prompt)
        reject_blank(self, action_ref=self.action_ref, argument_digest=self.argument_digest)
        reject_blank(self, tool_digest=self.tool_digest, call_id=self.call_id, requested_by=self.requested_by)
        reject_blank(self, approver_scope=self.approver_scope, policy_version=self.policy_version)
        reject_empty(self, allowed_decisions=self.allowed_decisions)
        reject_not_positive(self, attempt=self.attempt)
        reject_naive(self, expires_at=self.expires_at)

    @classmethod
    def from_tool_descriptor(
        cls,
        *,
        approval_id: str,
        agent_state_id: str,
        descriptor: AgentToolDescriptor,
        prompt: str | None = None,
        call_id: str | None = None,
        metadata: JsonObject | None = None,
        action_ref: str | None = None,
        arguments: JsonObject | None = None,
        attempt: int = 1,
        expires_at: datetime | None = None,
        requested_by: str | None = None,
        policy: ExposurePolicy | None = None,
    ) -> AgentApprovalRequest:
        """Return the question about one call of a tool; without arguments it cannot be bound to any."""
        details: dict[str, JsonValue] = {
            "tool_identity": descriptor.identity.key,
            "tool_schema_name": descriptor.schema.name,
            "tool_name": descriptor.name,
            "approval_requirement": descriptor.metadata.approval.value,
            "risk_axes": [axis.value for axis in descriptor.metadata.risk.axes],
            "metadata": metadata or {},
        }
        if call_id is not None:
            details["call_id"] = call_id
        shown = _shown(arguments or {}, descriptor, policy)
        return cls(
            id=approval_id,
            agent_state_id=agent_state_id,
            boundary=AgentApprovalBoundaryKind.TOOL_INVOCATION,
            prompt=_prompt(descriptor, shown) if prompt is None else prompt,
            risk=descriptor.metadata.risk,
            action_ref=descriptor.identity.key if action_ref is None else action_ref,
            metadata=details,
            arguments=shown,
            argument_digest=None if arguments is None else _argument_digest(approval_id, arguments),
            tool_digest=_tool_digest(descriptor),
            attempt=attempt,
            call_id=call_id,
            expires_at=expires_at,
            requested_by=requested_by,
        )

    @property
    def reason(self) -> str | None:
        """Why it is asked, in the words of the stage that asks; None where the declaration of the tool requires it."""
        for place in (self.metadata, object_or_empty(self.metadata.get("metadata"))):
            if isinstance(found := place.get("reason"), str):
                return found
        return None

    def covers(self, descriptor: AgentToolDescriptor, arguments: JsonObject) -> bool:
        """Return whether approving this request approves this call: the same tool and schema, the same arguments."""
        same_tool = self.tool_digest == _tool_digest(descriptor)
        return same_tool and self.argument_digest == _argument_digest(self.id, arguments)

    def bound_to(self, terms: ApprovalTerms) -> AgentApprovalRequest:
        """Return the request under these terms, bound to them and to everything else that an approval covers."""
        request = replace(
            self,
            requested_by=terms.requested_by,
            approver_scope=terms.approver_scope,
            policy_version=terms.policy_version,
        )
        return replace(request, binding=_binding(request))

    def is_bound_to(self, current: AgentApprovalRequest, terms: ApprovalTerms) -> bool:
        """Return whether this request is bound to what would be asked now: an approval of it counts only then.

        `current` is the request about the same call as it is made now. A request of an earlier version is bound by
        `covers` alone.
        """
        if self.binding is None:
            return True
        again = replace(
            current, id=self.id, allowed_decisions=self.allowed_decisions, expires_at=self.expires_at
        )
        if current.argument_digest is not None:
            # It is salted with the id, and `covers` has compared it.
            again = replace(again, argument_digest=self.argument_digest)
        return self.binding == again.bound_to(terms).binding

    def is_expired(self, now: datetime) -> bool:
        """Return whether it is too late to answer."""
        return self.expires_at is not None and now >= self.expires_at

    def to_metadata(self) -> JsonObject:
        """Return the request as JSON; what binds it appears where it is given."""
        bound: Mapping[str, JsonValue] = {
            "arguments": self.arguments or None,
            "argument_digest": self.argument_digest,
            "tool_digest": self.tool_digest,
            "attempt": self.attempt if self.attempt > 1 else None,
            "call_id": self.call_id,
            "expires_at": self.expires_at.isoformat() if self.expires_at else None,
            "requested_by": self.requested_by,
            "approver_scope": self.approver_scope,
            "policy_version": self.policy_version,
            "binding": self.binding,
        }
        return {
            "id": self.id,
            "agent_state_id": self.agent_state_id,
            "boundary": self.boundary.value,
            "action_ref": self.action_ref,
            "risk_axes": [axis.value for axis in self.risk.axes],
            "allowed_decisions": [decision.value for decision in self.allowed_decisions],
            "metadata": self.metadata,
            **{name: value for name, value in bound.items() if value is not None},
        }

    def to_state(self, *, agent_type: str) -> AgentState:
        """Return a new state of the run that waits for the answer."""
        reject_blank("AgentApprovalRequest.to_state", agent_type=agent_type)
        waiting = AgentSituation.WAITING_FOR_APPROVAL
        return AgentState(
            self.agent_state_id,
            agent_type,
            waiting.status,
            waiting.transition,
            waiting.reason,
            current_activity=self.prompt,
            metadata={"approval": self.to_metadata()},
        )

    def to_yield(self) -> AgentYield[Never]:
        """Return the question as an item of the stream."""
        return Approval(self.id, self.prompt, self.allowed_decisions, self.to_metadata())


def _shown(
    arguments: JsonObject, descriptor: AgentToolDescriptor, policy: ExposurePolicy | None
) -> JsonObject:
    guarded = guard_json_value(arguments, descriptor.schema.input_sensitive_fields, policy)
    return object_or_empty(guarded)


def _argument_digest(approval_id: str, arguments: JsonObject) -> str:
    # The id is random and makes the digest different for every request, so that none can be looked up.
    return json_digest([approval_id, arguments])


def _binding(request: AgentApprovalRequest) -> str:
    """Return the digest of everything that an approval is bound to; the id is random, so that none can be looked up."""
    return json_digest(
        [
            request.id,
            request.agent_state_id,
            request.boundary.value,
            request.action_ref,
            request.call_id,
            request.attempt,
            [axis.value for axis in request.risk.axes],
            request.tool_digest,
            request.argument_digest,
            [decision.value for decision in request.allowed_decisions],
            None if request.expires_at is None else request.expires_at.isoformat(),
            request.requested_by,
            request.approver_scope,
            request.policy_version,
        ]
    )


def _prompt(descriptor: AgentToolDescriptor, shown: JsonObject) -> str:
    """Return the question of a tool about a call, as its declaration words it; `shown` are the guarded arguments."""
    template = descriptor.metadata.prompt
    return (
        f"Approve the call of tool {descriptor.name!r}?"
        if template is None
        else filled_prompt(template, shown)
    )


def _tool_digest(descriptor: AgentToolDescriptor) -> str:
    """Return the digest of the tool that an approval covers."""
    schema = descriptor.schema
    covered: list[JsonValue] = [
        descriptor.identity.key,
        schema.name,
        schema.input_schema,
        schema.output_schema,
    ]
    if (version := described_version(descriptor.callable)) is not None:
        covered.append(version)
    return json_digest(covered)


@value
class AgentApprovalPlan:
    """Whether a call may proceed; if not, the question, the waiting state and the item to stream."""

    action: AgentApprovalPlanAction
    request: AgentApprovalRequest | None = None
    state: AgentState | None = None
    yield_item: AgentYield[Never] | None = None

    @property
    def requires_approval(self) -> bool:
        """Whether a person has to be asked first."""
        return self.action is AgentApprovalPlanAction.WAIT_FOR_APPROVAL


def plan_agent_tool_approval(
    *,
    descriptor: AgentToolDescriptor,
    approval_id: str,
    agent_state_id: str,
    agent_type: str,
    prompt: str | None = None,
    call_id: str | None = None,
    metadata: JsonObject | None = None,
    arguments: JsonObject | None = None,
    attempt: int = 1,
    expires_at: datetime | None = None,
    requested_by: str | None = None,
    policy: ExposurePolicy | None = None,
) -> AgentApprovalPlan:
    """Decide whether to ask a person: when the tool or its risk requires it."""
    if not descriptor.metadata.requires_approval_candidate:
        return AgentApprovalPlan(AgentApprovalPlanAction.PROCEED)
    request = AgentApprovalRequest.from_tool_descriptor(
        approval_id=approval_id,
        agent_state_id=agent_state_id,
        descriptor=descriptor,
        prompt=prompt,
        call_id=call_id,
        metadata=metadata,
        arguments=arguments,
        attempt=attempt,
        expires_at=expires_at,
        requested_by=requested_by,
        policy=policy,
    )
    state = request.to_state(agent_type=agent_type)
    return AgentApprovalPlan(AgentApprovalPlanAction.WAIT_FOR_APPROVAL, request, state, request.to_yield())

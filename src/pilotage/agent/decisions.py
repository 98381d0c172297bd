"""Reading what a person decided, and what a decision about an approval does to the run.

Pure. A bad answer never closes a request: it is refused with a reason for its sender, and the request stays open. An
answer to an approval that comes too late counts as a rejection. Whether a request was answered already is known to the
journal, not here. Recovery reads its answers with the same functions.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import field, replace
from datetime import datetime
from enum import StrEnum
from typing import TypeAlias, TypeVar

from pilotage.agent.approval import DEFAULT_APPROVAL_DECISIONS, AgentApprovalRequest
from pilotage.agent.signals import AgentSignal, AgentSignalKind, ApprovalDecision
from pilotage.agent.state import (
    AgentSituation,
    AgentState,
    AgentStateReason,
    AgentStateTransition,
    AgentStatus,
)
from pilotage.agent.tools.catalog import AgentToolDescriptor
from pilotage.checks import reject_blank, reject_naive
from pilotage.errors import AgentDefinitionError, AgentToolBindingError
from pilotage.jsonvalue import JsonObject, canonical_json, empty_object, object_or_empty, shortened
from pilotage.values import value

D = TypeVar("D", bound=StrEnum)

INNER_FIELDS = ("decision", "result", "comment")
"""The fields of an answer to an action inside of the one that is asked about."""
ANSWER_FIELDS = ("request_id", "decision", "comment", "modified_payload", "result", "actions")
"""The fields of an answer. Its sender, its time and its expiry are known to the server alone."""


@value
class DecisionMisdirected:
    """The signal is no answer to this request: another kind, another run or another request."""

    reason: str


@value
class DecisionMalformed:
    """The answer cannot be read, or does not fit what it is about."""

    reason: str


@value
class DecisionNotAllowed:
    """The answer is a decision that this request does not offer."""

    reason: str


DecisionRefusal: TypeAlias = DecisionMisdirected | DecisionMalformed | DecisionNotAllowed


class DecisionRefusedError(AgentDefinitionError):
    """A signal cannot be taken as a decision; `refusal` says why."""

    def __init__(self, refusal: DecisionRefusal) -> None:
        super().__init__(refusal.reason)
        self.refusal = refusal


def check_direction(
    signal: AgentSignal, *, request_id: str | None = None, agent_state_id: str | None = None
) -> str:
    """Return the id of the request that the signal answers; it must be the one given, where one is given.

    Raises:
        DecisionRefusedError: the signal is of another kind, names no request, or another request or run.
    """
    if signal.kind is not AgentSignalKind.APPROVAL_DECISION:
        raise _misdirected(signal, f"is of kind {signal.kind.value!r}. Send an 'approval_decision'.")
    answered = signal.payload.get("request_id")
    if not isinstance(answered, str) or not answered.strip():
        raise malformed(signal, f"has the request_id {answered!r}. Use the id of the request it answers.")
    if request_id is not None and answered != request_id:
        raise _misdirected(signal, f"answers request {answered!r}, not {request_id!r}.")
    if agent_state_id is not None and signal.agent_state_id != agent_state_id:
        raise _misdirected(signal, f"is for run {signal.agent_state_id!r}, not {agent_state_id!r}.")
    return answered


def read_decision(signal: AgentSignal, decisions: type[D], allowed: Sequence[D]) -> D:
    """Return the decision in the payload.

    Raises:
        DecisionRefusedError: there is none, or the request does not offer it.
    """
    given = signal.payload.get("decision")
    decision = next((each for each in decisions if each.value == given), None)
    if decision is None:
        raise malformed(signal, f"has the decision {given!r}. Use one of: {', '.join(decisions)}.")
    if decision not in allowed:
        reason = f"decides {given!r}, which is not offered. Use one of: {', '.join(allowed)}."
        raise DecisionRefusedError(DecisionNotAllowed(_sentence(signal, reason)))
    return decision


def read_comment(signal: AgentSignal) -> str | None:
    """Return the comment in the payload, where there is one.

    Raises:
        DecisionRefusedError: it is blank or no text.
    """
    comment = signal.payload.get("comment")
    if comment is None or (isinstance(comment, str) and comment.strip()):
        return comment
    raise malformed(signal, f"has the comment {comment!r}. Use a text that is not blank, or leave it out.")


def read_object(signal: AgentSignal, name: str) -> JsonObject | None:
    """Return the object under a key of the payload, None where the key is absent.

    Raises:
        DecisionRefusedError: there is something else.
    """
    if name not in signal.payload:
        return None
    value = signal.payload[name]
    if not isinstance(value, Mapping):
        raise malformed(signal, f"has a {name} of type {type(value).__name__}. Use an object.")
    return value


def foreign_field(answer: JsonObject) -> str | None:
    """Return a message about the first unknown field of an answer; None where all are known.

    A field that names a person, a time or a scope claims an authority that an answer does not have: then it is none.
    """
    found = next((name for name in answer if name not in ANSWER_FIELDS), None)
    if found is not None:
        name, fields = shortened(found), ", ".join(ANSWER_FIELDS)
        return f"{name!r} is no field of an answer. Leave it out; an answer has: {fields}."
    actions = answer.get("actions")
    for action_id, inner in actions.items() if isinstance(actions, Mapping) else ():
        inside = next((name for name in object_or_empty(inner) if name not in INNER_FIELDS), None)
        if inside is not None:
            name, fields = shortened(inside), ", ".join(INNER_FIELDS)
            return f"{name!r} is no field of the answer to {action_id!r}. Leave it out; it has: {fields}."
    return None


def reject_unused(signal: AgentSignal, decision: StrEnum, *names: str) -> None:
    """Refuse an answer with fields that its decision has no use for: its sender expects another effect.

    Raises:
        DecisionRefusedError: one of the fields has a value.
    """
    for name in names:
        if signal.payload.get(name) not in (None, {}, []):
            reason = f"decides {decision.value!r} with the field {name!r}, which has no effect there. Leave it out."
            raise malformed(signal, reason)


def is_same_answer(one: JsonObject, other: JsonObject) -> bool:
    """Return whether two answers to a question are the same, apart from sender and comment."""
    return all(canonical_json(one.get(name)) == canonical_json(other.get(name)) for name in _COMPARED)


def malformed(signal: AgentSignal, reason: str) -> DecisionRefusedError:
    """Return the refusal of an answer that cannot be read, with a message for its sender."""
    return DecisionRefusedError(DecisionMalformed(_sentence(signal, reason)))


def _misdirected(signal: AgentSignal, reason: str) -> DecisionRefusedError:
    return DecisionRefusedError(DecisionMisdirected(_sentence(signal, reason)))


def _sentence(signal: AgentSignal, reason: str) -> str:
    return f"Signal {signal.id!r} {reason}"


_COMPARED = ("request_id", "decision", "modified_payload", "result", "actions")

_SITUATIONS: Mapping[ApprovalDecision, AgentSituation] = {
    ApprovalDecision.APPROVE: AgentSituation.RUNNING,
    ApprovalDecision.MODIFY: AgentSituation.RUNNING,
    ApprovalDecision.DEFER: AgentSituation.APPROVAL_DEFERRED,
    ApprovalDecision.CANCEL: AgentSituation.CANCELLING,
    ApprovalDecision.REJECT: AgentSituation.APPROVAL_REJECTED,
}
_ACTIVITIES: Mapping[ApprovalDecision, str] = {
    ApprovalDecision.APPROVE: "approval approved",
    ApprovalDecision.MODIFY: "approval modified",
    ApprovalDecision.DEFER: "approval deferred",
    ApprovalDecision.CANCEL: "approval cancellation requested",
    ApprovalDecision.REJECT: "approval rejected",
}


@value
class AgentApprovalDecisionOutcome:
    """A decision, and the status, transition and reason that the run goes on with."""

    request_id: str
    decision: ApprovalDecision
    status: AgentStatus
    transition: AgentStateTransition
    reason: AgentStateReason | None = None
    modified_payload: JsonObject = field(default_factory=empty_object)
    comment: str | None = None

    def __post_init__(self) -> None:
        reject_blank(self, request_id=self.request_id, comment=self.comment)
        _ = self.situation

    @property
    def situation(self) -> AgentSituation:
        """The situation of the triple.

        Raises:
            AgentDefinitionError: the triple is that of no situation.
        """
        found = AgentSituation.of(self.status, self.transition, self.reason)
        if found is None:
            raise AgentDefinitionError(
                f"AgentApprovalDecisionOutcome has the triple ({self.status}, {self.transition}, {self.reason}), "
                "which is no situation of a run. Use the triple of an AgentSituation."
            )
        return found


@value
class ApprovalAccepted:
    """The answer counts; using it up and beginning the action are one commit."""

    outcome: AgentApprovalDecisionOutcome


@value
class ApprovalExpired:
    """The answer came too late: the request is closed, rejected."""

    outcome: AgentApprovalDecisionOutcome


ApprovalCheck: TypeAlias = ApprovalAccepted | ApprovalExpired | DecisionRefusal


def parse_agent_approval_decision_signal(
    signal: AgentSignal, *, request: AgentApprovalRequest | None = None
) -> AgentApprovalDecisionOutcome:
    """Return the decision in a signal; with a request it must be an answer to it that the request allows.

    Raises:
        AgentDefinitionError: the signal is no such answer; the message is for its sender.
    """
    request_id = _addressed_to(request, signal)
    allowed = DEFAULT_APPROVAL_DECISIONS if request is None else request.allowed_decisions
    decision = read_decision(signal, ApprovalDecision, allowed)
    reject_unused(signal, decision, "result", "actions")
    return _outcome(request_id, decision, _modified_payload(signal, decision), read_comment(signal))


def check_agent_approval_decision(
    request: AgentApprovalRequest,
    signal: AgentSignal,
    now: datetime,
    *,
    descriptor: AgentToolDescriptor | None = None,
) -> ApprovalCheck:
    """Return whether the signal is an answer to the request that counts at this moment.

    A refusal goes to the sender and leaves the request open. With the tool's descriptor a modified payload
    must also fit the tool.

    Raises:
        AgentDefinitionError: `now` has no time zone.
    """
    reject_naive("check_agent_approval_decision", now=now)
    try:
        _addressed_to(request, signal)
        if request.is_expired(now):
            return ApprovalExpired(expired_approval_outcome(request))
        outcome = parse_agent_approval_decision_signal(signal, request=request)
        if descriptor is not None and outcome.decision is ApprovalDecision.MODIFY:
            _check_fits(descriptor, signal, outcome.modified_payload)
    except DecisionRefusedError as error:
        return error.refusal
    return ApprovalAccepted(outcome)


def expired_approval_outcome(request: AgentApprovalRequest) -> AgentApprovalDecisionOutcome:
    """Return the rejection that a request without a timely answer ends with."""
    return _outcome(request.id, ApprovalDecision.REJECT, {}, "The approval request expired.")


def materialize_agent_approval_decision_state(
    current: AgentState, outcome: AgentApprovalDecisionOutcome
) -> AgentState:
    """Return the run after the decision.

    Raises:
        AgentDefinitionError: the run does not wait for an approval.
    """
    if current.transition is not AgentStateTransition.WAITING_APPROVAL or current.is_terminal:
        raise AgentDefinitionError(
            f"run {current.id!r} is {current.status} and waits for no approval. "
            f"Decide about a run whose transition is {AgentStateTransition.WAITING_APPROVAL.value!r}."
        )
    decided: JsonObject = {
        "request_id": outcome.request_id,
        "decision": outcome.decision.value,
        "modified_payload": outcome.modified_payload,
        "comment": outcome.comment,
    }
    moved = current.moved_to(outcome.situation, metadata={"approval_decision": decided})
    return replace(moved, current_activity=_ACTIVITIES[outcome.decision])


def _addressed_to(request: AgentApprovalRequest | None, signal: AgentSignal) -> str:
    if request is None:
        return check_direction(signal)
    return check_direction(signal, request_id=request.id, agent_state_id=request.agent_state_id)


def _modified_payload(signal: AgentSignal, decision: ApprovalDecision) -> JsonObject:
    payload = read_object(signal, "modified_payload")
    if decision is ApprovalDecision.MODIFY and payload is None:
        raise malformed(signal, "decides 'modify' without a modified_payload. Add the arguments to use.")
    if decision is not ApprovalDecision.MODIFY and payload:
        # The sender believes that the call will run with other arguments; it would not.
        raise malformed(
            signal, f"decides {decision.value!r} with a modified_payload. Decide 'modify', or leave it out."
        )
    return payload or {}


def _check_fits(descriptor: AgentToolDescriptor, signal: AgentSignal, payload: JsonObject) -> None:
    try:
        descriptor.bind_invocation(payload)
    except AgentToolBindingError as error:
        raise malformed(signal, f"has a modified_payload that the tool refuses: {error}") from error


def _outcome(
    request_id: str, decision: ApprovalDecision, modified_payload: JsonObject, comment: str | None
) -> AgentApprovalDecisionOutcome:
    situation = _SITUATIONS[decision]
    return AgentApprovalDecisionOutcome(
        request_id=request_id,
        decision=decision,
        status=situation.status,
        transition=situation.transition,
        reason=situation.reason,
        modified_payload=modified_payload,
        comment=comment,
    )

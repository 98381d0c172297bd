"""What a stage of the gate says about something that is about to begin."""

from __future__ import annotations

from dataclasses import replace
from typing import TypeAlias, cast

from pilotage.agent.approval import AgentApprovalRequest
from pilotage.agent.recovery import AgentActionKind
from pilotage.agent.recovery_request import (
    DEFERRED_CALL,
    AgentRecoveryRequest,
    RecoveryAnswer,
    RecoveryDecision,
    RecoveryDone,
    RecoveryRetried,
)
from pilotage.agent.signals import AgentSignal, ApprovalDecision
from pilotage.agent.structured_output import StructuredOutputSpec
from pilotage.agent.tools.metadata import Idempotency, ToolRisk
from pilotage.errors import AgentStructuredOutputError
from pilotage.jsonvalue import JsonObject, JsonValue, to_json_value
from pilotage.runtime.effect import Call
from pilotage.runtime.journal.action import Action
from pilotage.safety.guard import guard_json_value
from pilotage.values import value


@value
class Pass:
    """Nothing against it."""


@value
class Ask:
    """Somebody must be asked first; the handler that says so may word the question."""

    reason: str | None = None
    question: AgentApprovalRequest | None = None


@value
class Deny:
    """It must not happen."""

    reason: str


GateVerdict: TypeAlias = Pass | Ask | Deny

PASS = Pass()


APPROVAL = "approval"
RESULT = "result"
DECIDED_BY = "decided_by"
"""The key under which a signal, and the row of an answer, say who answered."""

_WITHOUT_MODIFY = tuple(each for each in ApprovalDecision if each is not ApprovalDecision.MODIFY)


def approval_question(
    call: Call, run_id: str, request_id: str, attempt: int, verdict: Ask
) -> AgentApprovalRequest:
    """The question about a call; an approval handler may word it and say which answers are possible."""
    request = _about_a_tool(call, run_id, request_id, attempt, verdict.reason)
    if request is None:
        request = AgentApprovalRequest(
            request_id,
            run_id,
            call.boundary,
            f"Approve {call.boundary.value.replace('_', ' ')} {call.action.name!r}?",
            ToolRisk(),
            call.action.id,
            _WITHOUT_MODIFY,
            arguments={"view": call.action.view} if call.action.view is not None else {},
            attempt=attempt,
            call_id=call.action.id,
        )
    return request if verdict.question is None else _worded(request, verdict.question)


def recovery_question(
    call: Call, run_id: str, request_id: str, attempt: int, late: tuple[JsonValue, ...] = ()
) -> AgentRecoveryRequest:
    """The question what became of an attempt; `late` is what an owner before knew of it."""
    return AgentRecoveryRequest(
        id=request_id,
        agent_state_id=run_id,
        action_id=call.action.id,
        attempt=attempt,
        reason=f"It is not known whether attempt {attempt} of {call.action.name!r} took effect.",
        action_kind=call.action.kind,
        action_name=call.action.name,
        arguments={"view": call.action.view},
        late_outcomes=late,
    )


def result_question(call: Call, run_id: str, request_id: str) -> AgentRecoveryRequest:
    """The question what came of a call that somebody outside carries out."""
    return AgentRecoveryRequest(
        id=request_id,
        agent_state_id=run_id,
        action_id=call.action.id,
        attempt=1,
        reason=f"{call.action.name!r} is carried out by the caller. What came of it?",
        action_kind=call.action.kind,
        action_name=call.action.name,
        arguments={"view": call.action.view},
        allowed_decisions=(RecoveryDecision.DONE, RecoveryDecision.CANCEL),
        metadata={DEFERRED_CALL: call.call_id or call.action.id},
    )


def is_about_the_past(request: JsonObject) -> bool:
    """Whether a question is about something that may have happened: then somebody has to find out."""
    return "action_kind" in request and DEFERRED_CALL not in cast(JsonObject, request.get("metadata", {}))


def _about_a_tool(
    call: Call, run_id: str, request_id: str, attempt: int, reason: str | None
) -> AgentApprovalRequest | None:
    if call.descriptor is None:
        return None
    return AgentApprovalRequest.from_tool_descriptor(
        approval_id=request_id,
        agent_state_id=run_id,
        descriptor=call.descriptor,
        call_id=call.call_id or call.action.id,
        arguments=cast(JsonObject, call.action.asked),
        attempt=attempt,
        metadata={"reason": reason} if reason else None,
    )


def _worded(request: AgentApprovalRequest, wanted: AgentApprovalRequest) -> AgentApprovalRequest:
    """The run's own question in the handler's words; what binds it to the call stays the run's."""
    decisions = [each for each in wanted.allowed_decisions if each in request.allowed_decisions]
    return replace(
        request,
        prompt=wanted.prompt,
        allowed_decisions=tuple(decisions) or request.allowed_decisions,
        expires_at=wanted.expires_at,
        metadata={**request.metadata, **wanted.metadata},
    )


def fits(call: Call, answer: RecoveryDone) -> bool:
    """Whether the result a person gives is one the call could have had."""
    try:
        call.decode(answer.result)
    except AgentStructuredOutputError:
        return False
    return True


def guarded_answer(call: Call, record: JsonObject) -> JsonObject:
    """An answer as others may read it: arguments and results are hidden in it as they are in the call itself."""
    if call.descriptor is None:
        return record
    schema, guarded = call.descriptor.schema, dict(record)
    if schema.output_sensitive_fields and "result" in record:
        guarded["result"] = guard_json_value(record["result"], schema.output_sensitive_fields)
    if schema.input_sensitive_fields and record.get("modified_payload"):
        guarded["modified_payload"] = guard_json_value(
            record["modified_payload"], schema.input_sensitive_fields
        )
    return record if guarded == record else guarded


def answered_by(signal: AgentSignal) -> JsonObject:
    """Who gave an answer, for its row; nothing where the signal does not say."""
    who = signal.payload.get(DECIDED_BY)
    return {DECIDED_BY: who} if isinstance(who, str) and who.strip() else {}


def write_answer(answer: RecoveryAnswer) -> JsonObject:
    """The answer about an unknown outcome as its row keeps it."""
    return {"answer": type(answer).__name__, **cast(JsonObject, to_json_value(answer))}


def read_answer(record: JsonObject) -> RecoveryRetried | RecoveryDone:
    """An answer that lets the run go on; the others have ended it."""
    request_id, action_id = cast(str, record["request_id"]), cast(str, record["action_id"])
    if record["answer"] == RecoveryDone.__name__:
        return RecoveryDone(request_id, action_id, record["result"])
    return RecoveryRetried(request_id, action_id, cast(int, record["attempt"]))


def wait_for(action: Action, what: str) -> Action:
    """The question about an action; it stands and falls with it."""
    return Action(
        id=f"{action.id}/{what}",
        kind=AgentActionKind.APPROVAL_WAIT,
        name=action.name,
        asked=None,
        view=None,
        idempotency=Idempotency.NON_IDEMPOTENT,
        is_read_only=False,
        fingerprint=action.fingerprint,
    )


def encode_request(request: AgentApprovalRequest | AgentRecoveryRequest) -> JsonObject:
    """Every field of the request."""
    return cast(JsonObject, to_json_value(request))


def decode_approval(record: JsonValue) -> AgentApprovalRequest:
    """The approval request that was recorded."""
    return cast(AgentApprovalRequest, StructuredOutputSpec.from_type(AgentApprovalRequest).decode(record))


def decode_recovery(record: JsonValue) -> AgentRecoveryRequest:
    """The recovery request that was recorded."""
    return cast(AgentRecoveryRequest, StructuredOutputSpec.from_type(AgentRecoveryRequest).decode(record))

"""Requests to people, and answers as others may read them. Pure."""

from __future__ import annotations

from dataclasses import replace

from pilotage.agent.approval import AgentApprovalRequest, ApprovalTerms
from pilotage.agent.recovery import AgentActionKind
from pilotage.agent.recovery_request import (
    DEFERRED_CALL,
    INPUT_SCHEMA,
    AgentRecoveryRequest,
    OpenAction,
    RecoveryDecision,
    RecoveryDone,
)
from pilotage.agent.safety_checks import withheld_by
from pilotage.agent.signals import AgentSignal, AgentSignalKind, AgentSignalLane, ApprovalDecision
from pilotage.agent.tools.metadata import Idempotency, ToolRisk
from pilotage.errors import AgentStructuredOutputError
from pilotage.jsonvalue import JsonObject, JsonValue, as_object
from pilotage.runtime.effect import Ask, Effect
from pilotage.runtime.exposure.redactor import Redactor
from pilotage.runtime.exposure.secret_stream import HandedOutSecrets
from pilotage.runtime.journal import stored_words as words
from pilotage.runtime.journal.record_fields import objects_field
from pilotage.runtime.journal.recording import name_in
from pilotage.runtime.journal.scope import Action
from pilotage.safety.guard import guard_json_value
from pilotage.safety.redaction.policy import StreamingRedactionPolicy
from pilotage.values import value

DECIDED_BY = words.DECIDED_BY
"""The key of the answering principal's id in a signal and in the row of an answer."""

_WRITTEN = (words.COMMENT, words.RESULT, words.MODIFIED_PAYLOAD, words.INSIDE)
"""The fields of an answer that a person wrote."""

_SEALED_WHOLE = frozenset({AgentSignalKind.APPROVAL_DECISION})
_IDS = frozenset({words.REQUEST_ID, words.DECISION, words.DECIDED_BY, "requested_by", words.INPUT_ID})
"""The fields that a signal is found by: no text of its sender."""

_WITHOUT_MODIFY = tuple(each for each in ApprovalDecision if each is not ApprovalDecision.MODIFY)


@value
class RequestPlace:
    """The run that asks, the id of the request, and the attempt at the effect that the request is about."""

    run_id: str
    request_id: str
    attempt: int = 1


def approval_request(effect: Effect, place: RequestPlace, ask: Ask) -> AgentApprovalRequest:
    """Return the request to approve an effect; an approval handler may word it and restrict the answers."""
    request = _tool_request(effect, place, ask.reason)
    if request is None:
        action, boundary = effect.asked_about, effect.boundary
        why = f" Reason: {ask.reason}." if ask.reason else ""
        request = AgentApprovalRequest(
            id=place.request_id,
            agent_state_id=place.run_id,
            boundary=boundary,
            prompt=f"Approve {boundary.value.replace('_', ' ')} {action.name!r}?{why}",
            risk=ToolRisk(),
            action_ref=action.id,
            allowed_decisions=effect.decisions or _WITHOUT_MODIFY,
            metadata={"reason": ask.reason} if ask.reason else {},
            arguments={"view": action.view} if action.view is not None else {},
            attempt=place.attempt,
            call_id=action.id,
        )
    return request if ask.question is None else _worded(request, ask.question)


def outdated_reason(
    effect: Effect, asked: AgentApprovalRequest, terms: ApprovalTerms, redactor: Redactor
) -> str | None:
    """Return why an approval of a recorded request does not fit its effect any more; None where it fits."""
    tool, place = effect.descriptor, RequestPlace(asked.agent_state_id, asked.id, asked.attempt)
    if tool is not None and not asked.covers(tool, as_object(effect.action.asked)):
        return f"the declaration of {tool.name!r} has changed"
    if asked.is_bound_to(approval_request(effect, place, Ask()), terms):
        return None
    compared = {
        "the principal that caused it": (asked.requested_by, terms.requested_by),
        "the scope of approvers": (asked.approver_scope, terms.approver_scope),
        "the version of the policy": (asked.policy_version, terms.policy_version),
    }
    changes = [
        f"{what} was {was!r} and is {shown!r}"
        for what, (was, now) in compared.items()
        if was != (shown := redactor.text(now) if now else now)
    ]
    return "; ".join(changes) or "what it was bound to has changed, such as the declared risk of the tool"


def recovery_request(
    effect: Effect,
    place: RequestPlace,
    late: tuple[JsonValue, ...] = (),
    inside: tuple[OpenAction, ...] = (),
) -> AgentRecoveryRequest:
    """Return the question about the unknown outcome of an attempt; `late` holds outcomes of a former owner.

    `inside` are the open actions inside of it.
    """
    reason = f"It is not known whether attempt {place.attempt} of {effect.action.name!r} took effect."
    if effect.doubt is not None:
        reason = f"Attempt {place.attempt} took effect, and its result is not known: {effect.doubt}"
    if inside:
        reason = f"{reason} Open inside of it: {', '.join(_chain(effect, each) for each in inside)}."
    return replace(_about(effect, place, reason), late_outcomes=late, inside=inside)


def _chain(effect: Effect, inner: OpenAction) -> str:
    """Return the calls from an effect to an open action inside of it."""
    below = inner.action_id.removeprefix(f"{effect.action.id}/").split(words.SEPARATOR)
    calls = [name_in(part) for part in below if part.startswith((words.TOOL, words.STEP))]
    return " → ".join([effect.action.name, *calls])


def result_request(effect: Effect, place: RequestPlace) -> AgentRecoveryRequest:
    """Return the request for the result of a call that the caller carries out, or for an answer the program wants."""
    if effect.wanted is not None:
        return replace(
            _about(effect, place, effect.wanted.text),
            allowed_decisions=(RecoveryDecision.DONE, RecoveryDecision.FAIL, RecoveryDecision.CANCEL),
            metadata={INPUT_SCHEMA: effect.wanted.schema},
        )
    reason = f"{effect.action.name!r} is carried out by the caller. What came of it?"
    return replace(
        _about(effect, place, reason),
        allowed_decisions=(RecoveryDecision.DONE, RecoveryDecision.CANCEL),
        metadata={DEFERRED_CALL: effect.call_id or effect.action.id},
    )


def is_recovery(request: JsonObject) -> bool:
    """Return whether a request is about an unknown outcome."""
    metadata = request.get(words.METADATA)
    is_for_input = isinstance(metadata, dict) and (DEFERRED_CALL in metadata or INPUT_SCHEMA in metadata)
    return words.ACTION_KIND in request and not is_for_input


def _about(effect: Effect, place: RequestPlace, reason: str) -> AgentRecoveryRequest:
    action = effect.action
    return AgentRecoveryRequest(
        id=place.request_id,
        agent_state_id=place.run_id,
        action_id=action.id,
        attempt=place.attempt,
        reason=reason,
        action_kind=action.kind,
        action_name=action.name,
        arguments={"view": action.view},
    )


def _tool_request(effect: Effect, place: RequestPlace, reason: str | None) -> AgentApprovalRequest | None:
    if effect.descriptor is None:
        return None
    return AgentApprovalRequest.from_tool_descriptor(
        approval_id=place.request_id,
        agent_state_id=place.run_id,
        descriptor=effect.descriptor,
        call_id=effect.call_id or effect.action.id,
        arguments=as_object(effect.action.asked),
        attempt=place.attempt,
        metadata={"reason": reason} if reason else None,
    )


def _worded(request: AgentApprovalRequest, wanted: AgentApprovalRequest) -> AgentApprovalRequest:
    """Return the run's request with the text of the handler; the fields that bind it to the call do not change."""
    decisions = [each for each in wanted.allowed_decisions if each in request.allowed_decisions]
    return replace(
        request,
        prompt=wanted.prompt,
        allowed_decisions=tuple(decisions) or request.allowed_decisions,
        expires_at=wanted.expires_at,
        metadata={**request.metadata, **wanted.metadata},
    )


def fits(effect: Effect, answer: RecoveryDone) -> bool:
    """Return whether the result in an answer is one that the effect could have had."""
    try:
        effect.codec.decode(answer.result)
    except AgentStructuredOutputError:
        return False
    return True


def guarded_answer(effect: Effect, record: JsonObject, redactor: Redactor) -> JsonObject:
    """Return an answer as others may read it: redacted, its arguments and results hidden as in the call itself."""
    guarded = _guarded(effect, record)
    if redactor.is_idle:
        return guarded
    # The ids and the person who decided stay: a reader finds the answer by them.
    redacted = {key: redactor.json(guarded[key]) for key in _WRITTEN if key in guarded}
    return {**guarded, **redacted}


def _guarded(effect: Effect, record: JsonObject) -> JsonObject:
    guarded = dict(record)
    if words.INSIDE in record:
        # Which results of the actions inside are sensitive is known when they are made again.
        guarded[words.INSIDE] = [
            {key: given for key, given in each.items() if key != words.RESULT}
            for each in objects_field(record, words.INSIDE)
        ]
    if effect.descriptor is None:
        return record if guarded == record else guarded
    schema = effect.descriptor.schema
    hidden = {
        words.RESULT: schema.output_sensitive_fields,
        words.MODIFIED_PAYLOAD: schema.input_sensitive_fields,
    }
    for key, fields in hidden.items():
        if fields and record.get(key) is not None:
            guarded[key] = guard_json_value(record[key], fields)
    return record if guarded == record else guarded


def decided_by(signal: AgentSignal) -> str | None:
    """Return the person named by an answer; None where the signal has none."""
    decider = signal.payload.get(DECIDED_BY)
    return decider if isinstance(decider, str) and decider.strip() else None


def redacted_signal(
    signal: AgentSignal, policy: StreamingRedactionPolicy | None, secrets: HandedOutSecrets | None
) -> AgentSignal:
    """Return a signal as it may be stored: without secrets, and redacted where it is stored plain.

    That is a control signal. Messages are sealed under a policy, and answers too: their runs need them whole.
    """
    is_plain = signal.kind.lane is AgentSignalLane.CONTROL and signal.kind not in _SEALED_WHOLE
    redactor = Redactor(policy if is_plain else None, secrets)
    if redactor.is_idle or not signal.payload:
        return signal
    payload = signal.payload
    return replace(
        signal,
        payload={name: payload[name] if name in _IDS else redactor.json(payload[name]) for name in payload},
    )


def question_action(effect: Effect, what: str) -> Action:
    """Return the action of a question about an effect; its answers hide what the records of the effect hide."""
    action, tool = effect.asked_about, effect.descriptor
    return Action(
        id=f"{action.id}/{what}",
        kind=AgentActionKind.APPROVAL_WAIT,
        name=action.name,
        asked=None,
        view=action.view,
        idempotency=Idempotency.NON_IDEMPOTENT,
        is_read_only=False,
        fingerprint=action.fingerprint,
        hides=action.kind is not AgentActionKind.STEP if tool is None else bool(withheld_by(tool)),
    )

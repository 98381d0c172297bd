"""Asking a person about an action whose outcome is unknown, and reading the answer.

Pure. The four answers are: run it *again* (as a new attempt, which the answer approves), it is *done* (with
its result), let the run *fail*, *cancel* the run. A call that the caller of the run carries out is asked about in the
same way, with fewer answers. An answer travels as a signal of kind `approval_decision`,
on the lane that nothing blocks, with the payload `request_id`, `decision`, `result` (for done), `comment`.

A crash inside of a tool that calls tools is one question: about the outer action, with the open ones inside of it. To
retry the outer one is to enter it again over the recorded results inside, so each open action that the run cannot
repeat by itself needs an answer of its own, in `actions`: `{action_id: {decision, result, comment}}`. Every other
decision about an action leaves nothing to be decided inside of it.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import field, replace
from datetime import datetime
from enum import StrEnum
from typing import TypeAlias, assert_never

from pilotage.agent.decisions import (
    DecisionRefusal,
    DecisionRefusedError,
    check_direction,
    malformed,
    read_comment,
    read_decision,
    read_object,
    reject_unused,
)
from pilotage.agent.recovery import AgentActionKind
from pilotage.agent.signals import AgentSignal
from pilotage.agent.state import AgentSituation, AgentState, AgentStateReason
from pilotage.checks import reject_blank, reject_empty, reject_not_positive
from pilotage.errors import AgentDefinitionError
from pilotage.jsonvalue import JsonObject, JsonValue, as_object, empty_object, to_json_value
from pilotage.values import value

DEFERRED_CALL = "deferred_call"
"""The key in a request's metadata for a call that is the caller's to carry out: the id that the model gave it."""


INPUT_SCHEMA = "input_schema"
"""The key in a request's metadata for a question of the program: the schema of its answer."""

ACTIONS = "actions"
"""The key of an answer with the answers to actions inside of the one that was asked about."""


class RecoveryDecision(StrEnum):
    """The answers to a recovery question, in the order they are offered."""

    RETRY = "retry"
    DONE = "done"
    FAIL = "fail"
    CANCEL = "cancel"


@value
class OpenAction:
    """An action inside of the one that a question is about: it was begun, and its outcome is unknown.

    Without `allowed_decisions` it needs no answer: the run repeats it, looks its outcome up, or has an answer to it.
    """

    action_id: str
    attempt: int
    action_kind: AgentActionKind
    action_name: str | None = None
    arguments: JsonObject = field(default_factory=empty_object)
    allowed_decisions: tuple[RecoveryDecision, ...] = ()

    def __post_init__(self) -> None:
        reject_blank(self, action_id=self.action_id, action_name=self.action_name)
        reject_not_positive(self, attempt=self.attempt)

    @property
    def name(self) -> str:
        """The name of the action, as people know it."""
        return self.action_name or self.action_id


@value
class UnknownAttempt:
    """The known facts of an attempt of unknown outcome, for the person who is asked about it.

    `process` is the owner of the run at `epoch`; None where the run has no leases. `may_be_alive` says whether that
    process may still carry the action out: it is the asking one, or its lease is valid; None where that is not known.
    `result_schema` is that of the results that *done* accepts; None where only the program knows it.
    """

    idempotency_key: str
    epoch: int
    began_at: datetime | None = None
    process: str | None = None
    may_be_alive: bool | None = None
    result_schema: JsonObject | None = None


@value
class AgentRecoveryRequest:
    """The question about one attempt of one action.

    `arguments` are guarded: they are what the person sees. `late_outcomes` are results that arrived after the
    run had been lost to another owner; they help to decide, nothing more. `inside` are the open actions inside of a
    tool that calls tools, outer ones first. `begun` is there when the question is read from a run.
    """

    id: str
    agent_state_id: str
    action_id: str
    attempt: int
    reason: str
    action_kind: AgentActionKind
    action_name: str | None = None
    arguments: JsonObject = field(default_factory=empty_object)
    late_outcomes: tuple[JsonValue, ...] = ()
    allowed_decisions: tuple[RecoveryDecision, ...] = tuple(RecoveryDecision)
    metadata: JsonObject = field(default_factory=empty_object)
    inside: tuple[OpenAction, ...] = ()
    begun: UnknownAttempt | None = None

    def __post_init__(self) -> None:
        reject_blank(self, id=self.id, agent_state_id=self.agent_state_id, action_id=self.action_id)
        reject_blank(self, reason=self.reason, action_name=self.action_name)
        reject_not_positive(self, attempt=self.attempt)
        reject_empty(self, allowed_decisions=self.allowed_decisions)

    @property
    def deferred_call(self) -> str | None:
        """The call whose result the caller of the run is to give; None for an action of unknown outcome."""
        call_id = self.metadata.get(DEFERRED_CALL)
        return call_id if isinstance(call_id, str) else None

    @property
    def input_schema(self) -> JsonObject | None:
        """The schema of the answer to a question of the program; None for every other question."""
        schema = self.metadata.get(INPUT_SCHEMA)
        return schema if isinstance(schema, dict) else None

    @property
    def is_about_unknown(self) -> bool:
        """Whether it is about an action of unknown outcome."""
        return self.deferred_call is None and self.input_schema is None

    @property
    def prompt(self) -> str:
        """The text of the question, as an approval request has it."""
        return self.reason

    @property
    def to_decide(self) -> tuple[OpenAction, ...]:
        """The actions inside that need an answer of their own if this one is retried."""
        return tuple(each for each in self.inside if each.allowed_decisions)

    def to_metadata(self) -> JsonObject:
        """Return the request as JSON, every key present."""
        return as_object(to_json_value(self))


@value
class RecoveryDone:
    """The action did happen, with this result."""

    request_id: str
    action_id: str
    result: JsonValue
    comment: str | None = None


@value
class RecoveryRetried:
    """Run the action again; `attempt` is the number of the new attempt, `inside` the answers to actions inside it."""

    request_id: str
    action_id: str
    attempt: int
    comment: str | None = None
    inside: tuple[RecoveryRetried | RecoveryDone, ...] = ()


@value
class RecoveryFailed:
    """Let the run fail."""

    request_id: str
    action_id: str
    comment: str | None = None


@value
class RecoveryCancelled:
    """Cancel the run."""

    request_id: str
    action_id: str
    comment: str | None = None


RecoveryAnswer: TypeAlias = RecoveryRetried | RecoveryDone | RecoveryFailed | RecoveryCancelled


def parse_agent_recovery_decision_signal(
    signal: AgentSignal, *, request: AgentRecoveryRequest
) -> RecoveryAnswer:
    """Return the answer that a signal gives to a request.

    Raises:
        AgentDefinitionError: the signal is no acceptable answer to this request.
    """
    request_id = check_direction(signal, request_id=request.id, agent_state_id=request.agent_state_id)
    decision = read_decision(signal, RecoveryDecision, request.allowed_decisions)
    comment = read_comment(signal)
    if decision is not RecoveryDecision.RETRY and signal.payload.get(ACTIONS):
        words = f"{request.action_name or request.action_id!r} is answered {decision.value!r}"
        raise malformed(signal, f"has {ACTIONS}, and {words}: nothing inside of it is run. Leave them out.")
    takes_result = decision is RecoveryDecision.DONE
    reject_unused(signal, decision, "modified_payload", *(() if takes_result else ("result",)))
    match decision:
        case RecoveryDecision.RETRY:
            return _retried(signal, request, comment)
        case RecoveryDecision.DONE:
            if "result" not in signal.payload:
                raise malformed(signal, "decides 'done' without a result. Add 'result'; null is one.")
            return RecoveryDone(request_id, request.action_id, signal.payload["result"], comment)
        case RecoveryDecision.FAIL:
            return RecoveryFailed(request_id, request.action_id, comment)
        case RecoveryDecision.CANCEL:
            return RecoveryCancelled(request_id, request.action_id, comment)
        case _:
            assert_never(decision)


def _retried(signal: AgentSignal, request: AgentRecoveryRequest, comment: str | None) -> RecoveryAnswer:
    """Return the answer to retry an action, with the answers to the open actions inside of it.

    An answer inside that ends the run is the answer to the whole question.
    """
    answers = [
        _answer_inside(signal, request, action, given) for action, given in _given_inside(signal, request)
    ]
    end = next((each for each in answers if isinstance(each, RecoveryFailed | RecoveryCancelled)), None)
    if end is not None:
        return end
    going_on = tuple(each for each in answers if isinstance(each, RecoveryRetried | RecoveryDone))
    done = [each.action_id for each in going_on if isinstance(each, RecoveryDone)]
    for each in going_on:
        if (around := _around(each.action_id, done)) is not None:
            words = f"has an answer to {each.action_id!r}, which is inside of {around!r}, answered 'done'"
            raise malformed(signal, f"{words}. Leave it out.")
    answered = {each.action_id for each in going_on}
    missing = [
        each.action_id
        for each in request.to_decide
        if each.action_id not in answered and _around(each.action_id, done) is None
    ]
    if missing:
        words = "retries an action with open actions inside, and says nothing about"
        example = f'{ACTIONS}: {{"{missing[0]}": {{"decision": "retry"}}}}'
        raise malformed(signal, f"{words} {', '.join(map(repr, missing))}. Add an answer to each: {example}.")
    return RecoveryRetried(request.id, request.action_id, request.attempt + 1, comment, going_on)


def _given_inside(
    signal: AgentSignal, request: AgentRecoveryRequest
) -> Iterator[tuple[OpenAction, JsonObject]]:
    given = read_object(signal, ACTIONS) or {}
    known = {each.action_id: each for each in request.to_decide}
    for action_id, answer in given.items():
        if action_id not in known:
            waiting = ", ".join(map(repr, known)) or "none"
            raise malformed(
                signal, f"has an answer to {action_id!r}, which needs none. Those that do: {waiting}."
            )
        if not isinstance(answer, Mapping):
            raise malformed(signal, f"has {answer!r} for {action_id!r}. Use {{decision, result, comment}}.")
        yield known[action_id], answer


def _answer_inside(
    signal: AgentSignal, request: AgentRecoveryRequest, action: OpenAction, given: JsonObject
) -> RecoveryAnswer:
    own = replace(signal, payload={**given, "request_id": request.id})
    about = replace(
        request,
        action_id=action.action_id,
        attempt=action.attempt,
        allowed_decisions=action.allowed_decisions,
        inside=(),
    )
    return parse_agent_recovery_decision_signal(own, request=about)


def _around(action_id: str, others: list[str]) -> str | None:
    """Return the one of other actions that an action is inside of."""
    return next((each for each in others if action_id.startswith(f"{each}/")), None)


def check_agent_recovery_decision(
    request: AgentRecoveryRequest, signal: AgentSignal
) -> RecoveryAnswer | DecisionRefusal:
    """Return the answer, or why the signal is none; a refusal goes to its sender and leaves the request open."""
    try:
        return parse_agent_recovery_decision_signal(signal, request=request)
    except DecisionRefusedError as error:
        return error.refusal


def materialize_agent_recovery_decision_state(current: AgentState, answer: RecoveryAnswer) -> AgentState:
    """Return the run after the answer: running again, failed, or on its way to being cancelled.

    Raises:
        AgentDefinitionError: the run does not wait for such an answer.
    """
    if current.reason is not AgentStateReason.RECOVERY_REQUIRES_HITL:
        raise AgentDefinitionError(
            f"run {current.id!r} is {current.status} and waits for no recovery decision. "
            f"Answer a run whose reason is {AgentStateReason.RECOVERY_REQUIRES_HITL.value!r}."
        )
    match answer:
        case RecoveryRetried():
            return current.moved_to(AgentSituation.RUNNING, activity="recovery retried")
        case RecoveryDone():
            return current.moved_to(AgentSituation.RUNNING, activity="recovery done")
        case RecoveryFailed():
            return current.moved_to(AgentSituation.FAILED, activity="recovery failed")
        case RecoveryCancelled():
            return current.moved_to(AgentSituation.CANCELLING, activity="recovery cancellation requested")
        case _:
            assert_never(answer)

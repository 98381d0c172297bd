"""Asking a person about an action whose outcome is unknown, and reading the answer.

Pure. The four answers are: run it *again* (as a new attempt, which the answer approves), it is *done* (with
its result), let the run *fail*, *cancel* the run. A call that the caller of the run carries out is asked about in the
same way, with fewer answers. An answer travels as a signal of kind `approval_decision`,
on the lane that nothing blocks, with the payload `request_id`, `decision`, `result` (for done), `comment`.
"""

from __future__ import annotations

from dataclasses import field
from enum import StrEnum
from typing import TypeAlias, assert_never

from pilotage.agent.decisions import (
    DecisionRefusal,
    DecisionRefusedError,
    check_direction,
    malformed,
    read_comment,
    read_decision,
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


class RecoveryDecision(StrEnum):
    """What a person may answer, in the order it is offered."""

    RETRY = "retry"
    DONE = "done"
    FAIL = "fail"
    CANCEL = "cancel"


@value
class AgentRecoveryRequest:
    """The question about one attempt of one action.

    `arguments` are guarded: they are what the person sees. `late_outcomes` are results that arrived after the
    run had been lost to another owner; they help to decide, nothing more.
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

    def __post_init__(self) -> None:
        reject_blank(self, id=self.id, agent_state_id=self.agent_state_id, action_id=self.action_id)
        reject_blank(self, reason=self.reason, action_name=self.action_name)
        reject_not_positive(self, attempt=self.attempt)
        reject_empty(self, allowed_decisions=self.allowed_decisions)

    @property
    def deferred_call(self) -> str | None:
        """The call whose result the caller of the run is to give; None where it is not known what came of an action."""
        call_id = self.metadata.get(DEFERRED_CALL)
        return call_id if isinstance(call_id, str) else None

    @property
    def prompt(self) -> str:
        """What a person is asked, as an approval request has it."""
        return self.reason

    def to_metadata(self) -> JsonObject:
        """The request as JSON, every key present."""
        return as_object(to_json_value(self))


@value
class RecoveryRetried:
    """Run the action again; `attempt` is the number of the new attempt."""

    request_id: str
    action_id: str
    attempt: int
    comment: str | None = None


@value
class RecoveryDone:
    """The action did happen, with this result."""

    request_id: str
    action_id: str
    result: JsonValue
    comment: str | None = None


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
    """The answer that a signal gives to a request.

    Raises:
        AgentDefinitionError: the signal is no acceptable answer to this request.
    """
    request_id = check_direction(signal, request_id=request.id, agent_state_id=request.agent_state_id)
    decision = read_decision(signal, RecoveryDecision, request.allowed_decisions)
    comment = read_comment(signal)
    match decision:
        case RecoveryDecision.RETRY:
            return RecoveryRetried(request_id, request.action_id, request.attempt + 1, comment)
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


def check_agent_recovery_decision(
    request: AgentRecoveryRequest, signal: AgentSignal
) -> RecoveryAnswer | DecisionRefusal:
    """The answer, or why the signal is none; a refusal goes to its sender and leaves the request open."""
    try:
        return parse_agent_recovery_decision_signal(signal, request=request)
    except DecisionRefusedError as error:
        return error.refusal


def materialize_agent_recovery_decision_state(current: AgentState, answer: RecoveryAnswer) -> AgentState:
    """The run after the answer: running again, failed, or on its way to being cancelled.

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

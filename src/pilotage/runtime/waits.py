"""Questions to people: asked once, answered once, used up by one attempt.

A question is an action of its own, so it has the same id after a restart. Using an answer up and beginning
what it allows are one commit.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import assert_never, cast

from pilotage.agent.approval_decision import (
    AgentApprovalDecisionOutcome,
    ApprovalAccepted,
    ApprovalExpired,
    check_agent_approval_decision,
)
from pilotage.agent.ports.journal import JournalStage
from pilotage.agent.recovery import AgentActionKind
from pilotage.agent.recovery_request import (
    AgentRecoveryRequest,
    RecoveryAnswer,
    RecoveryCancelled,
    RecoveryDone,
    RecoveryFailed,
    RecoveryRetried,
    check_agent_recovery_decision,
)
from pilotage.agent.signals import AgentSignal, ApprovalDecision
from pilotage.agent.spec import RejectionPolicy
from pilotage.agent.state import AgentSituation, AgentStatus
from pilotage.agent.tools.metadata import Idempotency
from pilotage.errors import AgentStructuredOutputError, ToolError
from pilotage.ids import IClock, IIds
from pilotage.jsonvalue import JsonObject, JsonValue, to_json_value
from pilotage.runtime.action import Action
from pilotage.runtime.call import Call
from pilotage.runtime.interruptions import Paused, RunDiverged, RunEnded
from pilotage.runtime.ledger import Ledger
from pilotage.runtime.recording import Recording
from pilotage.runtime.wait_record import decode_approval, decode_recovery, encode_request


class Waits:
    """Asks and takes in answers for one attempt at a run. `open` holds the records of unanswered questions."""

    def __init__(
        self,
        ledger: Ledger,
        recording: Recording,
        answers: Mapping[str, Sequence[AgentSignal]],
        clock: IClock,
        ids: IIds,
        on_rejection: RejectionPolicy,
    ) -> None:
        self.open: dict[str, JsonObject] = {}
        self._ledger = ledger
        self._recording = recording
        self._answers = answers
        self._clock = clock
        self._ids = ids
        self._on_rejection = on_rejection

    def approved_arguments(self, call: Call, attempt: int) -> JsonObject | None:
        """Return when a person allows the call: None as asked for, or the arguments to use instead.

        Raises:
            Paused: nobody has answered yet.
            RunEnded: the answer ends the run.
            ToolError: the answer is no, and the agent is to hear it and go on.
        """
        if call.ask is None:
            raise ToolError(f"{call.action.name!r} needs an approval, and nobody can be asked about it")
        wait = _wait_for(call.action, "approval")
        recorded = self._recording.take(wait)
        if recorded is not None and recorded.after is not None:
            return self._obey(cast(JsonObject, recorded.after.record))
        if recorded is None:
            request = call.ask(self._new_id(), attempt)
            self._ask(wait, encode_request(request))
            raise Paused(request.id)
        request = decode_approval(cast(JsonValue, recorded.row.record))
        if call.descriptor and not request.covers(call.descriptor, cast(JsonObject, call.action.asked)):
            raise RunDiverged(
                wait.id, f"{call.action.name!r} is not the tool any more that a person was asked about"
            )
        deferred: AgentApprovalDecisionOutcome | None = None
        for signal in self._take_answers(request.id):
            now = self._clock.now()
            checked = check_agent_approval_decision(request, signal, now, descriptor=call.descriptor)
            if not isinstance(checked, ApprovalAccepted | ApprovalExpired):
                continue
            if checked.outcome.decision is not ApprovalDecision.DEFER:
                return self._answered(wait, checked.outcome)
            deferred = checked.outcome
        if deferred is not None:
            self._go_on()
            self._ledger.move(self._ledger.state.moved_to(deferred.situation, activity="approval deferred"))
        raise self._still_open(encode_request(request))

    def recovered(self, call: Call, attempt: int) -> RecoveryRetried | RecoveryDone:
        """Return when a person says what became of an attempt whose outcome is unknown.

        Raises:
            Paused: nobody has answered yet.
            RunEnded: the answer ends the run.
        """
        wait = _wait_for(call.action, f"recovery{attempt}")
        recorded = self._recording.take(wait)
        if recorded is None:
            request = AgentRecoveryRequest(
                id=self._new_id(),
                agent_state_id=self._ledger.run.run_id,
                action_id=call.action.id,
                attempt=attempt,
                reason=f"It is not known whether attempt {attempt} of {call.action.name!r} took effect.",
                action_kind=call.action.kind,
                action_name=call.action.name,
                arguments={"view": call.action.view},
            )
            self._ask(wait, encode_request(request))
            raise Paused(request.id)
        if recorded.after is not None:
            return _read_answer(cast(JsonObject, recorded.after.record))
        request = decode_recovery(cast(JsonValue, recorded.row.record))
        for signal in self._take_answers(request.id):
            answer = check_agent_recovery_decision(request, signal)
            if isinstance(answer, RecoveryDone) and not _fits(call, answer):
                continue
            if isinstance(answer, RecoveryRetried | RecoveryDone | RecoveryFailed | RecoveryCancelled):
                return self._recovery_answered(wait, answer)
        raise self._still_open(encode_request(request))

    def _take_answers(self, request_id: str) -> Sequence[AgentSignal]:
        """All answers to a request, in the order they came; the first that counts is used, all are used up."""
        answers = self._answers.get(request_id, ())
        for signal in answers:
            self._ledger.consume(signal.id)
        return answers

    def _still_open(self, request: JsonObject) -> Paused:
        request_id = cast(str, request["id"])
        self.open[request_id] = request
        return Paused(request_id)

    def _go_on(self) -> None:
        """The first of several answers makes a waiting run an active one; the others find it so."""
        if self._ledger.state.status is AgentStatus.INTERRUPTED:
            state = self._ledger.state.moved_to(AgentSituation.RUNNING, activity="a person has answered")
            self._ledger.move(state)

    def _new_id(self) -> str:
        """Begins with the run's id, so that an answer finds its run; nobody can guess the rest."""
        return f"{self._ledger.run.run_id}:{self._ids.uid()}"

    def _ask(self, wait: Action, request: JsonObject) -> None:
        self._ledger.append(wait, JournalStage.BEFORE, 1, request, request)
        self.open[cast(str, request["id"])] = request

    def _answered(self, wait: Action, outcome: AgentApprovalDecisionOutcome) -> JsonObject | None:
        record: JsonObject = {
            "decision": outcome.decision.value,
            "modified_payload": outcome.modified_payload,
            "comment": outcome.comment,
        }
        self._ledger.append(wait, JournalStage.AFTER, 1, record, record)
        self._go_on()
        return self._obey(record)

    def _obey(self, record: JsonObject) -> JsonObject | None:
        comment = record["comment"] or "no reason given"
        match ApprovalDecision(cast(str, record["decision"])):
            case ApprovalDecision.APPROVE:
                return None
            case ApprovalDecision.MODIFY:
                return cast(JsonObject, record["modified_payload"])
            case ApprovalDecision.REJECT if self._on_rejection is RejectionPolicy.TELL_MODEL:
                raise ToolError(f"a person rejected this call: {comment}")
            case ApprovalDecision.REJECT | ApprovalDecision.DEFER:
                raise RunEnded(AgentSituation.APPROVAL_REJECTED, f"a person rejected the call: {comment}")
            case ApprovalDecision.CANCEL:
                raise RunEnded(AgentSituation.CANCELLING, f"a person cancelled the run: {comment}")

    def _recovery_answered(self, wait: Action, answer: RecoveryAnswer) -> RecoveryRetried | RecoveryDone:
        record = _write_answer(answer)
        self._ledger.append(wait, JournalStage.AFTER, 1, record, record)
        match answer:
            case RecoveryRetried() | RecoveryDone():
                self._go_on()
                return answer
            case RecoveryFailed():
                raise RunEnded(
                    AgentSituation.FAILED, answer.comment or "a person decided that the run failed"
                )
            case RecoveryCancelled():
                raise RunEnded(AgentSituation.CANCELLING, answer.comment or "a person cancelled the run")
            case _:
                assert_never(answer)


def _fits(call: Call, answer: RecoveryDone) -> bool:
    """Whether the result a person gives is one the call could have had."""
    try:
        call.decode(answer.result)
    except AgentStructuredOutputError:
        return False
    return True


def _write_answer(answer: RecoveryAnswer) -> JsonObject:
    return {"answer": type(answer).__name__, **cast(JsonObject, to_json_value(answer))}


def _read_answer(record: JsonObject) -> RecoveryRetried | RecoveryDone:
    """An answer that lets the run go on; the others have ended it."""
    request_id, action_id = cast(str, record["request_id"]), cast(str, record["action_id"])
    if record["answer"] == RecoveryDone.__name__:
        return RecoveryDone(request_id, action_id, record["result"])
    return RecoveryRetried(request_id, action_id, cast(int, record["attempt"]))


def _wait_for(action: Action, what: str) -> Action:
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

"""Questions to people: asked once, answered once, used up by one attempt.

A question is an action of its own, so it has the same id after a restart. Using an answer up and beginning
what it allows are one commit.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import assert_never, cast

from pilotage.agent.approval import AgentApprovalRequest
from pilotage.agent.approval_decision import (
    AgentApprovalDecisionOutcome,
    ApprovalAccepted,
    ApprovalExpired,
    check_agent_approval_decision,
    expired_approval_outcome,
)
from pilotage.agent.facts import approval_requested
from pilotage.agent.ports.journal import JournalStage
from pilotage.agent.recovery import AgentActionKind
from pilotage.agent.recovery_request import (
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
from pilotage.errors import ToolError
from pilotage.ids import IClock, IIds
from pilotage.jsonvalue import JsonObject, JsonValue
from pilotage.runtime.effect import Call
from pilotage.runtime.exposure.redactor import Redactor
from pilotage.runtime.journal.action import Action
from pilotage.runtime.journal.interruptions import Paused, RunDiverged, RunEnded
from pilotage.runtime.journal.ledger import Ledger
from pilotage.runtime.journal.recording import Recording
from pilotage.runtime.people.questions import (
    APPROVAL,
    RESULT,
    Ask,
    answered_by,
    approval_question,
    decode_approval,
    decode_recovery,
    encode_request,
    fits,
    guarded_answer,
    read_answer,
    recovery_question,
    result_question,
    wait_for,
    write_answer,
)

_NOBODY: JsonObject = {}


class Questions:
    """Asks and takes in answers for one attempt at a run. `open` holds the records of unanswered questions."""

    def __init__(
        self,
        ledger: Ledger,
        recording: Recording,
        answers: Mapping[str, Sequence[AgentSignal]],
        clock: IClock,
        ids: IIds,
        on_rejection: RejectionPolicy,
        redactor: Redactor | None = None,
    ) -> None:
        self._redactor = redactor or Redactor()
        self.open: dict[str, JsonObject] = {}
        self._ledger = ledger
        self._recording = recording
        self._has_asked = recording.has_any(AgentActionKind.APPROVAL_WAIT)
        self._answers = answers
        self._clock = clock
        self._ids = ids
        self._on_rejection = on_rejection

    def was_asked(self, action_id: str) -> bool:
        """Whether a person was asked about an action: then the answer counts, whatever the gate says by now."""
        return self._has_asked and self._recording.knows(f"{action_id}/{APPROVAL}")

    def approved_arguments(self, call: Call, attempt: int, verdict: object = None) -> JsonObject | None:
        """Return when a person allows the call: None as asked for, or the arguments to use instead.

        Raises:
            Paused: nobody has answered yet.
            RunEnded: the answer ends the run, or nobody can be asked.
            ToolError: the answer is no, and the agent is to hear it and go on.
        """
        wait = wait_for(call.action, APPROVAL)
        recorded = self._recording.take(wait)
        if recorded is not None and recorded.after is not None:
            return self._obey(cast(JsonObject, recorded.after.record))
        if recorded is None:
            request = self._question(call, attempt, verdict if isinstance(verdict, Ask) else Ask())
            self._ask(wait, encode_request(request))
            raise Paused(request.id)
        request = decode_approval(cast(JsonValue, recorded.row.record))
        if call.descriptor and not request.covers(call.descriptor, cast(JsonObject, call.action.asked)):
            raise RunDiverged(
                wait.id, f"{call.action.name!r} is not the tool any more that a person was asked about"
            )
        deferred: AgentApprovalDecisionOutcome | None = None
        for signal in self._take_answers(request.id):
            # What counts is when the answer came, not when the run comes back to read it.
            answered_at = signal.created_at or self._clock.now()
            checked = check_agent_approval_decision(request, signal, answered_at, descriptor=call.descriptor)
            if not isinstance(checked, ApprovalAccepted | ApprovalExpired):
                continue
            if checked.outcome.decision is not ApprovalDecision.DEFER:
                return self._answered(call, wait, checked.outcome, answered_by(signal))
            deferred = checked.outcome
        if request.is_expired(self._clock.now()):
            return self._answered(call, wait, expired_approval_outcome(request))
        if deferred is not None:
            self.go_on()
            self._ledger.move(self._ledger.state.moved_to(deferred.situation, activity="approval deferred"))
        raise self._still_open(encode_request(request))

    def ask_only(self, call: Call) -> None:
        """Put the question without taking an answer: that belongs to the moment the call begins."""
        wait = wait_for(call.action, APPROVAL)
        recorded = self._recording.take(wait)
        if recorded is None:
            self._ask(wait, encode_request(self._question(call, 1, Ask())))
        elif recorded.after is None:
            request = cast(JsonObject, recorded.row.record)
            self.open[cast(str, request["id"])] = request

    def recovered(
        self, call: Call, attempt: int, late: tuple[JsonValue, ...] = ()
    ) -> RecoveryRetried | RecoveryDone:
        """Return when a person says what became of an attempt whose outcome is unknown; `late` helps to decide.

        Raises:
            Paused: nobody has answered yet.
            RunEnded: the answer ends the run.
        """
        wait = wait_for(call.action, f"recovery{attempt}")
        recorded = self._recording.take(wait)
        if recorded is None:
            request = recovery_question(call, self._ledger.run.run_id, self._new_id(), attempt, late)
            self._ask(wait, encode_request(request))
            raise Paused(request.id)
        if recorded.after is not None:
            return read_answer(cast(JsonObject, recorded.after.record))
        request = decode_recovery(cast(JsonValue, recorded.row.record))
        for signal in self._take_answers(request.id):
            answer = check_agent_recovery_decision(request, signal)
            if isinstance(answer, RecoveryDone) and not fits(call, answer):
                continue
            if isinstance(answer, RecoveryRetried | RecoveryDone | RecoveryFailed | RecoveryCancelled):
                return self._recovery_answered(call, wait, answer, answered_by(signal))
        raise self._still_open(encode_request(request))

    def given_result(self, call: Call) -> RecoveryDone:
        """Return when somebody outside says what came of a call that he carries out.

        Raises:
            Paused: nobody has said so yet.
            RunEnded: the answer ends the run.
        """
        wait = wait_for(call.action, RESULT)
        recorded = self._recording.take(wait)
        if recorded is None:
            raise Paused(self._ask_for_result(call, wait))
        if recorded.after is not None:
            return cast(RecoveryDone, read_answer(cast(JsonObject, recorded.after.record)))
        request = decode_recovery(cast(JsonValue, recorded.row.record))
        for signal in self._take_answers(request.id):
            answer = check_agent_recovery_decision(request, signal)
            if isinstance(answer, RecoveryDone | RecoveryCancelled):
                return cast(RecoveryDone, self._recovery_answered(call, wait, answer, answered_by(signal)))
        raise self._still_open(encode_request(request))

    def ask_for_result(self, call: Call) -> None:
        """Say that a call is somebody else's to carry out, without taking what came of it."""
        wait = wait_for(call.action, RESULT)
        recorded = self._recording.take(wait)
        if recorded is None:
            self._ask_for_result(call, wait)
        elif recorded.after is None:
            self._still_open(cast(JsonObject, recorded.row.record))

    def _ask_for_result(self, call: Call, wait: Action) -> str:
        request = result_question(call, self._ledger.run.run_id, self._new_id())
        self._ask(wait, encode_request(request))
        return request.id

    def is_new(self, call: Call, attempt: int) -> bool:
        """Whether nobody was asked yet what became of an attempt."""
        return not self._recording.knows(f"{call.action.id}/recovery{attempt}")

    def answered_by_handler(self, call: Call, attempt: int, answer: RecoveryRetried | RecoveryDone) -> None:
        """Write down what the application's own handler said, as if a person had: replay does not ask it again."""
        wait = wait_for(call.action, f"recovery{attempt}")
        request = recovery_question(call, self._ledger.run.run_id, self._new_id(), attempt)
        asked, answered = encode_request(request), write_answer(answer)
        self._ledger.append(wait, JournalStage.BEFORE, 1, asked, asked)
        self._ledger.append(wait, JournalStage.AFTER, 1, answered, guarded_answer(call, answered))

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

    def go_on(self, activity: str = "a person has answered") -> None:
        """The first of several answers makes a waiting run an active one; the others find it so."""
        if self._ledger.state.status is AgentStatus.INTERRUPTED:
            state = self._ledger.state.moved_to(AgentSituation.RUNNING, activity=activity)
            self._ledger.move(state)

    def _new_id(self) -> str:
        """Begins with the run's id, so that an answer finds its run; nobody can guess the rest."""
        return f"{self._ledger.run.run_id}:{self._ids.uid()}"

    def _question(self, call: Call, attempt: int, verdict: Ask) -> AgentApprovalRequest:
        return approval_question(call, self._ledger.run.run_id, self._new_id(), attempt, verdict)

    def _ask(self, wait: Action, request: JsonObject) -> None:
        if not self._ledger.is_kept:
            words = (
                f"{wait.name!r} needs an answer from a person, and nobody keeps this run while it waits. Make the "
                "agent durable: AgentExecutionSpec(recovery=RecoveryStrategy.ACTION_BOUNDARY)."
            )
            raise RunEnded(AgentSituation.FAILED, words, code="agent_approval_unavailable")
        request = self._redactor.json(request)
        self._ledger.append(wait, JournalStage.BEFORE, 1, request, request)
        self._ledger.report(approval_requested(self._ledger.state, request, wait.name))
        self.open[cast(str, request["id"])] = request

    def _answered(
        self, call: Call, wait: Action, outcome: AgentApprovalDecisionOutcome, by: JsonObject = _NOBODY
    ) -> JsonObject | None:
        record: JsonObject = {
            "decision": outcome.decision.value,
            "modified_payload": outcome.modified_payload,
            "comment": outcome.comment,
            **by,
        }
        self._ledger.append(wait, JournalStage.AFTER, 1, record, guarded_answer(call, record))
        self.go_on()
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

    def _recovery_answered(
        self, call: Call, wait: Action, answer: RecoveryAnswer, by: JsonObject
    ) -> RecoveryRetried | RecoveryDone:
        record = {**write_answer(answer), **by}
        self._ledger.append(wait, JournalStage.AFTER, 1, record, guarded_answer(call, record))
        match answer:
            case RecoveryRetried() | RecoveryDone():
                self.go_on()
                return answer
            case RecoveryFailed():
                raise RunEnded(
                    AgentSituation.FAILED, answer.comment or "a person decided that the run failed"
                )
            case RecoveryCancelled():
                raise RunEnded(AgentSituation.CANCELLING, answer.comment or "a person cancelled the run")
            case _:
                assert_never(answer)

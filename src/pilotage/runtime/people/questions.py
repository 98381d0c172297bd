"""Questions to people: asked once, answered once, used up by one attempt.

A question is an effect with an action of its own, so it has the same id after a restart: its first row is the request,
its second one the answer. Using an answer up and beginning what it allows are one commit.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Mapping, Sequence
from typing import TypeVar

from pilotage.agent.approval import AgentApprovalRequest, ApprovalTerms
from pilotage.agent.decisions import (
    ApprovalAccepted,
    ApprovalExpired,
    check_agent_approval_decision,
    expired_approval_outcome,
)
from pilotage.agent.facts import approval_requested
from pilotage.agent.ports.persistence import JournalRow
from pilotage.agent.recovery_request import (
    AgentRecoveryRequest,
    OpenAction,
    RecoveryCancelled,
    RecoveryDone,
    RecoveryFailed,
    RecoveryRetried,
    check_agent_recovery_decision,
)
from pilotage.agent.signals import AgentSignal, ApprovalDecision, RejectionPolicy
from pilotage.agent.state import AgentSituation, AgentStatus
from pilotage.errors import ToolError
from pilotage.ids import IClock, IIds
from pilotage.jsonvalue import JsonObject, JsonValue
from pilotage.runtime.effect import QUESTION, Ask, Effect, Outcome
from pilotage.runtime.exposure.redactor import Redactor, secretless
from pilotage.runtime.journal import stored_words as words
from pilotage.runtime.journal.interruptions import Paused, RunEnded
from pilotage.runtime.journal.ledger import Ledger
from pilotage.runtime.journal.question_record import (
    decode_approval,
    decode_recovery,
    decode_recovery_answer,
    encode_approval_answer,
    encode_question,
    encode_recovery_answer,
)
from pilotage.runtime.journal.record_fields import optional_object, optional_text, record_of, text_field
from pilotage.runtime.people.answers import by_precedence
from pilotage.runtime.people.requests import (
    RequestPlace,
    approval_request,
    decided_by,
    fits,
    guarded_answer,
    outdated_reason,
    question_action,
    recovery_request,
    result_request,
)

T = TypeVar("T")

_NOT_ASKED: JsonObject = {}
_BOUND = ("id", "agent_state_id", "argument_digest", "tool_digest", "binding", "expires_at")
"""The fields that bind a request to its call: ids, digests and a time, no text. No redaction policy may change it."""
_GOING_ON = frozenset({words.RETRIED, words.DONE})
_ANSWERED = frozenset({words.DONE, words.FAILED})
"""The answers to a question of the program with which it goes on: a person who declines gives one."""


class Questions:
    """The questions of one attempt at a run. `open` holds the records of those without an answer, by request id."""

    def __init__(
        self,
        ledger: Ledger,
        answers: Mapping[str, Sequence[AgentSignal]],
        on_rejection: RejectionPolicy,
        redactor: Redactor,
        clock: IClock,
        ids: IIds,
    ) -> None:
        self.open: dict[str, JsonObject] = {}
        self.clock = clock
        self.ledger = ledger
        self.redactor = redactor
        self._answers = answers
        self._ids = ids
        self._on_rejection = on_rejection
        self._asked: dict[str, Question] = {}

    def place(self, attempt: int = 1) -> RequestPlace:
        """Return where a new request stands. Its id begins with the run's, so that an answer finds its run."""
        run_id = self.ledger.run.run_id
        return RequestPlace(run_id, f"{run_id}:{self._ids.uid()}", attempt)

    def use_up(self, request_id: str, read: Callable[[AgentSignal], T | None]) -> T | None:
        """Take all answers to a request; return what `read` makes of the first one that counts, None without one.

        An answer that is none to the run, and every one after the first that counts, is refused and stored as evidence.
        """
        found: T | None = None
        for signal in by_precedence(self._answers.get(request_id, ())):
            is_deferral = signal.payload.get(words.DECISION) == ApprovalDecision.DEFER.value
            answer = read(signal) if found is None else None
            if answer is None and not is_deferral:
                self.ledger.refuse_signal(signal.id)
            else:
                self.ledger.consume_signal(signal.id)
            found = answer if found is None else found
        return found

    def wait_for(self, question: Question) -> Paused:
        """Register an open question and return the pause of the call that waits for it."""
        request_id = text_field(question.request, words.ID)
        self.open[request_id], self._asked[request_id] = question.request, question
        return Paused(request_id)

    def withdraw(self, request_ids: Sequence[str]) -> list[Question]:
        """Return the open questions of this run with these ids, which are not open any more."""
        for request_id in request_ids:
            self.open.pop(request_id, None)
        return [self._asked.pop(each) for each in request_ids if each in self._asked]

    def resume_run(self, activity: str = "a person has answered") -> None:
        """Move a waiting run to RUNNING; with the second of several answers it is running already."""
        if self.ledger.state.status is AgentStatus.INTERRUPTED:
            self.ledger.change_state(self.ledger.state.moved_to(AgentSituation.RUNNING, activity=activity))

    def obey(self, answer: JsonObject, *, is_optional: bool = False) -> JsonObject | None:
        """Return when the answer to an approval lets the effect begin: None as asked for, or other arguments.

        A rejection of an optional effect does not end the run.

        Raises:
            RunEnded: the answer ends the run.
            ToolError: the answer is a rejection; the agent gets the error and continues.
        """
        comment = optional_text(answer, words.COMMENT) or "no reason given"
        match ApprovalDecision(text_field(answer, words.DECISION)):
            case ApprovalDecision.APPROVE:
                return None
            case ApprovalDecision.MODIFY:
                return optional_object(answer, words.MODIFIED_PAYLOAD)
            case ApprovalDecision.REJECT if is_optional or self._on_rejection is RejectionPolicy.TELL_MODEL:
                raise ToolError(f"a person rejected this call: {comment}")
            case ApprovalDecision.REJECT | ApprovalDecision.DEFER:
                raise RunEnded(AgentSituation.APPROVAL_REJECTED, f"a person rejected the call: {comment}")
            case ApprovalDecision.CANCEL:
                raise RunEnded(AgentSituation.CANCELLING, f"a person cancelled the run: {comment}")


class Question(Effect):
    """A question about another effect. Its result is the record of the answer; until there is one it pauses."""

    kind = QUESTION

    def __init__(self, questions: Questions, about: Effect, what: str) -> None:
        super().__init__(about.scope, question_action(about, what))
        self._questions = questions
        self._about = about
        self.number = about.number
        self.request = _NOT_ASKED
        """The record of the request."""

    @abstractmethod
    def _new_request(self) -> AgentApprovalRequest | AgentRecoveryRequest: ...

    @abstractmethod
    def _answer(self, request: JsonObject) -> JsonObject | None:
        """Return the record of the first answer that counts; None while there is none."""

    def asked(self) -> tuple[JsonObject, JsonObject]:
        ledger = self._questions.ledger
        if not ledger.is_durable:
            why = self._about.ask.reason if self._about.ask is not None else None
            reason = (
                f"{self.action.name!r} needs an answer from a person{f' ({why})' if why else ''}, and an ephemeral run "
                "cannot wait for one. "
                "Make the agent durable: AgentExecutionSpec(recovery=RecoveryStrategy.ACTION_BOUNDARY)."
            )
            raise RunEnded(AgentSituation.FAILED, reason, code="agent_approval_unavailable")
        request = encode_question(self._new_request())
        bound = {name: request[name] for name in _BOUND if name in request}
        self.request = {**self._questions.redactor.json(request), **bound}
        self.begins = approval_requested(ledger.state, self.request, self.action.name)
        return self.request, self.request

    def take_up(self, row: JournalRow) -> None:
        """Go on with the request that an earlier attempt recorded."""
        self.request = record_of(row)

    async def act(self) -> object:
        answer = self._answer(self.request)
        if answer is None:
            raise self._questions.wait_for(self)
        redactor = self._questions.redactor
        answer = secretless(answer, redactor)
        if self._about.when_answered is not None:
            self._about.when_answered(answer)
        elif self._lets_run_go_on(answer):
            self._questions.resume_run()
        return Outcome(answer, guarded_answer(self._about, answer, redactor), answer)

    def _lets_run_go_on(self, answer: JsonObject) -> bool:
        """Return whether the run is running again with the answer, for every answer."""
        return True

    def reuse(self, record: JsonObject) -> object:
        return record


class ApprovalQuestion(Question):
    """Whether an effect may begin."""

    def __init__(
        self, questions: Questions, about: Effect, ask: Ask, terms: ApprovalTerms, number: int = 1
    ) -> None:
        super().__init__(questions, about, approval_label(number))
        self._ask = ask
        self._terms = terms

    def _new_request(self) -> AgentApprovalRequest:
        return approval_request(self._about, self._questions.place(), self._ask).bound_to(self._terms)

    def _answer(self, request: JsonObject) -> JsonObject | None:
        asked, tool, questions = decode_approval(request), self._about.descriptor, self._questions
        outdated = outdated_reason(self._about, asked, self._terms, questions.redactor)
        if outdated is not None:
            questions.use_up(asked.id, lambda _: None)
            return {words.OUTDATED: outdated}
        deferred: list[AgentSituation] = []

        def read(signal: AgentSignal) -> JsonObject | None:
            # The time of the answer counts, not the time when the run reads it.
            answered_at = signal.created_at or questions.clock.now()
            checked = check_agent_approval_decision(asked, signal, answered_at, descriptor=tool)
            if not isinstance(checked, ApprovalAccepted | ApprovalExpired):
                return None
            if checked.outcome.decision is ApprovalDecision.DEFER:
                deferred.append(checked.outcome.situation)
                return None
            return encode_approval_answer(checked.outcome, decided_by(signal))

        answer = questions.use_up(asked.id, read)
        if answer is None and asked.is_expired(questions.clock.now()):
            return encode_approval_answer(expired_approval_outcome(asked))
        if answer is None and deferred:
            questions.resume_run()
            state = questions.ledger.state.moved_to(deferred[-1], activity="approval deferred")
            questions.ledger.change_state(state)
        return answer


class RecoveryQuestion(Question):
    """The question about an unknown outcome of an attempt; `late` has outcomes that a former owner reported.

    `known` is the answer of the application's own handler: recorded as if a person had given it.
    """

    def __init__(
        self,
        questions: Questions,
        about: Effect,
        attempt: int,
        late: tuple[JsonValue, ...] = (),
        known: RecoveryRetried | RecoveryDone | None = None,
    ) -> None:
        super().__init__(questions, about, recovery_label(attempt))
        self._attempt = attempt
        self._late = late
        self._known = known
        self.inside: tuple[OpenAction, ...] = ()
        """The open actions inside of the one that it is about."""

    def _new_request(self) -> AgentRecoveryRequest:
        place = self._questions.place(self._attempt)
        return recovery_request(self._about, place, self._late, self.inside)

    def _answer(self, request: JsonObject) -> JsonObject | None:
        if self._known is not None:
            return encode_recovery_answer(self._known)
        asked = decode_recovery(request)

        def read(signal: AgentSignal) -> JsonObject | None:
            answer = check_agent_recovery_decision(asked, signal)
            if isinstance(answer, RecoveryDone) and not fits(self._about, answer):
                return None
            if isinstance(answer, RecoveryRetried | RecoveryDone | RecoveryFailed | RecoveryCancelled):
                return encode_recovery_answer(answer, decided_by(signal))
            return None

        return self._questions.use_up(asked.id, read)

    def _lets_run_go_on(self, answer: JsonObject) -> bool:
        return self._known is None and answer[words.ANSWER] in _GOING_ON


class ResultQuestion(Question):
    """The question for the result of a call that the caller of the run performs, or for an answer of a person."""

    def __init__(self, questions: Questions, about: Effect) -> None:
        super().__init__(questions, about, words.RESULT)

    def _new_request(self) -> AgentRecoveryRequest:
        return result_request(self._about, self._questions.place())

    def _answer(self, request: JsonObject) -> JsonObject | None:
        asked = decode_recovery(request)

        def read(signal: AgentSignal) -> JsonObject | None:
            answer = check_agent_recovery_decision(asked, signal)
            if isinstance(answer, RecoveryDone | RecoveryFailed | RecoveryCancelled):
                return encode_recovery_answer(answer, decided_by(signal))
            return None

        return self._questions.use_up(asked.id, read)

    def _lets_run_go_on(self, answer: JsonObject) -> bool:
        return answer[words.ANSWER] in (_GOING_ON if self._about.wanted is None else _ANSWERED)


def approval_label(number: int) -> str:
    """Return the label of a question for approval: the first one of an action, or one that is asked anew."""
    return words.APPROVAL if number == 1 else f"{words.APPROVAL}{number}"


def recovery_label(attempt: int) -> str:
    """Return the label of the question about an attempt."""
    return f"{words.RECOVERY}{attempt}"


def obey_recovery(answer: JsonObject) -> RecoveryRetried | RecoveryDone:
    """Return an answer about an unknown outcome that lets the run go on.

    Raises:
        RunEnded: the answer ends the run.
    """
    match decode_recovery_answer(answer):
        case RecoveryFailed(comment=comment):
            raise RunEnded(AgentSituation.FAILED, comment or "a person decided that the run failed")
        case RecoveryCancelled(comment=comment):
            raise RunEnded(AgentSituation.CANCELLING, comment or "a person cancelled the run")
        case decoded:
            return decoded

"""Accepting answers: the first valid one other than DEFER closes its question, for every process and every way in."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from contextlib import suppress
from dataclasses import field, replace
from datetime import datetime

from pilotage.agent.approval import AgentApprovalRequest
from pilotage.agent.decisions import foreign_field, is_same_answer
from pilotage.agent.ports.observability import AuditEntry
from pilotage.agent.ports.persistence import RunKey
from pilotage.agent.principal import Principal
from pilotage.agent.recovery_request import RecoveryDecision
from pilotage.agent.signals import AgentSignal, AgentSignalEnd, AgentSignalKind, ApprovalDecision
from pilotage.agent.state import AgentState
from pilotage.errors import AnswerConflictError, CallerError
from pilotage.jsonvalue import JsonObject, empty_object
from pilotage.runtime.exposure.redactor import Redactor
from pilotage.runtime.journal import stored_words as words
from pilotage.runtime.open_questions import AskedQuestion, OpenQuestions
from pilotage.runtime.people.answers import (
    ClosingAnswer,
    answer_keys,
    closing_answer,
    conflict_of,
    conflict_of_several,
    refusal_of_several,
    refused_answer,
    refused_evidence,
    unique_answers,
)
from pilotage.runtime.people.requests import DECIDED_BY
from pilotage.runtime.sending import SignalSender
from pilotage.runtime.services import Services
from pilotage.values import value

_DECISIONS = frozenset([*ApprovalDecision, *RecoveryDecision])
_NEVER_LATE = (ApprovalDecision.REJECT.value, ApprovalDecision.DEFER.value)


@value
class GivenAnswer:
    """An answer to one of several questions; `details` as in `AgentRuns.answer`: comment, modified payload, result."""

    request_id: str
    decision: ApprovalDecision | RecoveryDecision
    details: JsonObject = field(default_factory=empty_object)

    @property
    def payload(self) -> JsonObject:
        """The answer as a signal carries it."""
        return {words.REQUEST_ID: self.request_id, words.DECISION: str(self.decision), **self.details}


@value
class AcceptedAnswer:
    """An answer that is stored, or was before: the run that asked, its signal, and whether the run has to go on.

    `expired_at` is set where the question expired before this answer came: the run takes it as a rejection.
    """

    run: AgentState
    request_id: str
    signal: AgentSignal
    lets_go_on: bool
    expired_at: datetime | None = None


class _GivenAnswer:
    """An answer that fits its question, and the id that its signal is stored by."""

    def __init__(self, asked: AskedQuestion, answer: JsonObject, by: Principal, deferral_id: str) -> None:
        self.asked = asked
        self.answer = answer
        self.by = by
        self.request_id = asked.question.id
        self.decision = str(answer.get(words.DECISION))
        self._is_deferral = self.decision == ApprovalDecision.DEFER.value
        self._keys = iter([deferral_id]) if self._is_deferral else answer_keys(self.request_id)
        self.key = next(self._keys)

    @property
    def payload(self) -> JsonObject:
        """The answer as it is stored."""
        return {**self.answer, DECIDED_BY: self.by.id}

    def counts(self, stored: AgentSignal) -> ClosingAnswer | None:
        """Return the answer that counts where a signal is stored by the key; None where the run has refused it.

        Then the key is followed by the next one. The first signal with the id of a deferral stands for it.
        """
        if self._is_deferral:
            return replace(closing_answer(self.request_id, stored), payload=self.answer)
        if stored.end is AgentSignalEnd.REFUSED:
            self.key = next(self._keys)
            return None
        return closing_answer(self.request_id, stored)

    def contradicts(self, counts: ClosingAnswer | None) -> bool:
        """Return whether another answer counts."""
        return counts is not None and not is_same_answer(counts.payload, self.answer)

    def accepted(self, counts: ClosingAnswer) -> AcceptedAnswer:
        """Return the answer that counts, which is the same; after a deferral no run goes on."""
        kind, run = AgentSignalKind.APPROVAL_DECISION, self.asked.run
        closed = AgentSignal(counts.request_id, run.id, kind, self.answer, counts.at)
        signal = counts.signal or replace(closed, end=AgentSignalEnd.TAKEN)
        lets_go_on = signal.end is None and not self._is_deferral
        return AcceptedAnswer(run, self.request_id, signal, lets_go_on, _expired_at(self.asked, counts))


class AnswerAcceptance:
    """Checks answers and stores the first one to each question."""

    def __init__(self, services: Services, questions: OpenQuestions, sender: SignalSender) -> None:
        self._services = services
        self._questions = questions
        self._sender = sender

    async def accept(
        self, state: AgentState, answer: JsonObject, by: Principal, signal_id: str | None = None
    ) -> AcceptedAnswer:
        """Store an answer to a question of a run or its child runs; the same answer again is confirmed.

        `signal_id` is the deduplication key of a deferral; every other answer has the key of its question.

        Raises:
            AnswerConflictError: the question has another answer; this one is recorded as evidence.
            CallerError: there is no such question, or the answer does not fit it: nothing was answered.
        """
        (accepted,) = await self._stored([await self._checked(state, answer, by, signal_id)])
        return accepted

    async def accept_all(
        self, state: AgentState, answers: Sequence[JsonObject], by: Principal
    ) -> tuple[AcceptedAnswer, ...]:
        """Store answers to several questions in one commit: all of them, or none.

        Raises:
            AnswerConflictError: a question has another answer, or has expired; the error says which others count.
            CallerError: there is no such question, or an answer does not fit it: nothing was answered.
        """
        checked: list[_GivenAnswer] = []
        for answer in unique_answers(answers):
            try:
                checked.append(await self._checked(state, answer, by))
                self._refuse_expired(checked[-1])
            except CallerError as error:
                raise refusal_of_several(error, str(answer.get(words.REQUEST_ID)), len(answers)) from error
        return await self._stored(checked)

    async def _checked(
        self, state: AgentState, answer: JsonObject, by: Principal, signal_id: str | None = None
    ) -> _GivenAnswer:
        """Return an answer that fits its question, as it may be stored."""
        foreign = foreign_field(answer)
        if foreign is not None:
            raise CallerError(f"{foreign} Nothing was answered.")
        asked = await self._asked(state, answer)
        # The answer that is stored holds no secret, and is compared with others as it is stored.
        answer = self._sender.redacted(asked.run, _signal_of("-", asked.run, answer)).payload
        if signal_id is None and answer.get(words.DECISION) == ApprovalDecision.DEFER.value:
            signal_id = self._services.ids.uid()
        return _GivenAnswer(asked, answer, by, signal_id or "")

    async def _asked(self, state: AgentState, answer: JsonObject) -> AskedQuestion:
        """Return the question that an answer fits, open or answered."""
        request_id = answer.get(words.REQUEST_ID)
        asked = await self._questions.find(state, request_id) if isinstance(request_id, str) else None
        if asked is None or not (asked.is_open or asked.answer):
            raise CallerError(f"run {state.id!r} waits for no answer to request {request_id!r}.")
        if asked.answer is not None and answer.get(words.DECISION) in _DECISIONS:
            return asked
        refusal = self._questions.refusal(asked.question, answer)
        if refusal is not None:
            raise CallerError(refusal if asked.answer is not None else f"{refusal} The request stays open.")
        return asked

    def _refuse_expired(self, given: _GivenAnswer) -> None:
        """Refuse an answer to a question that has expired, and that its run has not closed yet."""
        asked, now = given.asked, self._services.clock.now()
        counts = ClosingAnswer(given.request_id, given.decision, given.by.id, now, given.answer)
        if asked.answer is None and (expired_at := _expired_at(asked, counts)) is not None:
            raise too_late(asked.run, given.request_id, expired_at)

    async def _stored(self, given: Sequence[_GivenAnswer]) -> tuple[AcceptedAnswer, ...]:
        """Store checked answers, all of them or none; one that says the same as the first to its question is confirmed.

        Each round stores everything that is left, or finds the answers that came first.

        Raises:
            AnswerConflictError: a question has another answer.
        """
        accepted: dict[str, AcceptedAnswer] = {}
        counting = {each.request_id: each.asked.answer for each in given if each.asked.answer is not None}
        left = list(given)
        while True:
            conflicts = [each for each in left if each.contradicts(counting.get(each.request_id))]
            accepted |= {
                each.request_id: each.accepted(counting[each.request_id])
                for each in left
                if each.request_id in counting and each not in conflicts
            }
            if conflicts:
                raise await self._conflict(conflicts, counting, given, accepted)
            left = [each for each in left if each.request_id not in accepted]
            if not left:
                return tuple([accepted[each.request_id] for each in given])
            counting = await self._stored_or_first(left)

    async def _stored_or_first(self, given: Sequence[_GivenAnswer]) -> dict[str, ClosingAnswer]:
        """Store answers, or none where a question has one; return the answers that count, by request."""
        signals = [(each.asked.run, _signal_of(each.key, each.asked.run, each.payload)) for each in given]
        stored = await self._sender.store_all(signals)
        found = {each.request_id: each.counts(stored[each.key]) for each in given if each.key in stored}
        return {request_id: counts for request_id, counts in found.items() if counts is not None}

    async def _conflict(
        self,
        conflicts: Sequence[_GivenAnswer],
        counting: Mapping[str, ClosingAnswer],
        given: Sequence[_GivenAnswer],
        accepted: Collection[str],
    ) -> AnswerConflictError:
        """Record answers that were refused, and return the error for their sender."""
        for each in conflicts:
            await self._record_refused(each.asked.run, each.answer, each.by)
        first = conflicts[0]
        error = conflict_of(first.asked.run.id, first.decision, counting[first.request_id])
        return conflict_of_several(error, [each.request_id for each in given], accepted)

    async def _record_refused(self, run: AgentState, answer: JsonObject, by: Principal) -> None:
        """Keep a refused answer as evidence, and in the audit log where there is one."""
        seals = self._services.signal_seals(RunKey(run.tenant_id, run.id))
        refused = refused_answer(run.id, answer, by.id, self._redacted_comment(run, answer))
        stored = seals.opened(await self._services.signals.record_refused(seals.closed(refused)))
        log, evidence = self._services.provided.audit_log, refused_evidence(stored)
        if log is not None:
            entry = AuditEntry(
                run.id,
                by,
                f"{words.APPROVAL}.{AgentSignalEnd.REFUSED.value}",
                str(answer.get(words.DECISION)),
                stored.created_at or self._services.clock.now(),
                evidence_ref=evidence.id,
                metadata={words.REQUEST_ID: answer.get(words.REQUEST_ID)},
            )
            with suppress(Exception):
                await log.record(entry)

    def _redacted_comment(self, run: AgentState, answer: JsonObject) -> str | None:
        """Return the comment as readers of the run may see it; none where the agent's redaction is not known here."""
        comment = answer.get(words.COMMENT)
        if not isinstance(comment, str) or run.agent_type not in self._services.agent_ids:
            return None
        return Redactor(self._services.definition_of(run.agent_type).spec.redaction).text(comment)


def _signal_of(key: str, run: AgentState, answer: JsonObject) -> AgentSignal:
    return AgentSignal(key, run.id, AgentSignalKind.APPROVAL_DECISION, answer)


def _expired_at(asked: AskedQuestion, counts: ClosingAnswer) -> datetime | None:
    """Return when a question expired before its answer; None for an answer in time."""
    question = asked.question
    if not isinstance(question, AgentApprovalRequest) or counts.at is None:
        return None
    is_late = question.is_expired(counts.at) and counts.decision not in _NEVER_LATE
    return question.expires_at if is_late else None


def too_late(run: AgentState, request_id: str, expired_at: datetime) -> AnswerConflictError:
    """Return the error for the sender of an answer to a question that had expired."""
    return AnswerConflictError(
        f"question {request_id!r} of run {run.id!r} expired at {expired_at.isoformat()}, which "
        "rejects it. The answer changes nothing.",
        request_id=request_id,
        decision=ApprovalDecision.REJECT.value,
        decided_at=expired_at,
    )

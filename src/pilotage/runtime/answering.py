"""Accepting answers: the first valid one other than DEFER closes its question, for every process and every way in."""

from __future__ import annotations

from contextlib import suppress
from dataclasses import replace
from datetime import datetime

from pilotage.agent.approval import AgentApprovalRequest
from pilotage.agent.decisions import foreign_field, is_same_answer
from pilotage.agent.ports.audit import AuditEntry
from pilotage.agent.ports.journal import RunKey
from pilotage.agent.principal import Principal
from pilotage.agent.recovery_request import RecoveryDecision
from pilotage.agent.signals import AgentSignal, AgentSignalEnd, AgentSignalKind, ApprovalDecision
from pilotage.agent.state import AgentState
from pilotage.errors import AnswerConflictError, CallerError
from pilotage.jsonvalue import JsonObject
from pilotage.runtime.answers import AskedQuestion, OpenQuestions
from pilotage.runtime.exposure.redactor import Redactor
from pilotage.runtime.journal import stored_words as words
from pilotage.runtime.people.answers import (
    ClosingAnswer,
    answer_keys,
    closing_answer,
    conflict_of,
    refused_answer,
    refused_evidence,
)
from pilotage.runtime.people.requests import DECIDED_BY
from pilotage.runtime.sending import SignalSender
from pilotage.runtime.services import Services
from pilotage.values import value

_DECISIONS = frozenset([*ApprovalDecision, *RecoveryDecision])


@value
class AcceptedAnswer:
    """An answer that is stored, or was before: the run that asked, the signal, and whether the run has to go on.

    `expired_at` is set where the question expired before this answer came: the run takes it as a rejection.
    """

    run: AgentState
    signal: AgentSignal
    lets_go_on: bool
    expired_at: datetime | None = None


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
        foreign = foreign_field(answer)
        if foreign is not None:
            raise CallerError(f"{foreign} Nothing was answered.")
        asked = await self._asked(state, answer)
        # The answer that is stored holds no secret, and is compared with others as it is stored.
        answer = self._sender.redacted(asked.run, _signal_of("-", asked.run, answer)).payload
        if asked.answer is not None:
            return await self._compared(asked, asked.answer, answer, by)
        payload = {**answer, DECIDED_BY: by.id}
        if answer.get(words.DECISION) == ApprovalDecision.DEFER.value:
            key = signal_id or self._services.ids.uid()
            return AcceptedAnswer(asked.run, await self._stored(asked.run, key, payload), lets_go_on=False)
        stored = await self._first(asked, payload)
        counts = closing_answer(asked.question.id, stored)
        return await self._compared(asked, counts, answer, by)

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

    async def _first(self, asked: AskedQuestion, payload: JsonObject) -> AgentSignal:
        """Return the first answer to a question, which this one may be."""
        for key in answer_keys(asked.question.id):
            stored = await self._stored(asked.run, key, payload)
            if stored.end is not AgentSignalEnd.REFUSED:
                return stored
        raise AssertionError("a question has as many keys as it needs")

    async def _stored(self, run: AgentState, key: str, payload: JsonObject) -> AgentSignal:
        return await self._sender.store(run, _signal_of(key, run, payload))

    async def _compared(
        self, asked: AskedQuestion, counts: ClosingAnswer, answer: JsonObject, by: Principal
    ) -> AcceptedAnswer:
        """Return the answer that counts if the given one says the same.

        Raises:
            AnswerConflictError: it says something else.
        """
        if not is_same_answer(counts.payload, answer):
            await self._record_refused(asked.run, answer, by)
            raise conflict_of(asked.run.id, str(answer.get(words.DECISION)), counts)
        kind = AgentSignalKind.APPROVAL_DECISION
        closed = AgentSignal(counts.request_id, asked.run.id, kind, answer, counts.at)
        signal = counts.signal or replace(closed, end=AgentSignalEnd.TAKEN)
        return AcceptedAnswer(asked.run, signal, signal.end is None, _expired_at(asked, counts))

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
    """Return when a question expired that the answer came too late for; None for one in time, and for a rejection."""
    question = asked.question
    if not isinstance(question, AgentApprovalRequest) or counts.at is None:
        return None
    is_late = question.is_expired(counts.at) and counts.decision != ApprovalDecision.REJECT.value
    return question.expires_at if is_late else None


def too_late(accepted: AcceptedAnswer, request_id: str) -> AnswerConflictError:
    """Return the error for the sender of an answer to a question that had expired."""
    at = accepted.expired_at
    return AnswerConflictError(
        f"question {request_id!r} of run {accepted.run.id!r} expired at {at.isoformat() if at else 'its time'}, which "
        "rejects it. The answer changes nothing.",
        request_id=request_id,
        decision=ApprovalDecision.REJECT.value,
        decided_at=at,
    )

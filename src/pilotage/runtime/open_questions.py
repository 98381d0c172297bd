"""Questions of a run and its child runs, the answers that count, and the check of new ones. Reads only."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from contextlib import suppress
from dataclasses import replace
from datetime import datetime

from pilotage.agent.decisions import (
    DecisionMalformed,
    DecisionMisdirected,
    DecisionNotAllowed,
    DecisionRefusal,
    check_agent_approval_decision,
)
from pilotage.agent.ports.persistence import JournalRow, JournalStage, RunKey
from pilotage.agent.ports.sealing import RecordSealError
from pilotage.agent.recovery import AgentActionKind
from pilotage.agent.recovery_request import (
    AgentRecoveryRequest,
    OpenAction,
    RecoveryAnswer,
    RecoveryDone,
    RecoveryRetried,
    check_agent_recovery_decision,
)
from pilotage.agent.signals import AgentSignal, AgentSignalKind
from pilotage.agent.state import AgentState, AgentStatus
from pilotage.errors import CallerError, DamagedEntryError, RunErasedError
from pilotage.jsonvalue import JsonObject
from pilotage.runtime.children.tasks import child_id
from pilotage.runtime.door.tool_binding import tool_giving
from pilotage.runtime.history import RunReader
from pilotage.runtime.journal import stored_words as words
from pilotage.runtime.journal.divergence import is_stuck
from pilotage.runtime.journal.question_record import Question, decision_in, decode_question
from pilotage.runtime.journal.record_fields import DamagedRecordError, decode_row, optional_text, record_of
from pilotage.runtime.journal.recovery import attempt_in, late_outcomes_of
from pilotage.runtime.journal.seals import SEALED
from pilotage.runtime.people.answers import ClosingAnswer, by_precedence, closing_answer, is_closing
from pilotage.runtime.services import Services
from pilotage.schema.validation import misfit_of
from pilotage.values import value

_CLEANUP = f"{words.RUN}/{words.CLEANUP}#"

__all__ = ["AskedQuestion", "OpenQuestions", "Question", "QuestionPage", "StoredAnswer", "run_of"]


@value
class StoredAnswer:
    """An answer that is stored, and that its run has not taken yet."""

    question: Question
    decision: str
    decided_by: str | None
    at: datetime | None


@value
class QuestionPage:
    """Open questions of some waiting runs; `cursor` as in `RunPage`."""

    questions: tuple[Question, ...]
    cursor: str | None = None


@value
class AskedQuestion:
    """A question of a run, open or not, and the answer that counts, where there is one."""

    question: Question
    run: AgentState
    is_open: bool
    answer: ClosingAnswer | None


class OpenQuestions:
    """Finds open questions and checks answers before they are sent to the run that asked."""

    def __init__(self, services: Services, records: RunReader) -> None:
        self._services = services
        self._records = records

    async def questions(self, state: AgentState) -> tuple[Question, ...]:
        """Return the open questions of a run and its child runs, in the order they were asked.

        A question is not open any more once its answer is stored, and none is while no answer lets the run go on.
        """
        return tuple([each for each, answer in await self._asked(state) if answer is None])

    async def own_questions(self, state: AgentState) -> tuple[Question, ...]:
        """Return the open questions that a run asked itself; none where its record cannot be read."""
        with suppress(DamagedEntryError, RecordSealError, RunErasedError):
            return tuple([each for each in await self.questions(state) if each.agent_state_id == state.id])
        return ()

    async def answered(self, state: AgentState) -> tuple[StoredAnswer, ...]:
        """Return the stored answers that a run and its child runs have not taken yet."""
        return tuple([answer for _, answer in await self._asked(state) if answer is not None])

    async def closed(self, state: AgentState) -> tuple[Question, ...]:
        """Return the questions that a run has asked and that are not open any more, in the order they were asked."""
        open_ids = {each.id for each in await self.questions(state)}
        rows = await self._records.rows(RunKey(state.tenant_id, state.id))
        return tuple([question for _, question in _questions_in(rows) if question.id not in open_ids])

    async def _asked(self, state: AgentState) -> list[tuple[Question, StoredAnswer | None]]:
        """Return the questions without an answer in the record, each with the stored answer that waits to be taken."""
        asking = {each.agent_state_id for each in await self._recorded(state)}
        pending = {run_id: await self._pending(RunKey(state.tenant_id, run_id)) for run_id in sorted(asking)}
        # Read again after the signals: an answer that its run has taken meanwhile is in the rows, not pending.
        recorded = await self._recorded(state) if pending else ()
        return [(each, self._answer_in(pending.get(each.agent_state_id, ()), each)) for each in recorded]

    async def _pending(self, run: RunKey) -> Sequence[AgentSignal]:
        """Return the pending signals of a run; without their sealed parts where the application has no key for them."""
        try:
            return await self._services.pending_signals(run)
        except RecordSealError:
            queued = await self._services.signals.list_pending(run.run_id)
            return [signal for signal in queued if signal.end is None]

    def _answer_in(self, pending: Sequence[AgentSignal], question: Question) -> StoredAnswer | None:
        """Return the first pending answer to a question that its run will accept; a deferral is none."""
        counts = self._counting(pending, question)
        if counts is None:
            return None
        return StoredAnswer(question, counts.decision, counts.decided_by, counts.at)

    def _counting(self, signals: Sequence[AgentSignal], question: Question) -> ClosingAnswer | None:
        """Return the answer to a question that counts among stored ones, which its run has not taken."""
        for signal in by_precedence(signals):
            payload = signal.payload
            if is_closing(signal, question.id) and (
                SEALED in payload or self.refusal(question, payload) is None
            ):
                return closing_answer(question.id, signal)
        return None

    async def find(self, state: AgentState, request_id: str) -> AskedQuestion | None:
        """Return a question that a run or a child run of it has asked, answered or not; None for no such one.

        Raises:
            RecordSealError: the application does not have the key of its record.
            RunErasedError: the record was erased.
        """
        asking = await self._asking(state, run_of(request_id))
        if asking is None:
            return None
        rows = await self._records.rows(RunKey(state.tenant_id, asking.id))
        for row, question in _questions_in(rows):
            if question.id == request_id:
                is_open = any(each.id == request_id for each in await self._recorded(state))
                with suppress(DamagedRecordError):
                    answer = await self._closing(asking, rows, row, question)
                    return AskedQuestion(question, asking, is_open, answer)
        return None

    async def _asking(self, state: AgentState, run_id: str) -> AgentState | None:
        """Return the run of this id, if it is the given one or below it."""
        found = state if run_id == state.id else await self._records.find(run_id, state.tenant_id)
        above = found
        while above is not None and above.id != state.id:
            parent = above.metadata.get(words.PARENT)
            above = await self._records.find(str(parent), state.tenant_id) if parent is not None else None
        return found if above is not None else None

    async def _closing(
        self, asking: AgentState, rows: Sequence[JournalRow], asked: JournalRow, question: Question
    ) -> ClosingAnswer | None:
        """Return the answer that counts: the recorded one, else the one that is stored and not taken."""
        signals = await self._answers_to(RunKey(asking.tenant_id, asking.id), question.id)
        row = next((each for each in rows if _answers(each, asked)), None)
        if row is None:
            return self._counting(signals, question)
        record = record_of(row)
        if words.WITHDRAWN in record or words.OUTDATED in record:
            return None
        decision = decision_in(record)
        taken = (each for each in signals if each.payload.get(words.DECISION) == decision)
        signal = next(taken, None)
        if signal is not None:
            by = optional_text(record, words.DECIDED_BY)
            return replace(closing_answer(question.id, signal), decision=decision, decided_by=by)
        return ClosingAnswer(
            request_id=question.id,
            decision=decision,
            decided_by=optional_text(record, words.DECIDED_BY),
            at=row.created_at,
            payload={words.REQUEST_ID: question.id, words.DECISION: decision},
        )

    async def _answers_to(self, run: RunKey, request_id: str) -> list[AgentSignal]:
        """Return the stored answers that could close a question, those first that count first."""
        seals = self._services.signal_seals(run)
        found = [
            each
            for each in await self._services.signals.list_answers(run.run_id)
            if is_closing(each, request_id)
        ]
        with suppress(RecordSealError):  # without the key their decisions can be read, and nothing else
            found = [seals.opened(each) for each in found]
        return by_precedence(found)

    async def _recorded(self, state: AgentState) -> tuple[Question, ...]:
        if state.is_terminal or is_stuck(state):
            return ()
        rows = await self._records.rows(RunKey(state.tenant_id, state.id))
        closed = {row.action_id for row in rows if row.stage is JournalStage.AFTER}
        folded = tuple(f"{row.action_id}/" for row in rows if row.stage is JournalStage.FOLDED)
        found: list[Question] = []
        # A run that is being cancelled waits for nothing but its clean-up.
        is_cancelled = state.status is AgentStatus.CANCELLING
        for row in rows:
            if row.stage is not JournalStage.BEFORE or row.action_id in closed:
                continue
            if is_cancelled and not row.action_id.startswith(_CLEANUP):
                continue
            if row.action_id.startswith(folded):
                continue  # its branch is folded, so the answer is not needed
            if row.kind is AgentActionKind.APPROVAL_WAIT:
                try:
                    question = decode_row(row, decode_question)
                except DamagedRecordError:
                    continue  # the run is interrupted when it is resumed, and asks again once its record is mended
                if _is_about_unknown(question) and _is_inside(row.action_id, closed):
                    continue  # the call around it has its outcome
                found.append(await self._with_attempt(state, rows, question))
            elif row.kind is AgentActionKind.DELEGATION:
                child = await self._records.find(child_id(state.id, row.action_id), state.tenant_id)
                found += await self._recorded(child) if child is not None else ()
        return tuple(found)

    async def are_all_answered(self, state: AgentState) -> bool:
        """Return whether every open question of a run and its child runs has an answer that waits to be taken."""
        return not await self.questions(state)

    async def _with_attempt(
        self, state: AgentState, rows: Sequence[JournalRow], question: Question
    ) -> Question:
        """Return a question about an unknown outcome with what is known of the attempt by now."""
        if not isinstance(question, AgentRecoveryRequest):
            return question
        run = RunKey(state.tenant_id, state.id)
        attempt = attempt_in(rows, run, question.action_id, question.attempt)
        if attempt is not None:
            tool = next(self._services.tools_named(question.action_name), None)
            attempt = replace(
                attempt,
                may_be_alive=await self._may_be_alive(run, attempt.process),
                result_schema=None if tool is None else tool.schema.output_schema,
            )
        return await self._with_late_outcomes(run, replace(question, begun=attempt))

    async def _may_be_alive(self, run: RunKey, process: str | None) -> bool | None:
        """Return whether a process may still act for a run: it is this one, or its lease is valid."""
        leases = self._services.leases
        if process is None or leases is None:
            return None
        if process == self._services.owner:
            return True
        holder = await leases.holder(run)
        return holder is not None and holder.owner == process

    async def _with_late_outcomes(self, run: RunKey, question: AgentRecoveryRequest) -> Question:
        """Return the question with the late outcomes that were stored since it was asked."""
        port = self._services.late_outcomes
        if port is None:
            return question
        late = await late_outcomes_of(port, run, question.action_id, question.attempt)
        return replace(question, late_outcomes=late or question.late_outcomes)

    def refusal(self, request: Question, payload: JsonObject) -> str | None:
        """Return why an answer does not fit its question, in words for its sender; None where it fits."""
        signal = AgentSignal("answer", request.agent_state_id, AgentSignalKind.APPROVAL_DECISION, payload)
        if isinstance(request, AgentRecoveryRequest):
            answer = check_agent_recovery_decision(request, signal)
            return self._unfit(request, answer) or _refusal(answer)
        tool = self._services.tool(str(request.metadata.get("tool_identity")))
        now = self._services.clock.now()
        return _refusal(check_agent_approval_decision(request, signal, now, descriptor=tool))

    def _unfit(self, request: AgentRecoveryRequest, answer: RecoveryAnswer | DecisionRefusal) -> str | None:
        """Return why a result given by a person is not of the result type of its tool; None where it is."""
        if isinstance(answer, RecoveryDone) and (schema := request.input_schema) is not None:
            misfit = misfit_of(answer.result, schema)
            return None if misfit is None else f"the answer does not fit its schema: {misfit}."
        if isinstance(answer, RecoveryDone) and request.is_about_unknown:
            return self._unfit_of(request, answer)
        inside = answer.inside if isinstance(answer, RecoveryRetried) else ()
        about = {each.action_id: each for each in request.inside}
        unfit = (
            self._unfit_of(about[each.action_id], each) for each in inside if isinstance(each, RecoveryDone)
        )
        return next((reason for reason in unfit if reason is not None), None)

    def _unfit_of(self, action: AgentRecoveryRequest | OpenAction, done: RecoveryDone) -> str | None:
        if action.action_kind is not AgentActionKind.TOOL_CALL:
            return None
        try:
            tool_giving(self._services.tools_named(action.action_name), done.result)
        except CallerError as unfit:
            return str(unfit)
        return None


def _questions_in(rows: Sequence[JournalRow]) -> Iterator[tuple[JournalRow, Question]]:
    """Return the questions in the rows of a run, each with its row; without those that are damaged."""
    for row in rows:
        if row.stage is JournalStage.BEFORE and row.kind is AgentActionKind.APPROVAL_WAIT:
            with suppress(DamagedRecordError):
                yield row, decode_row(row, decode_question)


def _answers(row: JournalRow, asked: JournalRow) -> bool:
    """Return whether a row is the answer to the question in another row."""
    return row.stage is JournalStage.AFTER and row.action_id == asked.action_id


def _is_inside(question_id: str, others: Collection[str]) -> bool:
    """Return whether the action that a question is about is inside of one of the others."""
    above = question_id.rpartition("/")[0].rpartition("/")[0]
    while above and above not in others:
        above = above.rpartition("/")[0]
    return bool(above)


def _is_about_unknown(question: Question) -> bool:
    """Return whether a question is about an unknown outcome."""
    return isinstance(question, AgentRecoveryRequest) and question.is_about_unknown


def _refusal(checked: object) -> str | None:
    if isinstance(checked, DecisionMisdirected | DecisionMalformed | DecisionNotAllowed):
        return checked.reason
    return None


def run_of(request_id: str) -> str:
    """Return the run that asked a question: the id of a request begins with it."""
    return request_id.partition(":")[0]

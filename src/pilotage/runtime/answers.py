"""Open questions of a run and its child runs, and the check of answers before they are sent. Reads only."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace
from datetime import datetime

from pilotage.agent.decisions import (
    DecisionMalformed,
    DecisionMisdirected,
    DecisionNotAllowed,
    DecisionRefusal,
    check_agent_approval_decision,
)
from pilotage.agent.ports.journal import JournalRow, JournalStage, RunKey
from pilotage.agent.ports.sealing import RecordSealError
from pilotage.agent.recovery import AgentActionKind
from pilotage.agent.recovery_request import (
    AgentRecoveryRequest,
    OpenAction,
    RecoveryAnswer,
    RecoveryDecision,
    RecoveryDone,
    RecoveryRetried,
    check_agent_recovery_decision,
)
from pilotage.agent.signals import AgentSignal, AgentSignalKind, ApprovalDecision
from pilotage.agent.state import AgentState
from pilotage.errors import CallerError
from pilotage.jsonvalue import JsonObject, JsonValue
from pilotage.runtime.children.tasks import child_id
from pilotage.runtime.door.outcome import late_outcomes_of
from pilotage.runtime.door.tool_binding import tool_giving
from pilotage.runtime.history import RunReader
from pilotage.runtime.journal import stored_words as words
from pilotage.runtime.journal.divergence import is_stuck
from pilotage.runtime.journal.question_record import Question, decode_question
from pilotage.runtime.journal.record_fields import DamagedRecordError, decode_row
from pilotage.runtime.journal.recovery import attempt_in
from pilotage.runtime.journal.seals import SEALED
from pilotage.runtime.services import Services
from pilotage.values import value

__all__ = ["OpenQuestions", "Question", "StoredAnswer", "run_of"]


@value
class StoredAnswer:
    """An answer that is stored, and that its run has not taken yet."""

    question: Question
    decision: str
    decided_by: str | None
    at: datetime | None


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

    async def answered(self, state: AgentState) -> tuple[StoredAnswer, ...]:
        """Return the stored answers that a run and its child runs have not taken yet."""
        return tuple([answer for _, answer in await self._asked(state) if answer is not None])

    async def _asked(self, state: AgentState) -> list[tuple[Question, StoredAnswer | None]]:
        """Return the questions without an answer in the record, each with the stored answer that waits to be taken."""
        pending: dict[str, Sequence[AgentSignal]] = {}
        found: list[tuple[Question, StoredAnswer | None]] = []
        for question in await self._recorded(state):
            run_id = question.agent_state_id
            if run_id not in pending:
                pending[run_id] = await self._pending(RunKey(state.tenant_id, run_id))
            found.append((question, self._answer_in(pending[run_id], question)))
        return found

    async def _pending(self, run: RunKey) -> Sequence[AgentSignal]:
        """Return the pending signals of a run; without their sealed parts where the application has no key for them."""
        try:
            return await self._services.pending_signals(run)
        except RecordSealError:
            queued = await self._services.signals.list_pending(run.run_id)
            return [signal for signal in queued if signal.end is None]

    def _answer_in(self, pending: Sequence[AgentSignal], question: Question) -> StoredAnswer | None:
        """Return the first pending answer to a question that its run will accept; a deferral is none."""
        for signal in pending:
            payload, decision = signal.payload, signal.payload.get(words.DECISION)
            is_answer = (
                signal.kind is AgentSignalKind.APPROVAL_DECISION
                and payload.get(words.REQUEST_ID) == question.id
            )
            if not is_answer or decision == ApprovalDecision.DEFER.value:
                continue
            if SEALED in payload or self._refused(question, payload) is None:
                by = payload.get(words.DECIDED_BY)
                return StoredAnswer(
                    question, str(decision), None if by is None else str(by), signal.created_at
                )
        return None

    async def _recorded(self, state: AgentState) -> tuple[Question, ...]:
        if state.is_terminal or is_stuck(state):
            return ()
        rows = await self._records.rows(RunKey(state.tenant_id, state.id))
        closed = {row.action_id for row in rows if row.stage is JournalStage.AFTER}
        folded = tuple(f"{row.action_id}/" for row in rows if row.stage is JournalStage.FOLDED)
        found: list[Question] = []
        for row in rows:
            if row.stage is not JournalStage.BEFORE or row.action_id in closed:
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

    async def checked(
        self,
        state: AgentState,
        request_id: str,
        decision: ApprovalDecision | RecoveryDecision,
        details: Mapping[str, JsonValue],
    ) -> tuple[str, JsonObject]:
        """Return the run that waits for the answer, and the payload of the answer's signal.

        Raises:
            CallerError: no such question is open, or the answer does not fit it; the question stays open.
        """
        asked = {request.id: (request, answer) for request, answer in await self._asked(state)}
        request, answer = asked.get(request_id, (None, None))
        if answer is not None and answer.decision != decision.value:
            raise CallerError(
                f"request {request_id!r} of run {state.id!r} has an answer already: {answer.decision!r}. "
                "The run takes it when it is resumed."
            )
        if request is None:
            raise CallerError(f"run {state.id!r} waits for no answer to request {request_id!r}.")
        payload: JsonObject = {words.REQUEST_ID: request_id, words.DECISION: decision.value, **details}
        refusal = self._refused(request, payload)
        if refusal is not None:
            raise CallerError(f"{refusal} The request stays open.")
        return request.agent_state_id, payload

    def _refused(self, request: Question, payload: JsonObject) -> str | None:
        signal = AgentSignal("answer", request.agent_state_id, AgentSignalKind.APPROVAL_DECISION, payload)
        if isinstance(request, AgentRecoveryRequest):
            answer = check_agent_recovery_decision(request, signal)
            return self._unfit(request, answer) or _refusal(answer)
        tool = self._services.tool(str(request.metadata.get("tool_identity")))
        now = self._services.clock.now()
        return _refusal(check_agent_approval_decision(request, signal, now, descriptor=tool))

    def _unfit(self, request: AgentRecoveryRequest, answer: RecoveryAnswer | DecisionRefusal) -> str | None:
        """Return why a result given by a person is not of the result type of its tool; None where it is."""
        if isinstance(answer, RecoveryDone) and request.deferred_call is None:
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


def _is_inside(question_id: str, others: Collection[str]) -> bool:
    """Return whether the action that a question is about is inside of one of the others."""
    above = question_id.rpartition("/")[0].rpartition("/")[0]
    while above and above not in others:
        above = above.rpartition("/")[0]
    return bool(above)


def _is_about_unknown(question: Question) -> bool:
    """Return whether a question is about an unknown outcome."""
    return isinstance(question, AgentRecoveryRequest) and question.deferred_call is None


def _refusal(checked: object) -> str | None:
    if isinstance(checked, DecisionMisdirected | DecisionMalformed | DecisionNotAllowed):
        return checked.reason
    return None


def run_of(request_id: str) -> str:
    """Return the run that asked a question: the id of a request begins with it."""
    return request_id.partition(":")[0]

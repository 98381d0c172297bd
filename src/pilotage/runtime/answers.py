"""Open questions of a run and its child runs, and the check of answers before they are sent. Reads only."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace

from pilotage.agent.decisions import (
    DecisionMalformed,
    DecisionMisdirected,
    DecisionNotAllowed,
    check_agent_approval_decision,
)
from pilotage.agent.ports.journal import JournalStage, RunKey
from pilotage.agent.recovery import AgentActionKind
from pilotage.agent.recovery_request import (
    AgentRecoveryRequest,
    RecoveryDecision,
    RecoveryDone,
    check_agent_recovery_decision,
)
from pilotage.agent.signals import AgentSignal, AgentSignalKind, ApprovalDecision
from pilotage.agent.state import AgentState
from pilotage.agent.tools.catalog import AgentToolDescriptor, discover_agent_tools
from pilotage.errors import AgentStructuredOutputError, CallerError
from pilotage.jsonvalue import JsonObject, JsonValue
from pilotage.runtime.children.tasks import child_id
from pilotage.runtime.door.outcome import late_outcomes_of
from pilotage.runtime.effect import decoder_of
from pilotage.runtime.history import RunReader
from pilotage.runtime.journal import stored_words as words
from pilotage.runtime.journal.question_record import Question, decode_question
from pilotage.runtime.journal.record_fields import DamagedRecordError, decode_row
from pilotage.runtime.services import Services

__all__ = ["OpenQuestions", "Question", "run_of"]


class OpenQuestions:
    """Finds open questions and checks answers before they are sent to the run that asked."""

    def __init__(self, services: Services, records: RunReader) -> None:
        self._services = services
        self._records = records

    async def questions(self, state: AgentState) -> tuple[Question, ...]:
        """Return the open questions of a run and its child runs, in the order they were asked."""
        if state.is_terminal:
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
                found.append(await self._with_late_outcomes(state, question))
            elif row.kind is AgentActionKind.DELEGATION:
                child = await self._records.find(child_id(state.id, row.action_id), state.tenant_id)
                found += await self.questions(child) if child is not None else ()
        return tuple(found)

    async def are_all_answered(self, state: AgentState) -> bool:
        """Return whether every open question of a run and its child runs has an answer that waits to be taken."""
        answered: dict[str, set[str]] = {}
        for question in await self.questions(state):
            run_id = question.agent_state_id
            if run_id not in answered:
                answered[run_id] = await self._answered_in(run_id)
            if question.id not in answered[run_id]:
                return False
        return True

    async def _answered_in(self, run_id: str) -> set[str]:
        """Return the requests of a run whose answers are stored; a deferral is none."""
        pending = await self._services.signals.list_pending(run_id)
        return {
            str(signal.payload.get(words.REQUEST_ID))
            for signal in pending
            if signal.kind is AgentSignalKind.APPROVAL_DECISION
            and signal.payload.get(words.DECISION) != ApprovalDecision.DEFER.value
        }

    async def _with_late_outcomes(self, state: AgentState, question: Question) -> Question:
        """Return the question with the late outcomes that were stored since it was asked."""
        port = self._services.late_outcomes
        if port is None or not isinstance(question, AgentRecoveryRequest):
            return question
        run = RunKey(state.tenant_id, state.id)
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
        open_requests = {request.id: request for request in await self.questions(state)}
        request = open_requests.get(request_id)
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
            return self._unfit(request, answer) if isinstance(answer, RecoveryDone) else _refusal(answer)
        tool = self._services.tool(str(request.metadata.get("tool_identity")))
        now = self._services.clock.now()
        return _refusal(check_agent_approval_decision(request, signal, now, descriptor=tool))

    def _unfit(self, request: AgentRecoveryRequest, done: RecoveryDone) -> str | None:
        """Return why a result given by a person is not of the tool's result type; None where it is."""
        if request.action_kind is not AgentActionKind.TOOL_CALL or request.deferred_call is not None:
            return None
        unfit: str | None = None
        for tool in self._tools_named(request.action_name):
            try:
                decoder_of(tool.callable)(done.result)
            except AgentStructuredOutputError as error:
                unfit = f"{tool.name!r} does not give such a result: {' '.join(error.problems)}"
            else:
                return None
        return unfit

    def _tools_named(self, name: str | None) -> Iterator[AgentToolDescriptor]:
        owners = {node.pod.type_ for node in self._services.app.graph.nodes}
        for owner in owners:
            tools = discover_agent_tools(owner).descriptors if isinstance(owner, type) else ()
            yield from (tool for tool in tools if tool.schema.name == name)
        yield from self._services.catalogs.named(name)


def _refusal(checked: object) -> str | None:
    if isinstance(checked, DecisionMisdirected | DecisionMalformed | DecisionNotAllowed):
        return checked.reason
    return None


def run_of(request_id: str) -> str:
    """Return the run that asked a question: the id of a request begins with it."""
    return request_id.partition(":")[0]

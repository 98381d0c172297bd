"""`AgentRuns`: the application service through which everybody starts, resumes, answers and reads runs."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator
from typing import Any, cast

from pilotage.agent.approval import AgentApprovalRequest
from pilotage.agent.definition import AgentDefinition
from pilotage.agent.events import AgentEvent
from pilotage.agent.ports.journal import IAgentJournal, JournalHead, JournalRow, JournalStage, RunKey
from pilotage.agent.ports.repositories import IAgentSignalRepository, IAgentStateRepository
from pilotage.agent.principal import Principal, RunContext
from pilotage.agent.recovery import AgentActionKind
from pilotage.agent.recovery_request import AgentRecoveryRequest, RecoveryDecision
from pilotage.agent.signals import AgentSignal, AgentSignalKind, ApprovalDecision
from pilotage.agent.state import AgentSituation, AgentState
from pilotage.container.application import Application
from pilotage.errors import AgentDefinitionError, CallerError, RunNotFoundError
from pilotage.ids import IClock, IIds
from pilotage.jsonvalue import JsonObject, JsonValue
from pilotage.runtime.attempt import RESULT, RunAttempt, RunResult
from pilotage.runtime.chain import NO_HEAD, first_broken
from pilotage.runtime.effects import Effects
from pilotage.runtime.input_record import decode_input, encode_input
from pilotage.runtime.ledger import Ledger
from pilotage.runtime.recording import Recording
from pilotage.runtime.wait_record import decode_approval, decode_recovery
from pilotage.runtime.waits import Waits
from pilotage.runtime.writer import JournalWriter

_LOCAL = Principal("local")


class RunHandle:
    """A run that is being driven in this process."""

    def __init__(self, run_id: str, attempt: RunAttempt, task: asyncio.Task[RunResult]) -> None:
        self.id = run_id
        self._attempt = attempt
        self._task = task

    def events(self) -> AsyncGenerator[AgentEvent, None]:
        """What the run does, from the start of this attempt."""
        return self._attempt.feed.events()

    async def result(self) -> RunResult:
        """How the run stands when this attempt is over; cancelling the wait does not cancel the run."""
        return await asyncio.shield(self._task)


class AgentRuns:
    """Starts and resumes runs, takes answers, tells how runs stand."""

    def __init__(
        self,
        app: Application,
        journal: IAgentJournal,
        states: IAgentStateRepository,
        signals: IAgentSignalRepository,
        clock: IClock,
        ids: IIds,
    ) -> None:
        self._app = app
        self._journal = journal
        self._states = states
        self._signals = signals
        self._clock = clock
        self._ids = ids
        self._writer = JournalWriter(journal)
        self._tasks: set[asyncio.Task[RunResult]] = set()

    async def start(
        self, agent: type[object], given: object = None, *, principal: Principal = _LOCAL
    ) -> RunHandle:
        """Start a run; when this returns, the run is durable.

        Raises:
            AgentDefinitionError: the class is no agent of this application, or the input does not fit.
        """
        definition = AgentDefinition.get(agent)
        arguments = encode_input(definition, given)
        run = RunKey(principal.tenant, self._ids.uid())
        state = AgentState(
            run.run_id, definition.agent_id, AgentSituation.CREATED.status, tenant_id=run.tenant_id
        )
        ledger = Ledger(run, state, NO_HEAD, self._writer)
        record: JsonObject = {"input": arguments, "principal": principal.id, "agent": definition.agent_id}
        ledger.claim(record, {"agent": definition.agent_id, "principal": principal.id})
        ledger.move(state.moved_to(AgentSituation.RUNNING))
        await ledger.barrier()
        return self._drive(definition, ledger, Recording(()), arguments, {}, principal)

    async def resume(self, run_id: str, *, principal: Principal = _LOCAL) -> RunHandle:
        """Bring a run back, on whatever machine; what it did is replayed, not repeated.

        Raises:
            RunNotFoundError: there is no such run in the principal's tenant.
            CallerError: the run has ended.
        """
        state = await self.get(run_id, principal=principal)
        if state.is_terminal:
            raise CallerError(
                f"run {run_id!r} is {state.status}: it has ended and is not resumed. Read its result."
            )
        run = RunKey(principal.tenant, run_id)
        rows = await self._rows(run)
        first = cast(JsonObject, rows[0].record)
        definition = self._definition_of(cast(str, first["agent"]))
        pending = await self._signals.list_pending(run_id)
        answers = {
            _request_id(signal): signal
            for signal in pending
            if signal.kind is AgentSignalKind.APPROVAL_DECISION
        }
        head = JournalHead(rows[-1].seq, rows[-1].epoch, rows[-1].digest)
        ledger = Ledger(run, state, head, self._writer)
        ledger.claim({"resumed_by": principal.id}, {"resumed_by": principal.id})
        await ledger.barrier()
        arguments = cast(JsonObject, first["input"])
        return self._drive(definition, ledger, Recording(rows), arguments, answers, principal)

    async def get(self, run_id: str, *, principal: Principal = _LOCAL) -> AgentState:
        """How a run stands.

        Raises:
            RunNotFoundError: there is no such run in the principal's tenant.
        """
        state = await self._states.get_or_none(run_id)
        if state is None or state.tenant_id != principal.tenant:
            raise RunNotFoundError(f"there is no run {run_id!r}.")
        return state

    async def result(self, run_id: str, *, principal: Principal = _LOCAL) -> RunResult:
        """How a run stands, with its output as JSON once it is completed."""
        state = await self.get(run_id, principal=principal)
        for row in reversed(await self._rows(RunKey(principal.tenant, run_id))):
            if row.action_id == RESULT:
                return RunResult(state, cast(JsonObject, row.record)["result"])
        return RunResult(state)

    async def approvals(
        self, run_id: str, *, principal: Principal = _LOCAL
    ) -> tuple[AgentApprovalRequest | AgentRecoveryRequest, ...]:
        """The questions a run waits for, in the order they were asked."""
        await self.get(run_id, principal=principal)
        rows = await self._rows(RunKey(principal.tenant, run_id))
        answered = {row.action_id for row in rows if row.stage is JournalStage.AFTER}
        waits = [
            row for row in rows if row.kind is AgentActionKind.APPROVAL_WAIT and row.action_id not in answered
        ]
        return tuple(_decode_wait(row) for row in waits)

    async def decide(
        self,
        run_id: str,
        request_id: str,
        decision: ApprovalDecision | RecoveryDecision,
        *,
        principal: Principal = _LOCAL,
        **details: JsonValue,
    ) -> None:
        """Answer a question: `modified_payload=` for modify, `result=` for done, `comment=` for all.

        Raises:
            CallerError: the run does not wait for an answer to this request.
        """
        open_requests = await self.approvals(run_id, principal=principal)
        if request_id not in {request.id for request in open_requests}:
            raise CallerError(f"run {run_id!r} waits for no answer to request {request_id!r}.")
        payload: JsonObject = {"request_id": request_id, "decision": decision.value, **details}
        await self._signals.append(
            AgentSignal(self._ids.uid(), run_id, AgentSignalKind.APPROVAL_DECISION, payload)
        )

    async def verify(self, run_id: str, *, principal: Principal = _LOCAL) -> int:
        """Check the hash chain of a run's journal; how many rows it has.

        Raises:
            CallerError: a row does not follow from the one before it; the message names the first.
        """
        await self.get(run_id, principal=principal)
        rows = await self._rows(RunKey(principal.tenant, run_id))
        broken = first_broken(rows)
        if broken is not None:
            raise CallerError(
                f"run {run_id!r}: row {broken.seq} ({broken.action_id}) does not follow from the one before."
            )
        return len(rows)

    def _drive(
        self,
        definition: AgentDefinition,
        ledger: Ledger,
        recording: Recording,
        arguments: JsonObject,
        answers: dict[str, AgentSignal],
        principal: Principal,
    ) -> RunHandle:
        waits = Waits(ledger, recording, answers, self._clock, self._ids, definition.spec.on_rejection)
        context = RunContext(principal.tenant, principal.id, ledger.run.run_id, ledger.run.run_id)
        attempt = RunAttempt(
            definition,
            self._app.get(definition.target),
            decode_input(definition, arguments),
            Effects(ledger, recording, waits),
            context,
        )
        task = asyncio.create_task(attempt.run(), name=f"run {ledger.run.run_id}")
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        return RunHandle(ledger.run.run_id, attempt, task)

    async def _rows(self, run: RunKey) -> list[JournalRow]:
        return [row async for row in self._journal.read(run)]

    def _definition_of(self, agent_id: str) -> AgentDefinition:
        for node in self._app.graph.nodes:
            if isinstance(node.pod, AgentDefinition) and node.pod.agent_id == agent_id:
                return node.pod
        raise AgentDefinitionError(
            f"the run belongs to agent {agent_id!r}, which is not part of application {self._app.name!r}. Add it."
        )


def _request_id(signal: AgentSignal) -> str:
    return str(signal.payload.get("request_id"))


def _decode_wait(row: JournalRow) -> AgentApprovalRequest | AgentRecoveryRequest:
    record = cast("dict[str, Any]", row.record)
    return decode_recovery(record) if "action_kind" in record else decode_approval(record)

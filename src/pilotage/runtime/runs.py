"""`AgentRuns`: the application service through which everybody starts, resumes, answers and reads runs."""

from __future__ import annotations

from functools import cached_property
from typing import cast

from pilotage.agent.approval import AgentApprovalRequest
from pilotage.agent.definition import AgentDefinition
from pilotage.agent.ports.journal import IAgentJournal, JournalHead, JournalRow, JournalStage, RunKey
from pilotage.agent.ports.repositories import IAgentSignalRepository, IAgentStateRepository
from pilotage.agent.principal import Principal
from pilotage.agent.recovery import AgentActionKind
from pilotage.agent.recovery_request import AgentRecoveryRequest, RecoveryDecision
from pilotage.agent.signals import AgentSignal, AgentSignalKind, ApprovalDecision, accepts_signal
from pilotage.agent.state import AgentSituation, AgentState, AgentStatus
from pilotage.container.application import Application
from pilotage.errors import AgentDefinitionError, CallerError, RunConflictError, RunNotFoundError
from pilotage.ids import IClock, IIds
from pilotage.jsonvalue import JsonObject, JsonValue
from pilotage.runtime.attempt import RESULT, RunResult
from pilotage.runtime.cancellation import begin_cancellation, finish_cancellation
from pilotage.runtime.chain import NO_HEAD, first_broken
from pilotage.runtime.input_record import encode_input
from pilotage.runtime.interruptions import RunOwnershipLost
from pilotage.runtime.launch import Launcher, RunHandle
from pilotage.runtime.ledger import Ledger
from pilotage.runtime.recording import Recording
from pilotage.runtime.wait_record import decode_approval, decode_recovery
from pilotage.runtime.writer import JournalWriter

LOCAL = Principal("local")


class AgentRuns:
    """Starts and resumes runs, takes signals and answers, tells how runs stand. A foreign run is not found."""

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
        self._ids = ids
        self._writer = JournalWriter(journal)
        self._launcher = Launcher(app, clock, ids)

    async def start(
        self, agent: type[object], given: object = None, *, principal: Principal = LOCAL
    ) -> RunHandle:
        """Start a run; when this returns, the run is durable.

        Raises:
            AgentDefinitionError: the class is no agent of this application, or the input does not fit.
        """
        definition = self._definition_of(AgentDefinition.get(agent).agent_id)
        arguments = encode_input(definition, given)
        run = RunKey(principal.tenant, self._ids.uid())
        status = AgentSituation.CREATED.status
        state = AgentState(run.run_id, definition.agent_id, status, tenant_id=run.tenant_id)
        ledger = Ledger(run, state, NO_HEAD, self._writer, self._ids.uid())
        record: JsonObject = {"input": arguments, "principal": principal.id, "agent": definition.agent_id}
        ledger.claim(record, {"agent": definition.agent_id, "principal": principal.id})
        ledger.move(state.moved_to(AgentSituation.RUNNING))
        await ledger.barrier()
        return self._launcher.launch(definition, ledger, (), arguments, (), principal)

    async def resume(self, run_id: str, *, principal: Principal = LOCAL) -> RunHandle:
        """Bring a run back, on whatever machine; what it did is replayed, not repeated.

        Raises:
            RunNotFoundError: there is no such run in the principal's tenant.
            RunConflictError: somebody else took the run in the same moment.
            CallerError: the run has ended.
        """
        state, rows = await self._standing(run_id, principal)
        if state.is_terminal:
            raise CallerError(f"run {run_id!r} is {state.status}: it has ended. Read its result.")
        definition = self._definition_of(state.agent_type)
        first = cast(JsonObject, rows[0].record)
        ledger = await self._claim(state, rows, principal)
        pending = await self._signals.list_pending(run_id)
        cancel = next((signal for signal in pending if signal.kind is AgentSignalKind.CANCEL), None)
        if cancel is not None and state.status is not AgentStatus.CANCELLING:
            await begin_cancellation(ledger, cancel)
        return self._launcher.launch(
            definition, ledger, rows, cast(JsonObject, first["input"]), pending, principal
        )

    async def signal(
        self,
        run_id: str,
        kind: AgentSignalKind,
        payload: JsonObject | None = None,
        *,
        id: str | None = None,  # noqa: A002 - the word of the contract
        principal: Principal = LOCAL,
    ) -> AgentSignal:
        """Send something to a run. The id is a dedupe key: the same id is taken in once.

        Raises:
            CallerError: the run has ended, or its agent does not accept signals of this kind.
        """
        state = await self.get(run_id, principal=principal)
        if state.is_terminal:
            raise CallerError(f"run {run_id!r} is {state.status} and takes no signals any more.")
        accepted = self._definition_of(state.agent_type).spec.accepted_signals
        if not accepts_signal(kind, accepted):
            names = ", ".join(accepted) or "none but control signals"
            raise CallerError(
                f"agent {state.agent_type!r} does not accept {kind.value!r} signals. It accepts: {names}."
            )
        stored = await self._signals.append(AgentSignal(id or self._ids.uid(), run_id, kind, payload or {}))
        self._launcher.deliver(stored)
        return stored

    async def cancel(self, run_id: str, *, reason: str | None = None, principal: Principal = LOCAL) -> bool:
        """End a run, wherever it stands; False where it had ended already, which changes nothing.

        Raises:
            RunConflictError: somebody else took the run in the same moment; the cancellation waits for it there.
        """
        if (await self.get(run_id, principal=principal)).is_terminal:
            return False
        payload: JsonObject = {"requested_by": principal.id, **({"reason": reason} if reason else {})}
        signal = await self.signal(run_id, AgentSignalKind.CANCEL, payload, principal=principal)
        if await self._launcher.cancel(signal):
            return True
        state, rows = await self._standing(run_id, principal)
        if state.is_terminal:
            return False
        ledger = await self._claim(state, rows, principal)
        if state.status is not AgentStatus.CANCELLING:
            await begin_cancellation(ledger, signal)
        await finish_cancellation(ledger, Recording(rows).under_way())
        return True

    async def get(self, run_id: str, *, principal: Principal = LOCAL) -> AgentState:
        """How a run stands.

        Raises:
            RunNotFoundError: there is no such run in the principal's tenant.
        """
        state = await self._states.get_or_none(run_id)
        if state is None or state.tenant_id != principal.tenant:
            raise RunNotFoundError(f"there is no run {run_id!r}.")
        return state

    async def result(self, run_id: str, *, principal: Principal = LOCAL) -> RunResult:
        """How a run stands, with its output as JSON once it is completed."""
        state = await self.get(run_id, principal=principal)
        for row in reversed(await self._rows(RunKey(principal.tenant, run_id))):
            if row.action_id == RESULT:
                return RunResult(state, cast(JsonObject, row.record)["result"])
        return RunResult(state)

    async def approvals(
        self, run_id: str, *, principal: Principal = LOCAL
    ) -> tuple[AgentApprovalRequest | AgentRecoveryRequest, ...]:
        """The questions a run waits for, in the order they were asked."""
        if (await self.get(run_id, principal=principal)).is_terminal:
            return ()
        rows = await self._rows(RunKey(principal.tenant, run_id))
        closed = {row.action_id for row in rows if row.stage is JournalStage.AFTER}
        asked = [row for row in rows if row.kind is AgentActionKind.APPROVAL_WAIT]
        return tuple(_decode_wait(row) for row in asked if row.action_id not in closed)

    async def approve(
        self, request_id: str, *, comment: str | None = None, principal: Principal = LOCAL
    ) -> None:
        """Allow exactly what the request shows."""
        await self._answer(request_id, ApprovalDecision.APPROVE, comment, principal)

    async def reject(
        self, request_id: str, *, comment: str | None = None, principal: Principal = LOCAL
    ) -> None:
        """Refuse what the request shows."""
        await self._answer(request_id, ApprovalDecision.REJECT, comment, principal)

    async def modify(
        self,
        request_id: str,
        arguments: JsonObject,
        *,
        comment: str | None = None,
        principal: Principal = LOCAL,
    ) -> None:
        """Allow it with other arguments."""
        await self._answer(
            request_id, ApprovalDecision.MODIFY, comment, principal, modified_payload=arguments
        )

    async def defer(
        self, request_id: str, *, comment: str | None = None, principal: Principal = LOCAL
    ) -> None:
        """Decide later: the run goes on waiting."""
        await self._answer(request_id, ApprovalDecision.DEFER, comment, principal)

    async def decide(
        self,
        run_id: str,
        request_id: str,
        decision: ApprovalDecision | RecoveryDecision,
        *,
        principal: Principal = LOCAL,
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
        await self.signal(run_id, AgentSignalKind.APPROVAL_DECISION, payload, principal=principal)

    async def verify(self, run_id: str, *, principal: Principal = LOCAL) -> int:
        """Check the hash chain of a run's journal; how many rows it has.

        Raises:
            CallerError: a row does not follow from the one before it; the message names the first.
        """
        await self.get(run_id, principal=principal)
        rows = await self._rows(RunKey(principal.tenant, run_id))
        broken = first_broken(rows)
        if broken is not None:
            words = f"row {broken.seq} ({broken.action_id}) does not follow from the one before"
            raise CallerError(f"run {run_id!r}: {words}.")
        return len(rows)

    async def stop(self) -> None:
        """Stop driving runs; each stays where it is, and whoever resumes it goes on from there."""
        await self._launcher.stop()

    async def _answer(
        self,
        request_id: str,
        decision: ApprovalDecision,
        comment: str | None,
        principal: Principal,
        **details: JsonValue,
    ) -> None:
        """A request's id begins with the id of its run."""
        run_id = request_id.partition(":")[0]
        await self.decide(run_id, request_id, decision, principal=principal, comment=comment, **details)

    async def _standing(self, run_id: str, principal: Principal) -> tuple[AgentState, list[JournalRow]]:
        """State and rows of a run. The rows are read first: a run that ends in between is seen to have ended."""
        rows = await self._rows(RunKey(principal.tenant, run_id))
        state = await self.get(run_id, principal=principal)
        if not rows:
            raise CallerError(
                f"run {run_id!r} has no journal: it was not started here, and cannot be resumed."
            )
        return state, rows

    async def _claim(self, state: AgentState, rows: list[JournalRow], principal: Principal) -> Ledger:
        """Take a run over: from here on every other owner of it has lost."""
        head = JournalHead(rows[-1].seq, rows[-1].epoch, rows[-1].digest)
        ledger = Ledger(RunKey(state.tenant_id, state.id), state, head, self._writer, self._ids.uid())
        ledger.claim({"claimed_by": principal.id}, {"claimed_by": principal.id})
        try:
            await ledger.barrier()
        except RunOwnershipLost as lost:
            raise RunConflictError(
                f"run {state.id!r} was taken by somebody else in the same moment."
            ) from lost
        return ledger

    async def _rows(self, run: RunKey) -> list[JournalRow]:
        return [row async for row in self._journal.read(run)]

    def _definition_of(self, agent_id: str) -> AgentDefinition:
        if agent_id not in self._definitions:
            raise AgentDefinitionError(
                f"agent {agent_id!r} is not part of application {self._app.name!r}. Add it: app.add(...)."
            )
        return self._definitions[agent_id]

    @cached_property
    def _definitions(self) -> dict[str, AgentDefinition]:
        """The agents of the application; they do not change once it is started."""
        pods = [node.pod for node in self._app.graph.nodes]
        return {pod.agent_id: pod for pod in pods if isinstance(pod, AgentDefinition)}


def _decode_wait(row: JournalRow) -> AgentApprovalRequest | AgentRecoveryRequest:
    record = cast(JsonObject, row.record)
    return decode_recovery(record) if "action_kind" in record else decode_approval(record)

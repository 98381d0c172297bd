"""Putting an attempt together and setting it going; knowing which runs are live in this process."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Sequence

from pilotage.agent.definition import AgentDefinition
from pilotage.agent.events import AgentEvent
from pilotage.agent.ports.hooks import IAgentHooks
from pilotage.agent.ports.journal import JournalRow
from pilotage.agent.ports.permissions import IAgentPermissions
from pilotage.agent.ports.secret_store import ISecrets
from pilotage.agent.principal import Principal, RunContext
from pilotage.agent.signals import AgentSignal, AgentSignalKind
from pilotage.container.application import Application
from pilotage.ids import IClock, IIds
from pilotage.jsonvalue import JsonObject
from pilotage.runtime.attempt import RunAttempt, RunResult
from pilotage.runtime.effects import Effects
from pilotage.runtime.gate import Gate
from pilotage.runtime.inbox import Inbox
from pilotage.runtime.input_record import decode_input
from pilotage.runtime.ledger import Ledger
from pilotage.runtime.recording import Recording
from pilotage.runtime.waits import Waits


class RunHandle:
    """A run that is being driven in this process. Dropping it does not touch the run."""

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


class Launcher:
    """Drives attempts as tasks that the runtime owns."""

    def __init__(self, app: Application, clock: IClock, ids: IIds) -> None:
        self._app = app
        self._clock = clock
        self._ids = ids
        self._live: dict[str, tuple[RunAttempt, asyncio.Task[RunResult], Effects]] = {}

    def launch(
        self,
        definition: AgentDefinition,
        ledger: Ledger,
        rows: Sequence[JournalRow],
        arguments: JsonObject,
        pending: Sequence[AgentSignal],
        principal: Principal,
    ) -> RunHandle:
        """Set an attempt going whose ledger has claimed the run."""
        run_id, recording = ledger.run.run_id, Recording(rows)
        answers: dict[str, list[AgentSignal]] = {}
        for signal in pending:
            if signal.kind is AgentSignalKind.APPROVAL_DECISION:
                answers.setdefault(str(signal.payload.get("request_id")), []).append(signal)
        waits = Waits(ledger, recording, answers, self._clock, self._ids, definition.spec.on_rejection)
        inbox = Inbox(ledger, recording, pending)
        context = RunContext(principal.tenant, principal.id, run_id, run_id)
        gate = Gate(
            principal, context, self._app.get_or_none(IAgentPermissions), self._app.get_all(IAgentHooks)
        )
        effects = Effects(ledger, recording, gate, waits, inbox, self._clock, self._ids)
        attempt = RunAttempt(
            definition,
            self._app.get(definition.target, definition.name),
            decode_input(definition, arguments),
            effects,
            context,
            self._app.get_or_none(ISecrets),
        )
        task = asyncio.create_task(attempt.run(), name=f"run {run_id}")
        self._live[run_id] = (attempt, task, effects)
        task.add_done_callback(lambda _: self._forget(run_id, task))
        return RunHandle(run_id, attempt, task)

    def deliver(self, signal: AgentSignal) -> None:
        """Let a live run know of a message at once; others find it when they are resumed."""
        live = self._live.get(signal.agent_state_id)
        if live is not None:
            live[2].inbox.receive(signal)

    async def cancel(self, signal: AgentSignal) -> bool:
        """Cancel a run that is live here and wait for the attempt's end; False where it came to its own end."""
        live = self._live.get(signal.agent_state_id)
        if live is None:
            return False
        attempt, task, _ = live
        is_cancelled = await attempt.cancel(signal)
        await asyncio.wait([task])
        return is_cancelled

    async def stop(self) -> None:
        """End the attempts of this process, not their runs."""
        tasks = [task for _, task, _ in self._live.values()]
        for task in tasks:
            task.cancel()
        if tasks:
            await asyncio.wait(tasks)

    def _forget(self, run_id: str, task: asyncio.Task[RunResult]) -> None:
        live = self._live.get(run_id)
        if live is not None and live[1] is task:
            del self._live[run_id]

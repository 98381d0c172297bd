"""Supervision of run attempts: each one runs as a task, its commits settle, and its lease is released."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine, KeysView, Sequence
from dataclasses import replace
from functools import cached_property, partial
from typing import Any

from pilotage.agent.definition import AgentDefinition
from pilotage.agent.ports.conversations import ConversationTurn
from pilotage.agent.ports.persistence import JournalRow, RunKey
from pilotage.agent.principal import LOCAL, Principal
from pilotage.agent.run_values import RunResult
from pilotage.agent.signals import AgentSignal, AgentSignalKind
from pilotage.agent.spec import AgentExecutionLimits
from pilotage.agent.state import AgentSituation, AgentState, AgentStatus
from pilotage.errors import AgentToolDispatchError, MediaNotFoundError, RunConflictError
from pilotage.filling import unchecked
from pilotage.runtime.audit import AuditTrail
from pilotage.runtime.children.launch import ChildLauncher, RunStarter, cancellation_of
from pilotage.runtime.door.run import LiveRun, Run
from pilotage.runtime.door.run_source import NO_OVERRIDES, Overrides
from pilotage.runtime.history import RunHistory, RunReader, RunRecord
from pilotage.runtime.journal import stored_words as words
from pilotage.runtime.journal.interruptions import RunOwnershipLost, damage_of
from pilotage.runtime.journal.lease import HeldLease
from pilotage.runtime.journal.ledger import EphemeralLedger
from pilotage.runtime.journal.record_fields import DamagedRecordError
from pilotage.runtime.journal.start_record import (
    RunStart,
    decode_start,
    last_limits,
    raised,
    require_known_rules,
)
from pilotage.runtime.run.attempt import RunAttempt
from pilotage.runtime.run.cancel import begin_cancellation
from pilotage.runtime.run.claim import RunClaims, is_resume_requested, settle_resumption
from pilotage.runtime.run.compose import Claimed, Composer, new_claimed
from pilotage.runtime.run.conversation import Conversations
from pilotage.runtime.run.damaged import DamagedRuns, PoisonedRuns
from pilotage.runtime.run.handles import RunHandle, RunSubscriptions
from pilotage.runtime.run.model_choice import ModelChoices, selected_model
from pilotage.runtime.run.pausing import is_paused_by_person
from pilotage.runtime.run.start_media import hold_of_child
from pilotage.runtime.services import Services


async def drive(attempt: RunAttempt, lease: HeldLease | None, audit: AuditTrail | None) -> RunResult:
    """Drive an attempt, and settle its pending work however it ends."""
    try:
        result = await attempt.drive()
        if lease is not None and result.state.is_terminal:
            lease.end()
        return result
    finally:
        if audit is not None or not _has_settled(attempt.run, lease):
            await _run_to_completion(_settle(attempt.run, lease, audit))


def _has_settled(run: Run, lease: HeldLease | None) -> bool:
    """Return whether an attempt has no pending work; then no task is needed to settle it."""
    is_reported = run.outcomes.late is None or run.outcomes.late.is_settled
    return is_reported and run.ledger.is_settled and (lease is None or not lease.is_held)


async def _settle(run: Run, lease: HeldLease | None, audit: AuditTrail | None) -> None:
    await run.ledger.settle()
    if run.outcomes.late is not None:
        await run.outcomes.late.settle()
    await release_lease(lease)
    if audit is not None:
        await audit.write(run.ledger.run)


async def _run_to_completion(settling: Coroutine[Any, Any, None]) -> None:
    """Settle even if this task is cancelled meanwhile: an unreleased lease blocks other owners until it expires."""
    task = asyncio.ensure_future(settling)
    try:
        await asyncio.shield(task)
    except asyncio.CancelledError:
        await asyncio.wait([task])
        raise


async def release_lease(lease: HeldLease | None) -> None:
    """Release a lease, if there is one."""
    if lease is not None:
        await lease.release()


_new_state = unchecked(AgentState)


class RunSupervisor(RunStarter):
    """Drives attempts as tasks that the runtime owns."""

    def __init__(self, services: Services) -> None:
        self._services = services
        self.claims = RunClaims(services)
        self.records = RunReader(services)
        self._damaged = DamagedRuns(services, self.claims)
        self.poisoned = PoisonedRuns(services, self.claims)
        self._composer = Composer(services, ChildLauncher(services, self.records, self))
        self._live: dict[str, LiveRun] = {}
        self._keys: dict[RunKey, LiveRun] = {}
        self.subscriptions = RunSubscriptions(services, self.records, self._live)
        self.models = ModelChoices(services)
        self.conversations = Conversations(services, self.records, self._live)
        self._is_leaving = False

    def live(self, run_id: str) -> LiveRun | None:
        """Return the run if it is live in this process."""
        return self._live.get(run_id)

    @property
    def is_leaving(self) -> bool:
        """Return whether this process hands its runs over: it should take up no others."""
        return self._is_leaving

    @property
    def live_runs(self) -> KeysView[RunKey]:
        """Return the keys of the runs that are live in this process, as they change."""
        return self._keys.keys()

    async def begin(
        self,
        definition: AgentDefinition,
        start: RunStart,
        run: RunKey,
        parent: Run | None = None,
        overrides: Overrides = NO_OVERRIDES,
    ) -> LiveRun:
        if parent is not None:
            start = await self.models.of_child(definition, start, parent.source.start, run.run_id)
        if parent is not None and not parent.ledger.is_durable:
            attempt, task = self.begin_ephemeral(definition, start, run, parent=parent)
            return attempt.live(task)
        if parent is not None:
            try:
                await hold_of_child(self._services.media, definition, start, run)
            except MediaNotFoundError as error:
                raise AgentToolDispatchError(f"the task has media that are not there: {error}") from error
        lease = self._services.new_lease(run)
        ledger = await self.claims.begin(definition, start, run, lease)
        try:
            history = await self.conversations.history(start, run)
            instance = self._services.instance_of(definition)
        except BaseException:
            await release_lease(lease)
            raise
        return self._set_going(
            new_claimed(
                definition,
                instance,
                start,
                ledger,
                deadline=start.deadline,
                turns=history,
                parent=parent,
                lease=lease,
                overrides=overrides,
            )
        )

    def begin_ephemeral(
        self,
        definition: AgentDefinition,
        start: RunStart,
        run: RunKey,
        *,
        instance: object = None,
        history: Sequence[ConversationTurn] = (),
        parent: Run | None = None,
        overrides: Overrides = NO_OVERRIDES,
    ) -> tuple[RunAttempt, asyncio.Task[RunResult]]:
        """Start an ephemeral run; only its subscriber can reach it, and that of its parent."""
        if parent is not None:
            overrides = replace(overrides, is_streaming=parent.source.overrides.is_streaming)
        situation = AgentSituation.RUNNING
        state = _new_state(run.run_id, start.agent, situation.status, situation.transition)
        claimed = new_claimed(
            definition,
            instance or self._services.instance_of(definition),
            start,
            EphemeralLedger(run, state, self._services.conversations if start.conversation else None),
            deadline=start.deadline,
            turns=history,
            parent=parent,
            overrides=overrides,
        )
        attempt = self._composer.compose(claimed)
        return attempt, asyncio.get_running_loop().create_task(attempt.drive())

    async def resume(
        self,
        record: RunRecord,
        principal: Principal,
        overrides: Overrides = NO_OVERRIDES,
        *,
        by_person: bool = True,
        limits: AgentExecutionLimits | None = None,
    ) -> RunHandle:
        """Resume a run and return its handle; one with a damaged record is interrupted.

        A person who resumes a run takes back the pauses that were sent to it before, and may raise its limits.
        """
        live = await self.revive(record, principal, overrides=overrides, by_person=by_person, limits=limits)
        return self.handle(live) if isinstance(live, LiveRun) else self.attached(live)

    async def revive(
        self,
        record: RunRecord,
        principal: Principal,
        parent: Run | None = None,
        overrides: Overrides = NO_OVERRIDES,
        *,
        by_person: bool = False,
        limits: AgentExecutionLimits | None = None,
    ) -> LiveRun | AgentState:
        state, damage = record.state, record.damage
        lease = await self._services.acquire_lease(RunKey(state.tenant_id, state.id))
        try:
            if damage is None:
                try:
                    claimed = await self._revived(
                        state, record.rows, principal, by_person=by_person, limits=limits
                    )
                    return self._set_going(replace(claimed, parent=parent, lease=lease, overrides=overrides))
                except DamagedRecordError as error:
                    damage = damage_of(error)
            interrupted = await self._damaged.interrupt(record, damage, principal)
        except BaseException:
            await release_lease(lease)
            raise
        await release_lease(lease)
        return interrupted

    async def _revived(
        self,
        state: AgentState,
        rows: Sequence[JournalRow],
        principal: Principal,
        *,
        by_person: bool,
        limits: AgentExecutionLimits | None,
    ) -> Claimed:
        services = self._services
        history = RunHistory.of(rows, state.id)
        require_known_rules(history.first, state.id)
        definition, start = services.definition_of(state.agent_type), decode_start(history.first)
        known = last_limits(history.claims) or start.limits
        limits = None if limits is None else raised(known, limits)
        start = start if (limits or known) == start.limits else replace(start, limits=limits or known)
        if start.chosen_model is not None:
            selected_model(services.app, start.chosen_model)
        deadline = self.claims.deadline(definition, state, history)
        ledger = await self.claims.take_over(definition, state, history, principal, limits)
        last = ledger.newest_signal
        pending, refused = await services.queued_signals(ledger.run)
        ledger.add_signals(pending, last)
        ledger.refuse_signals(refused)
        cancel = next((signal for signal in pending if signal.kind is AgentSignalKind.CANCEL), None)
        if cancel is not None and state.status is not AgentStatus.CANCELLING:
            await begin_cancellation(ledger, cancel)
        # A person may be asked first: then the answer changes the state.
        is_asked = services.gate.approval is not None and is_paused_by_person(state)
        is_resumed = cancel is None and not is_asked and is_resume_requested(state, pending)
        # Its owner died before it could obey them.
        holds_pauses = state.status is AgentStatus.ACTIVE and not by_person
        settle_resumption(ledger, pending, holds_pauses=holds_pauses)
        if is_resumed:
            # The signal is consumed: the state it requests must be recorded in the same commit.
            ledger.change_state(ledger.state.moved_to(AgentSituation.RUNNING))
        turns = await self.conversations.history(start, ledger.run)
        instance = services.instance_of(definition)
        return new_claimed(
            definition=definition,
            instance=instance,
            start=start,
            ledger=ledger,
            history=history,
            pending=pending,
            deadline=deadline,
            turns=turns,
            found=state,
        )

    async def end(self, state: AgentState, signal: AgentSignal, principal: Principal) -> None:
        run = RunKey(state.tenant_id, state.id)
        lease = await self._services.acquire_lease(run)
        try:
            await self._end(state, signal, principal)
        finally:
            await release_lease(lease)

    async def end_orphan(self, run: RunKey) -> bool:
        """Cancel a child run whose parent has ended; return False for a run that is none."""
        principal = Principal(LOCAL.id, run.tenant_id)
        state = await self.records.state(run.run_id, principal)
        parent = state.metadata.get(words.PARENT)
        if parent is None or state.is_terminal:
            return False
        above = await self.records.find(str(parent), run.tenant_id)
        if above is None or not above.is_terminal:
            return False
        await self.end(state, cancellation_of(run.run_id), principal)
        return True

    async def _end(self, state: AgentState, signal: AgentSignal, principal: Principal) -> None:
        # Read again, the rows first: the previous owner may have ended the run meanwhile.
        record = await self.records.checked(state.id, principal)
        state = record.state
        if state.is_terminal:
            return
        damage = record.damage
        if damage is None:
            try:
                await self._end_cleanly(state, record.rows, signal, principal)
            except DamagedRecordError as error:
                damage = damage_of(error)
        if damage is not None:
            await self._damaged.end(record, damage, signal, principal)
        if self._audit_trail is not None:
            await self._audit_trail.write(RunKey(state.tenant_id, state.id))

    async def _end_cleanly(
        self, state: AgentState, rows: Sequence[JournalRow], signal: AgentSignal, principal: Principal
    ) -> None:
        """End a run with a whole record: what was under way in it is cleaned up."""
        definition, history = self._services.definition_of(state.agent_type), RunHistory.of(rows, state.id)
        require_known_rules(history.first, state.id)
        start = decode_start(history.first)
        ledger = await self.claims.take_over(definition, state, history, principal)
        if state.status is not AgentStatus.CANCELLING:
            last, pending = ledger.newest_signal, await self._services.signals.list_pending(state.id)
            ledger.add_signals(pending, last)
            is_stored = signal.id in ledger.unread
            await begin_cancellation(ledger, signal, is_stored=is_stored)
        claimed = new_claimed(definition, None, start, ledger, history, found=state)
        await self._composer.compose(claimed).drive()

    @cached_property
    def _audit_trail(self) -> AuditTrail | None:
        log = self._services.provided.audit_log
        return None if log is None else AuditTrail(log, self.records, self._services.clock)

    def handle(self, live: LiveRun) -> RunHandle:
        """Return the handle of a run that is live in this process."""
        events = partial(self.subscriptions.to_attempt, live)
        return RunHandle(live.id, lambda: asyncio.shield(live.task), events)

    def attached(self, state: AgentState) -> RunHandle:
        """Return the handle of a run that was started before: live here, live elsewhere, waiting or ended."""
        live = self._live.get(state.id)
        if live is not None:
            return self.handle(live)
        events = partial(self.subscriptions.to_log, RunKey(state.tenant_id, state.id))
        return RunHandle(state.id, partial(self.records.typed_result, state), events)

    async def cancel(self, signal: AgentSignal) -> bool:
        """Cancel a run that is live here and wait for the end of the attempt; return False if it ended by itself."""
        live = self._live.get(signal.agent_state_id)
        if live is None:
            return False
        try:
            is_cancelled = await live.cancel(signal)
        except RunOwnershipLost as lost:
            live.stop()
            await asyncio.wait([live.task])
            raise RunConflictError(
                f"run {live.id!r} was taken over by another process. The cancellation is on its way there."
            ) from lost
        await asyncio.wait([live.task])
        return is_cancelled

    async def hand_over(self, seconds: float) -> None:
        """End the attempts of this process, each after its current action; stop the others after `seconds`."""
        self._is_leaving = True
        late = asyncio.ensure_future(self._services.clock.sleep(seconds))
        while self._live and not late.done():
            for live in self._live.values():
                live.hand_over()
            tasks = [live.task for live in self._live.values()]
            await asyncio.wait([*tasks, late], return_when=asyncio.FIRST_COMPLETED)
        late.cancel()
        await asyncio.wait([late])
        await self.stop()

    async def stop(self) -> None:
        """End the attempts of this process, not their runs."""
        if self._live:
            # A task cancelled before its first step would not run its clean-up: let all tasks begin first.
            await asyncio.sleep(0)
        tasks = [live.task for live in self._live.values()]
        for live in list(self._live.values()):
            live.stop()
        if tasks:
            await asyncio.wait(tasks)
        await self._services.stop_idle_renewer()

    def _set_going(self, claimed: Claimed) -> LiveRun:
        attempt = self._composer.compose(claimed)
        run_id = claimed.ledger.run.run_id
        task = asyncio.create_task(drive(attempt, claimed.lease, self._audit_trail), name=f"run {run_id}")
        live = self._live[run_id] = self._keys[claimed.ledger.run] = attempt.live(task)
        task.add_done_callback(partial(self._forget, live))
        if self._is_leaving:
            attempt.hand_over()
        return live

    def _forget(self, live: LiveRun, task: asyncio.Task[RunResult]) -> None:
        # Retrieve the exception, so that asyncio does not log it: callers get it from `result()`.
        _ = task.cancelled() or task.exception()
        if self._live.get(live.id) is live:
            del self._live[live.id], self._keys[live.run.ledger.run]

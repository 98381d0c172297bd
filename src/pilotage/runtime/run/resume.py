"""Resuming runs, on request and after an answer, one attempt at a time; and delivery of signals to live runs."""

from __future__ import annotations

import asyncio
import logging
from contextlib import suppress
from functools import partial
from weakref import WeakValueDictionary

from pilotage.agent.ports.leases import IAgentWakeUps
from pilotage.agent.ports.persistence import RunKey
from pilotage.agent.principal import LOCAL, Principal
from pilotage.agent.run_values import RunResult
from pilotage.agent.signals import AgentSignal, AgentSignalKind
from pilotage.agent.spec import AgentExecutionLimits
from pilotage.agent.state import AgentState, AgentStatus
from pilotage.errors import CallerError, RunConflictError, error_words
from pilotage.runtime.door.run import LiveRun
from pilotage.runtime.door.run_source import NO_OVERRIDES, Overrides
from pilotage.runtime.journal import stored_words as words
from pilotage.runtime.journal.interruptions import RunInterruption
from pilotage.runtime.run.handles import RunHandle
from pilotage.runtime.run.supervise import RunSupervisor
from pilotage.runtime.services import Services

POLL_SECONDS = 2.0

_MOST_LEFT_OUT = 4
"""How many polls in a row are left out while hints come."""


class SignalWatch:
    """Delivers pending signals to the live runs of this process while there are any.

    Wake-up hints save time; a slow poll always runs, one request for all of them. While hints come it is slower still,
    and never ends: a hint may be lost.
    """

    def __init__(self, services: Services, launcher: RunSupervisor) -> None:
        self._services = services
        self._launcher = launcher
        self._watching: asyncio.Task[None] | None = None
        self._seen: dict[asyncio.Task[RunResult], str] = {}
        """The newest pending signal that was delivered to each attempt, as the store marks it."""
        self._got_hint, self._left_out = False, 0

    def begin(self) -> None:
        """Start watching, until `stop` or until no run is live."""
        if self._watching is None or self._watching.done():
            self._watching = asyncio.create_task(self._watch(), name="watch over live runs")

    async def stop(self) -> None:
        """Stop watching."""
        watching, self._watching = self._watching, None
        if watching is not None:
            watching.cancel()
            await asyncio.wait([watching])

    async def deliver(self, signal: AgentSignal) -> None:
        """Deliver a signal to a run that is live here; otherwise send a wake-up hint to the other processes."""
        live = self._launcher.live(signal.agent_state_id)
        if live is not None:
            await _hand_over(live, signal)
        elif self._services.wake_ups is not None:
            with suppress(Exception):
                await self._services.wake_ups.notify(signal.agent_state_id)

    async def _watch(self) -> None:
        wake_ups = self._services.wake_ups
        listening = asyncio.create_task(self._listen(wake_ups)) if wake_ups is not None else None
        try:
            await self._poll()
        finally:
            if listening is not None:
                listening.cancel()
                await asyncio.wait([listening])

    async def _poll(self) -> None:
        while self._launcher.live_runs:
            await self._services.clock.sleep(POLL_SECONDS)
            if self._got_hint and self._left_out < _MOST_LEFT_OUT:
                self._left_out += 1
            else:
                self._left_out = 0
                await self._look_after_all()
            self._got_hint = False
        # No run is live. A run that begins while this task ends must start a new watch.
        self._watching = None

    async def _listen(self, wake_ups: IAgentWakeUps) -> None:
        """Deliver signals at wake-up hints, which only save time: if they fail, the poll continues."""
        with suppress(Exception):
            async with wake_ups.subscribe() as hints:
                while True:
                    live = self._launcher.live(await hints.next())
                    self._got_hint = True
                    if live is not None:
                        await self._look(live.run.ledger.run)

    async def _look_after_all(self) -> None:
        """Deliver the signals of all runs that have got one since; if the store fails, the next poll tries again."""
        with suppress(Exception):
            marks = await self._services.signals.newest_pending(self._launcher.live_runs)
            seen, self._seen = self._seen, {}
            for run, mark in marks.items():
                live = self._launcher.live(run.run_id)
                if live is not None and (seen.get(live.task) == mark or await self._look(run)):
                    self._seen[live.task] = mark

    async def _look(self, run: RunKey) -> bool:
        """Deliver the pending signals of a run; False if the store fails, and the next poll tries again."""
        with suppress(Exception):
            for signal in await self._services.pending_signals(run):
                live = self._launcher.live(run.run_id)
                if live is not None:
                    await _hand_over(live, signal)
            return True
        return False


async def _hand_over(live: LiveRun, signal: AgentSignal) -> None:
    if signal.kind is not AgentSignalKind.CANCEL:
        live.receive(signal)
        return
    # An attempt that is over cannot be cancelled; the present owner of the run gets the signal as well.
    with suppress(RunInterruption):
        await live.cancel(signal)


_TRIES = 5
_log = logging.getLogger("pilotage.runs")


class RunResumer:
    """Resumes runs for callers, and drives answered runs in tasks of its own."""

    def __init__(self, services: Services, supervisor: RunSupervisor, watch: SignalWatch) -> None:
        self._services = services
        self._supervisor = supervisor
        self._watch = watch
        self._locks: WeakValueDictionary[str, asyncio.Lock] = WeakValueDictionary()
        self._background: dict[asyncio.Task[None], str] = {}
        """The tasks that drive answered runs, with the ids of these runs."""

    async def resume(
        self,
        run_id: str,
        principal: Principal | None,
        *,
        by_person: bool,
        limits: AgentExecutionLimits | None = None,
        overrides: Overrides = NO_OVERRIDES,
    ) -> RunHandle:
        """Resume a run and return its handle: that of the current attempt, or of the end, where there is one.

        If a person resumes it, the claims that ended without progress are no longer counted, and its limits may be
        raised.

        Raises:
            RunNotFoundError: there is no such run in the principal's tenant.
            RunConflictError: another process drives the run, or claimed it at the same time.
            CallerError: the run is a child run, or its record is so damaged that it cannot be interrupted either.
        """
        async with self._lock_of(run_id):
            handle = await self._resumed(
                run_id, principal, by_person=by_person, limits=limits, overrides=overrides
            )
        self._watch.begin()
        return handle

    async def end(self, state: AgentState, signal: AgentSignal, principal: Principal) -> None:
        """End a cancelled run that no attempt drives; an attempt that a worker has begun here meanwhile is cancelled.

        Raises:
            RunConflictError: another process has the run.
        """
        while True:
            async with self._lock_of(state.id):
                if self._supervisor.live(state.id) is None:
                    await self._supervisor.end(state, signal, principal)
                    return
            if await self._supervisor.cancel(signal):
                return

    async def forget_claims(self, state: AgentState) -> None:
        """Count the claims of a run from zero: a person resumes or cancels it."""
        if (backlog := self._services.backlog) is not None:
            await backlog.forget(RunKey(state.tenant_id, state.id))

    async def root_of(self, state: AgentState, principal: Principal | None) -> AgentState:
        """Return the run above a run and its parents."""
        while (parent := state.metadata.get(words.PARENT)) is not None:
            state = await self._supervisor.records.state(str(parent), principal)
        return state

    async def resume_tree_soon(self, state: AgentState, principal: Principal | None) -> None:
        """Resume the run above a run in the background, if the application has its agent."""
        root = await self.root_of(state, principal)
        if root.agent_type in self._services.agent_ids:
            self.resume_soon(root.id, principal)

    def resume_soon(self, run_id: str, principal: Principal | None) -> None:
        """Resume an answered run in the background, after the attempt that asked has ended."""
        resuming = self._resume_answered(run_id, self._supervisor.live(run_id), principal)
        task = asyncio.create_task(resuming, name=f"go on with {run_id}")
        self._background[task] = run_id
        task.add_done_callback(self._background.pop)

    def background_task(self, run_id: str) -> asyncio.Task[None] | None:
        """Return the task that resumes an answered run, while it is under way."""
        return next((task for task, resumed in self._background.items() if resumed == run_id), None)

    async def stop(self) -> None:
        """Stop resuming answered runs: their answers are stored, so they can be resumed later."""
        tasks = list(self._background)
        for task in tasks:
            task.cancel()
        if tasks:
            await asyncio.wait(tasks)

    def _lock_of(self, run_id: str) -> asyncio.Lock:
        return self._locks.setdefault(run_id, asyncio.Lock())

    async def _resumed(
        self,
        run_id: str,
        principal: Principal | None,
        tries: int = _TRIES,
        *,
        by_person: bool = False,
        limits: AgentExecutionLimits | None = None,
        overrides: Overrides = NO_OVERRIDES,
    ) -> RunHandle:
        again = partial(
            self._resumed, run_id, principal, by_person=by_person, limits=limits, overrides=overrides
        )
        supervisor = self._supervisor
        record = await supervisor.records.checked(run_id, principal)
        state = record.state
        if by_person:
            await self.forget_claims(state)
        live = supervisor.live(run_id)
        is_under_way = live is not None and not _is_pausing(live, state)
        if limits is not None and (state.is_terminal or is_under_way):
            raise CallerError(
                f"run {run_id!r} is {state.status}: its limits are raised when it is resumed. "
                "Wait until it is interrupted, and resume it then."
            )
        if state.is_terminal:
            return supervisor.attached(state)
        if (parent := state.metadata.get("parent")) is not None:
            raise CallerError(f"run {run_id!r} belongs to run {parent!r}. Resume that one: {parent!r}.")
        if live is not None and is_under_way:
            return supervisor.handle(live)
        if live is not None:
            await asyncio.wait([live.task])
            return await again(tries)
        try:
            return await supervisor.resume(
                record, acting(principal, state), overrides, by_person=by_person, limits=limits
            )
        except RunConflictError:
            head = await self._services.journal.head(RunKey(state.tenant_id, run_id))
            if tries == 1 or head is None or not record.rows or head.epoch != record.rows[-1].epoch:
                raise
            # The owner wrote between the reads, and there is no other claim: read again.
            return await again(tries - 1)

    async def _resume_answered(
        self, run_id: str, asking: LiveRun | None, principal: Principal | None
    ) -> None:
        """Resume a run unless it was resumed since, with the answer; another owner may claim it first."""
        if asking is not None:
            await asyncio.wait([asking.task])
        try:
            async with self._lock_of(run_id):
                if self._supervisor.live(run_id) is None:
                    await self._resumed(run_id, principal)
            self._watch.begin()
        except CallerError:
            return
        except Exception as error:  # noqa: BLE001 - the answer is stored, so the run can be resumed later
            _log.warning("run %s was answered and cannot be resumed now: %s", run_id, error_words(error))


def acting(principal: Principal | None, state: AgentState) -> Principal:
    """Return the acting principal: the given one, or the application itself in the run's tenant."""
    return principal or Principal(LOCAL.id, state.tenant_id)


def _is_pausing(live: LiveRun, state: AgentState) -> bool:
    """Return whether an attempt is about to end with a pause and reads no further signals."""
    is_called = live.run.signals.is_called or live.run.replay.is_draining
    return is_called or (state.status is AgentStatus.INTERRUPTED and live.is_ending())

"""The worker: takes up runs that no process drives, with back-off, while its application is started."""

from __future__ import annotations

import asyncio
import gc
import logging
from collections.abc import Iterable
from contextlib import suppress
from dataclasses import replace
from functools import partial

from pilotage.agent.ports.leases import BacklogEntry, IAgentBacklog, IAgentLeases, IAgentWakeUps
from pilotage.agent.ports.persistence import RunKey
from pilotage.checks import reject_negative, reject_not_positive
from pilotage.container.application import Application
from pilotage.container.graph import Graph
from pilotage.container.lifecycle import ILifecycle
from pilotage.container.pod import Pod
from pilotage.container.processing import IPostProcessor
from pilotage.errors import AgentPersistenceConfigurationError, Problem, error_words
from pilotage.runtime.delivery.relay import LAST
from pilotage.runtime.delivery.take_up import TakeUp
from pilotage.runtime.delivery.watchdog import (
    ProcessOfItsOwn,
    Watchdog,
    watchdog_of,
    watchdog_problems,
)
from pilotage.runtime.journal.commits import OutboxNotifier
from pilotage.runtime.journal.lease import Leasing, is_provably_dead
from pilotage.runtime.runs import AgentRuns
from pilotage.values import value


@value
class WorkerSettings:
    """Add one to an application, and it takes up runs without an owner while it is started.

    At most `concurrency` runs are taken up at once; runs that are started in this process do not count. The store is
    polled every `poll_seconds`, and at once after a wake-up. At shutdown, runs have `grace_seconds` to finish their
    current action. A run that makes no progress is left for `retry_seconds`, then for four times as long, and so on.
    With `is_on=False` a process of the application goes without a worker.
    """

    concurrency: int = 200
    poll_seconds: float = 2.0
    grace_seconds: float = 30.0
    is_on: bool = True
    retry_seconds: float = 1.0

    def __post_init__(self) -> None:
        reject_not_positive(
            self,
            concurrency=self.concurrency,
            poll_seconds=self.poll_seconds,
            retry_seconds=self.retry_seconds,
        )
        reject_negative(self, grace_seconds=self.grace_seconds)


_REPORT_SECONDS = 60.0
_RENEW_SHARE = 1 / 3
_GATHERED_SHARE, _GATHERED_SECONDS = 1 / 10, 0.1
"""A worker whose places are nearly all taken fills them together: when so many are free, or so long after a claim."""
_log = logging.getLogger("pilotage.worker")


class Sweeper:
    """Takes up runs until it is stopped, a bounded number at once.

    A suspect is driven alone: once one is claimed, no others are taken up until it has been driven. If the process does
    not come to rest within the time of a lease, because its callers keep it busy, the suspect is left to other workers.
    """

    def __init__(
        self, runs: AgentRuns, backlog: IAgentBacklog, leases: IAgentLeases, settings: WorkerSettings
    ) -> None:
        self._runs = runs
        self._services = runs.services
        self._backlog = backlog
        self._leases = leases
        self._settings = settings
        self._notifier = OutboxNotifier()
        self._driven: set[asyncio.Task[None]] = set()
        self._under_way: set[RunKey] = set()
        self._suspect: BacklogEntry | None = None
        self._suspect_until = 0.0
        """Until when the suspect waits, and after that until when no other one is claimed."""
        self._is_alone = False
        self._free_at = 0.0
        self._gathers_until = 0.0
        self._reported: set[str] = set()
        self._report_at = 0.0
        self._is_stopping = False
        self._sweeping: asyncio.Task[None] | None = None
        self.take_up = TakeUp(
            runs, backlog, leases, settings.retry_seconds, is_stopping=lambda: self._is_stopping
        )

    def start(self) -> None:
        """Start to take up runs."""
        self._sweeping = asyncio.create_task(self._sweep(), name="worker")

    async def stop(self) -> None:
        """Take up no more runs, and hand all runs of this process over: other processes go on with them."""
        self._is_stopping = True
        self._notifier.notify()
        await self._runs.hand_over(self._settings.grace_seconds)
        sweeping, self._sweeping = self._sweeping, None
        if sweeping is not None:
            await asyncio.wait([sweeping])
        await self._cancel_take_ups()
        if sweeping is not None:
            sweeping.result()

    async def _cancel_take_ups(self) -> None:
        """Cancel take-ups that have not begun to drive their run."""
        for driven in self._driven:
            driven.cancel()
        if self._driven:
            await asyncio.wait(self._driven)

    async def _sweep(self) -> None:
        wake_ups = self._services.wake_ups
        listening = asyncio.create_task(self._listen(wake_ups)) if wake_ups is not None else None
        try:
            while not self._is_stopping:
                if not await self._take():
                    await self._report_unknown()
                    await self._notifier.wait(self._services.clock, self._wait_seconds)
        finally:
            if self._suspect is not None:
                await self.take_up.leave(self._suspect.run)
            if listening is not None:
                listening.cancel()
                await asyncio.wait([listening])

    @property
    def _wait_seconds(self) -> float:
        poll = self._settings.poll_seconds
        if self._suspect is not None:
            return min(poll, self._lease_seconds * _RENEW_SHARE)
        now = self._services.clock.monotonic()
        return min(poll, self._gathers_until - now) if self._is_gathering(now) else poll

    @property
    def _free_places(self) -> int:
        return self._settings.concurrency - len(self._driven)

    def _is_gathering(self, now: float) -> bool:
        """Return whether the few places that are free are to be filled later, together with others."""
        return (
            now < self._gathers_until and 0 < self._free_places < self._settings.concurrency * _GATHERED_SHARE
        )

    @property
    def _lease_seconds(self) -> float:
        return self._services.lease_settings.seconds

    async def _listen(self, wake_ups: IAgentWakeUps) -> None:
        """Poll at once after each wake-up; where wake-ups fail, polling at intervals goes on."""
        with suppress(Exception):
            async with wake_ups.subscribe() as hints:
                while True:
                    await hints.next()
                    self._notifier.notify()

    async def _take(self) -> bool:
        """Claim as many runs as there are free places and drive them; False where there is nothing to do."""
        if self._suspect is not None:
            return await self._take_suspect(self._suspect)
        free = self._free_places
        if free <= 0 or self._is_alone or self._runs.launcher.is_leaving:
            return False
        services, now = self._services, self._services.clock.monotonic()
        if self._is_gathering(now):
            return False
        self._gathers_until = now + _GATHERED_SECONDS
        try:
            await self._free_dead_owners(now)
            entries = await self._backlog.claim(
                services.owner,
                self._lease_seconds,
                free,
                agents=services.agent_ids,
                # A child run that its parent resumes has a free lease, and still looks like one without an owner.
                leaving=self._under_way,
                suspects=now >= self._suspect_until,
            )
        except Exception as error:  # noqa: BLE001 - a store that does not answer is asked again later
            _log.warning("the backlog cannot be read, and is tried again: %s", error_words(error))
            return False
        for entry in entries:
            if entry.claims.is_suspect and not entry.claims.is_poisoned:
                self._suspect, self._suspect_until = entry, now + self._lease_seconds
            else:
                self._drive(entry)
        return bool(entries)

    async def _free_dead_owners(self, now: float) -> None:
        """Release the leases of processes that are provably dead, so that their runs can be claimed."""
        if now < self._free_at or not self._services.lease_settings.frees_dead_owners:
            return
        self._free_at = now + self._settings.poll_seconds
        for owner in await self._leases.owners():
            if is_provably_dead(owner):
                _log.info("process %s is dead: its runs are taken up", owner)
                await self._leases.release_all(owner)

    async def _take_suspect(self, entry: BacklogEntry) -> bool:
        """Drive a suspect if nothing else is driven in this process; otherwise keep its lease for a while."""
        if not self._driven and not self._runs.launcher.live_runs:
            self._suspect, self._suspect_until = None, 0.0
            self._is_alone = True
            self._drive(entry)
            return True
        now = self._services.clock.monotonic()
        if now < self._suspect_until and await self._renew(entry):
            return False
        self._suspect, self._suspect_until = None, now + self._lease_seconds
        await self.take_up.leave(entry.run)
        return True

    async def _renew(self, entry: BacklogEntry) -> bool:
        with suppress(OSError):
            owner, seconds = self._services.owner, self._lease_seconds
            return await self._leases.renew(entry.run, owner, seconds) is not None
        return True

    def _drive(self, entry: BacklogEntry) -> None:
        run = entry.run
        driven = asyncio.create_task(self.take_up.drive(entry), name=f"taking up run {run.run_id}")
        self._driven.add(driven)
        self._under_way.add(run)
        driven.add_done_callback(partial(self._returned, run))

    def _returned(self, run: RunKey, driven: asyncio.Task[None]) -> None:
        _ = driven.cancelled() or driven.exception()
        self._driven.discard(driven)
        self._under_way.discard(run)
        self._is_alone = False
        self._notifier.notify()

    async def _report_unknown(self) -> None:
        """Warn once for each agent that has waiting runs and is not part of this application."""
        now = self._services.clock.monotonic()
        if now < self._report_at:
            return
        self._report_at = now + _REPORT_SECONDS
        with suppress(Exception):
            waiting = await self._backlog.agents()
            for agent in sorted(waiting - self._services.agent_ids - self._reported):
                self._reported.add(agent)
                _log.warning(
                    "runs of agent %r wait, and application %r does not have it: they are left to others.",
                    agent,
                    self._services.app.name,
                )


def configure_worker(app: Application, *, is_on: bool) -> None:
    """Give an application that is not started the settings of a worker, or switch its worker off.

    Settings of its own count, `is_on` included. Without `is_on` it has no worker; one without the ports of a worker has
    none anyway.
    """
    known = app.graph.given(WorkerSettings)
    if not is_on:
        app.bind(WorkerSettings, replace(known or WorkerSettings(), is_on=False))
    elif known is None and all(map(app.contains, (AgentRuns, IAgentBacklog, IAgentLeases))):
        app.bind(WorkerSettings, WorkerSettings())


class WorkerPorts(IPostProcessor):
    """Checks at start-up that the ports of a worker are provided, and the settings of the watchdog."""

    @classmethod
    def check(cls, graph: Graph) -> Iterable[Problem]:
        """Report the ports that a worker needs and nothing provides, and a watchdog that would be too late."""
        yield from watchdog_problems(graph)
        missing = [port for port in (IAgentBacklog, IAgentLeases) if not graph.contains(port)]
        settings = graph.given(WorkerSettings)
        if missing and graph.contains(WorkerSettings) and (settings is None or settings.is_on):
            names = ", ".join(port.__name__ for port in missing)
            yield Problem(
                "agent_worker_ports_missing",
                f"WorkerSettings asks for a worker, and nothing provides {names}.",
                remedy='Install the provider: pip install "pilotage[sqlalchemy]".',
                family=AgentPersistenceConfigurationError,
                detail=tuple(missing),
            )


@Pod(order=LAST)
class AgentWorker(ILifecycle):
    """Takes up runs without an owner while the application is started, if it has `WorkerSettings`.

    With or without them, a watchdog watches the event loop from the first lease of this process on.

    At shutdown it takes up no more runs, waits for the current actions and releases the leases, so that another process
    goes on.
    """

    def __init__(self, runs: AgentRuns, settings: WorkerSettings | None = None) -> None:
        self._runs = runs
        self._settings = settings
        self._sweeper: Sweeper | None = None
        self._watchdog: Watchdog | None = None
        self._is_frozen = False

    async def start(self) -> None:
        self._runs.services.watch_leasing(self._watch)
        self._is_frozen = self._runs.services.app.get_or_none(ProcessOfItsOwn) is not None
        if self._is_frozen:
            # The application is made: the collector need not look at it again, each time that many objects were made.
            gc.collect()
            gc.freeze()
        if self._settings is None or not self._settings.is_on:
            return
        backlog, leases = self._runs.services.backlog, self._runs.services.leases
        if backlog is None or leases is None:
            return
        # Looked up while the application is started: it may stop before the worker has done anything.
        _ = self._runs.services.clock, self._runs.services.wake_ups
        self._sweeper = Sweeper(self._runs, backlog, leases, self._settings)
        self._sweeper.start()

    async def stop(self) -> None:
        if self._sweeper is not None:
            await self._sweeper.stop()
        if self._watchdog is not None:
            self._watchdog.stop()
        if self._is_frozen:
            gc.unfreeze()

    def _watch(self, leasing: Leasing) -> None:
        self._watchdog = watchdog_of(self._runs.services, leasing, self._begun)
        if self._watchdog is not None:
            self._watchdog.start()

    def _begun(self) -> dict[RunKey, float]:
        return {} if self._sweeper is None else self._sweeper.take_up.begun

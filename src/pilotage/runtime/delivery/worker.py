"""The worker: takes up runs that no process drives, with back-off, while its application is started."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Iterable
from contextlib import suppress

from pilotage.agent.ports.journal import RunKey
from pilotage.agent.ports.leases import IAgentBacklog, IAgentLeases, IAgentWakeUps, has_something_to_do
from pilotage.agent.principal import LOCAL, Principal
from pilotage.agent.state import AgentState, AgentStatus
from pilotage.checks import reject_negative, reject_not_positive
from pilotage.container.graph import Graph
from pilotage.container.lifecycle import ILifecycle
from pilotage.container.pod import Pod
from pilotage.container.processing import IPostProcessor
from pilotage.errors import AgentPersistenceConfigurationError, CallerError, Problem, RunConflictError
from pilotage.runtime.delivery.relay import LAST
from pilotage.runtime.journal import stored_words as words
from pilotage.runtime.journal.commits import OutboxNotifier
from pilotage.runtime.journal.interruptions import RunInterruption
from pilotage.runtime.journal.lease import release_unused
from pilotage.runtime.runs import AgentRuns
from pilotage.values import value


@value
class WorkerSettings:
    """Add one to an application, and it takes up runs without an owner while it is started.

    At most `concurrency` runs are taken up at once; runs that are started in this process do not count. The store is
    polled every `poll_seconds`, and at once after a wake-up. At shutdown, runs have `grace_seconds` to finish their
    current action. With `is_on=False` a process of the application goes without a worker.
    """

    concurrency: int = 10
    poll_seconds: float = 2.0
    grace_seconds: float = 30.0
    is_on: bool = True

    def __post_init__(self) -> None:
        reject_not_positive(self, concurrency=self.concurrency, poll_seconds=self.poll_seconds)
        reject_negative(self, grace_seconds=self.grace_seconds)


_FIRST_DELAY = 1.0
_LONGEST_DELAY = 300.0


@value
class _Delay:
    failures: int
    until: float


class BackOff:
    """Exponential back-off for runs that make no progress."""

    def __init__(self) -> None:
        self._delays: dict[RunKey, _Delay] = {}

    def delay(self, run: RunKey, now: float) -> None:
        """Delay a run that made no progress, twice as long each time."""
        before = self._delays.get(run)
        failures = before.failures + 1 if before else 1
        seconds = min(_FIRST_DELAY * 2.0 ** min(failures - 1, 32), _LONGEST_DELAY)
        self._delays[run] = _Delay(failures, now + seconds)

    def reset(self, run: RunKey) -> None:
        """Forget the failures of a run that made progress, or has nothing to do any more."""
        self._delays.pop(run, None)

    def delayed(self, now: float) -> frozenset[RunKey]:
        """Return the runs that must not be taken up yet."""
        for run in [run for run, delay in self._delays.items() if delay.until + _LONGEST_DELAY < now]:
            # It was not found again for long: another process made progress, or it has ended.
            del self._delays[run]
        return frozenset(run for run, delay in self._delays.items() if delay.until > now)


_REPORT_SECONDS = 60.0
_log = logging.getLogger("pilotage.worker")


class Sweeper:
    """Takes up runs until it is stopped, a bounded number at once."""

    def __init__(
        self, runs: AgentRuns, backlog: IAgentBacklog, leases: IAgentLeases, settings: WorkerSettings
    ) -> None:
        self._runs = runs
        self._services = runs.services
        self._backlog = backlog
        self._leases = leases
        self._settings = settings
        self._notifier = OutboxNotifier()
        self._back_off = BackOff()
        self._driven: set[asyncio.Task[None]] = set()
        self._under_way: set[RunKey] = set()
        self._reported: set[str] = set()
        self._report_at = 0.0
        self._is_stopping = False
        self._sweeping: asyncio.Task[None] | None = None

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
                    await self._notifier.wait(self._services.clock, self._settings.poll_seconds)
        finally:
            if listening is not None:
                listening.cancel()
                await asyncio.wait([listening])

    async def _listen(self, wake_ups: IAgentWakeUps) -> None:
        """Poll at once after each wake-up; where wake-ups fail, polling at intervals goes on."""
        with suppress(Exception):
            async with wake_ups.subscribe() as hints:
                while True:
                    await hints.next()
                    self._notifier.notify()

    async def _take(self) -> bool:
        """Claim as many runs as there are free places and drive them; False where there is nothing to do."""
        free = self._settings.concurrency - len(self._driven)
        if free <= 0:
            return False
        services = self._services
        # A child run that its parent resumes has a free lease meanwhile, and still looks like one without an owner.
        leaving = self._back_off.delayed(services.clock.monotonic()) | self._under_way
        try:
            seconds = services.lease_settings.seconds
            leases = await self._backlog.claim(
                services.owner, seconds, free, agents=services.agent_ids, leaving=leaving
            )
        except Exception as error:  # noqa: BLE001 - a store that does not answer is asked again later
            _log.warning("the backlog cannot be read, and is tried again: %s", type(error).__name__)
            return False
        for lease in leases:
            driven = asyncio.create_task(self._drive(lease.run), name=f"taking up run {lease.run.run_id}")
            self._driven.add(driven)
            driven.add_done_callback(self._returned)
        return bool(leases)

    def _returned(self, driven: asyncio.Task[None]) -> None:
        _ = driven.cancelled() or driven.exception()
        self._driven.discard(driven)
        self._notifier.notify()

    async def _drive(self, run: RunKey) -> None:
        """Drive a run as far as it gets; without progress it is delayed."""
        self._under_way.add(run)
        try:
            await self._resume(run)
            has_progress = not await self._is_claimable(run)
        except RunConflictError:
            # Another process has it, or its parent.
            has_progress = False
        except (Exception, RunInterruption) as error:  # noqa: BLE001 - an error of one run must not affect the others
            if not self._is_stopping:
                # An error for callers has no content of the run, and says what to do.
                reason = str(error) if isinstance(error, CallerError) else type(error).__name__
                _log.warning("run %s cannot be taken up now: %s", run.run_id, reason)
            has_progress = False
        finally:
            await release_unused(self._leases, run, self._services.owner)
            self._under_way.discard(run)
        if has_progress:
            self._back_off.reset(run)
        else:
            self._back_off.delay(run, self._services.clock.monotonic())

    async def _resume(self, run: RunKey) -> None:
        root, is_over = await self._root_of(run)
        if is_over:
            return
        if root != run:
            # The parent resumes it, and needs its lease for that.
            await release_unused(self._leases, run, self._services.owner)
        await self._runs.resume(root.run_id, principal=Principal(LOCAL.id, root.tenant_id))
        live = self._runs.launcher.live(root.run_id)
        if live is not None:
            await asyncio.wait([live.task])

    async def _root_of(self, run: RunKey) -> tuple[RunKey, bool]:
        """Return the run without a parent above a run, or the run itself, and whether that one has ended."""
        state = await self._runs.get(run.run_id, principal=Principal(LOCAL.id, run.tenant_id))
        parent = state.metadata.get(words.PARENT)
        if parent is None:
            return run, state.is_terminal
        return await self._root_of(RunKey(run.tenant_id, str(parent)))

    async def _is_claimable(self, run: RunKey) -> bool:
        """Return whether the run could be claimed again at once, so that driving it made no progress."""
        state = await self._runs.get(run.run_id, principal=Principal(LOCAL.id, run.tenant_id))
        pending = await self._services.signals.list_pending(run.run_id)
        kinds = {signal.kind for signal in pending}
        return has_something_to_do(state, kinds, self._services.clock.now(), await self._parent_status(state))

    async def _parent_status(self, state: AgentState) -> AgentStatus | None:
        parent = state.metadata.get(words.PARENT)
        if parent is None:
            return None
        return (await self._runs.get(str(parent), principal=Principal(LOCAL.id, state.tenant_id))).status

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


class WorkerPorts(IPostProcessor):
    """Checks at start-up that the ports of a worker are provided."""

    @classmethod
    def check(cls, graph: Graph) -> Iterable[Problem]:
        """Report the ports that a worker needs and nothing provides."""
        missing = [port for port in (IAgentBacklog, IAgentLeases) if not graph.contains(port)]
        if missing and graph.contains(WorkerSettings):
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

    At shutdown it takes up no more runs, waits for the current actions and releases the leases, so that another process
    goes on.
    """

    def __init__(self, runs: AgentRuns, settings: WorkerSettings | None = None) -> None:
        self._runs = runs
        self._settings = settings
        self._sweeper: Sweeper | None = None

    async def start(self) -> None:
        if self._settings is None or not self._settings.is_on:
            return
        backlog, leases = self._runs.services.backlog, self._runs.services.leases
        if backlog is None or leases is None:
            return
        self._sweeper = Sweeper(self._runs, backlog, leases, self._settings)
        self._sweeper.start()

    async def stop(self) -> None:
        if self._sweeper is not None:
            await self._sweeper.stop()

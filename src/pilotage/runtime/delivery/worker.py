"""How a worker works."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Iterable
from contextlib import suppress

from pilotage.agent.ports.backlog import IAgentBacklog, has_something_to_do
from pilotage.agent.ports.journal import RunKey
from pilotage.agent.ports.leases import IAgentLeases
from pilotage.agent.ports.wakeups import IAgentWakeUps
from pilotage.agent.principal import LOCAL, Principal
from pilotage.agent.state import AgentState, AgentStatus
from pilotage.checks import reject_negative, reject_not_positive
from pilotage.container.graph import Graph
from pilotage.container.lifecycle import ILifecycle
from pilotage.container.pod import Pod
from pilotage.container.processing import IPostProcessor
from pilotage.errors import AgentPersistenceConfigurationError, Problem, RunConflictError
from pilotage.runtime.delivery.relay import LAST
from pilotage.runtime.journal.commits import OutboxNotifier
from pilotage.runtime.journal.interruptions import RunInterruption
from pilotage.runtime.journal.lease import release_unused
from pilotage.runtime.runs import AgentRuns
from pilotage.values import value


@value
class WorkerSettings:
    """Add one to an application, and it takes up runs that nobody drives while it is started.

    At most `concurrency` runs at once are taken up; those that somebody starts here come on top. The store is looked
    at every `poll_seconds`, and at once when a hint comes. When the application stops, runs have `grace_seconds` to
    finish their current action. `is_on` lets a process of an application with a worker go without it.
    """

    concurrency: int = 10
    poll_seconds: float = 2.0
    grace_seconds: float = 30.0
    is_on: bool = True

    def __post_init__(self) -> None:
        reject_not_positive(self, concurrency=self.concurrency, poll_seconds=self.poll_seconds)
        reject_negative(self, grace_seconds=self.grace_seconds)


_FIRST_SECONDS = 1.0
_LONGEST_SECONDS = 300.0


@value
class _Rest:
    times: int
    until: float


class BackOff:
    """A run that could not be brought further rests, longer each time; one that could starts afresh."""

    def __init__(self) -> None:
        self._resting: dict[RunKey, _Rest] = {}

    def leave(self, run: RunKey, now: float) -> None:
        """Taking the run up led nowhere."""
        before = self._resting.get(run)
        times = before.times + 1 if before else 1
        seconds = min(_FIRST_SECONDS * 2.0 ** min(times - 1, 32), _LONGEST_SECONDS)
        self._resting[run] = _Rest(times, now + seconds)

    def forget(self, run: RunKey) -> None:
        """The run got further, or has nothing to do any more."""
        self._resting.pop(run, None)

    def at(self, now: float) -> frozenset[RunKey]:
        """The runs to leave alone at a time."""
        for run in [run for run, rest in self._resting.items() if rest.until + _LONGEST_SECONDS < now]:
            # Somebody else has got further with it, or it is long over.
            del self._resting[run]
        return frozenset(run for run, rest in self._resting.items() if rest.until > now)


_REPORT_SECONDS = 60.0
_log = logging.getLogger("pilotage.worker")


class Sweeper:
    """Takes up runs until it is stopped, only so many at once."""

    def __init__(
        self, runs: AgentRuns, backlog: IAgentBacklog, leases: IAgentLeases, settings: WorkerSettings
    ) -> None:
        self._runs = runs
        self._services = runs.services
        self._backlog = backlog
        self._leases = leases
        self._settings = settings
        self._bell = OutboxNotifier()
        self._left_alone = BackOff()
        self._driven: set[asyncio.Task[None]] = set()
        self._under_way: set[RunKey] = set()
        self._reported: set[str] = set()
        self._report_at = 0.0
        self._is_stopping = False
        self._sweeping: asyncio.Task[None] | None = None

    def start(self) -> None:
        """Take up runs from now on."""
        self._sweeping = asyncio.create_task(self._sweep(), name="sweeper of runs")

    async def stop(self) -> None:
        """Take up no more, and let all runs of this process go; those who wait for them find them as they are."""
        self._is_stopping = True
        self._bell.ring()
        await self._runs.hand_over(self._settings.grace_seconds)
        sweeping, self._sweeping = self._sweeping, None
        if sweeping is not None:
            await asyncio.wait([sweeping])
        await self._let_go()
        if sweeping is not None:
            sweeping.result()

    async def _let_go(self) -> None:
        """Stop what is still being taken up: a run that is not driven yet need not be."""
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
                    await self._bell.wait(self._services.clock, self._settings.poll_seconds)
        finally:
            if listening is not None:
                listening.cancel()
                await asyncio.wait([listening])

    async def _listen(self, wake_ups: IAgentWakeUps) -> None:
        """Hints only make it faster: where they fail, the poll goes on."""
        with suppress(Exception):
            async with wake_ups.subscribe() as hints:
                while True:
                    await hints.next()
                    self._bell.ring()

    async def _take(self) -> bool:
        """Claim as many runs as there are hands free and drive them; False where there is nothing to do."""
        free = self._settings.concurrency - len(self._driven)
        if free <= 0:
            return False
        services = self._services
        # The lease of a run that another one brings along is free meanwhile, and the run still looks left behind.
        leaving = self._left_alone.at(services.clock.monotonic()) | self._under_way
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
        self._bell.ring()

    async def _drive(self, run: RunKey) -> None:
        """Bring a run as far as it gets, or leave it alone for a while."""
        self._under_way.add(run)
        try:
            await self._bring_further(run)
            got_further = not await self._is_as_before(run)
        except RunConflictError:
            # Another process has it, or the run above it.
            got_further = False
        except (Exception, RunInterruption) as error:  # noqa: BLE001 - one run's trouble is not that of the others
            if not self._is_stopping:
                _log.warning("run %s cannot be taken up now: %s", run.run_id, type(error).__name__)
            got_further = False
        finally:
            await release_unused(self._leases, run, self._services.owner)
            self._under_way.discard(run)
        if got_further:
            self._left_alone.forget(run)
        else:
            self._left_alone.leave(run, self._services.clock.monotonic())

    async def _bring_further(self, run: RunKey) -> None:
        top, is_over = await self._top_of(run)
        if is_over:
            return
        if top != run:
            # The run above brings it along, and needs its lease for that.
            await release_unused(self._leases, run, self._services.owner)
        await self._runs.resume(top.run_id, principal=Principal(LOCAL.id, top.tenant_id))
        live = self._runs.launcher.live(top.run_id)
        if live is not None:
            await asyncio.wait([live.task])

    async def _top_of(self, run: RunKey) -> tuple[RunKey, bool]:
        """The run that a run belongs to, however far above, itself where it belongs to none; and whether it is over."""
        state = await self._runs.get(run.run_id, principal=Principal(LOCAL.id, run.tenant_id))
        parent = state.metadata.get("parent")
        if parent is None:
            return run, state.is_terminal
        return await self._top_of(RunKey(run.tenant_id, str(parent)))

    async def _is_as_before(self, run: RunKey) -> bool:
        """Whether the run could be claimed again, although somebody has just driven it."""
        state = await self._runs.get(run.run_id, principal=Principal(LOCAL.id, run.tenant_id))
        pending = await self._services.signals.list_pending(run.run_id)
        kinds = {signal.kind for signal in pending}
        return has_something_to_do(state, kinds, self._services.clock.now(), await self._status_above(state))

    async def _status_above(self, state: AgentState) -> AgentStatus | None:
        parent = state.metadata.get("parent")
        if parent is None:
            return None
        return (await self._runs.get(str(parent), principal=Principal(LOCAL.id, state.tenant_id))).status

    async def _report_unknown(self) -> None:
        """Say once of each agent that has work and is not part of this application that its runs are left alone."""
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
    """Checks at start-up that a worker has something to work on."""

    @classmethod
    def check(cls, graph: Graph) -> Iterable[Problem]:
        """The ports that a worker needs and nothing provides."""
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
    """Takes up runs that nobody drives while the application is started, if it has `WorkerSettings`.

    It stops in good order: no new runs, the current actions come to their end, the leases go back, so that another
    process goes on.
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

"""Handles of runs, and subscriptions to their events."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from functools import partial

from pilotage.agent.events import AgentEventAttribution
from pilotage.agent.ports.persistence import RunKey
from pilotage.agent.principal import Principal
from pilotage.agent.run_values import RunResult
from pilotage.agent.state import AgentStatus
from pilotage.errors import RunNotFoundError
from pilotage.markdown import code, summary
from pilotage.runtime.door.run import LiveRun
from pilotage.runtime.events.feed import START, EventCursor
from pilotage.runtime.events.subscription import LogReader, Subscription
from pilotage.runtime.events.writer import DurableEventWriter
from pilotage.runtime.history import RunReader, RunRecord, attribution_of
from pilotage.runtime.services import Services


class RunHandle:
    """A handle of a started run. Dropping the handle does not affect the run."""

    def __init__(
        self, run_id: str, result: Callable[[], Awaitable[RunResult]], events: Callable[[], Subscription]
    ) -> None:
        self.id = run_id
        self._result = result
        self._events = events

    def events(self) -> Subscription:
        """Return the events of the run from the start of this attempt; closing the stream does not affect the run."""
        return self._events()

    async def result(self) -> RunResult:
        """Return the result of the run when this attempt is over; cancelling the wait does not cancel the run."""
        return await self._result()

    def __repr__(self) -> str:
        return f"RunHandle({self.id!r})"

    def _repr_markdown_(self) -> str:
        """Return how a notebook shows the handle."""
        return summary("run", (code(self.id), "`await run.result()` waits for it"))

    def for_reader(self, records: RunReader) -> RunHandle:
        """Return the handle for a principal whose code did not start the run: its result is redacted."""

        async def shown() -> RunResult:
            return await records.shown_result((await self._result()).state)

        return RunHandle(self.id, shown, self._events)


class RunSubscriptions:
    """Subscribes to the events of runs: from the log, and from the feed of a run that is `live` in this process."""

    def __init__(self, services: Services, records: RunReader, live: Mapping[str, LiveRun]) -> None:
        self._services = services
        self._records = records
        self._live = live

    def to_run(
        self,
        run_id: str,
        after: EventCursor,
        principal: Principal | None,
        *,
        follows: bool = True,
        resuming: asyncio.Task[None] | None = None,
    ) -> Subscription:
        """Return a subscription to the events of a run; without a principal, in the run's own tenant.

        `resuming` is a task that is about to resume the run: the subscription goes on with that attempt.
        """
        find = partial(self._named, run_id, principal)
        next_attempt = partial(self._resumed_by, resuming, run_id, principal) if resuming else None
        log = LogReader(self._services.journal, find, self._attribution, self._is_at_rest)
        live = partial(self._writer_for, run_id, principal)
        return Subscription(
            log, live(), self._services.clock, after, follows=follows, next_attempt=next_attempt, live=live
        )

    async def _resumed_by(
        self, resuming: asyncio.Task[None], run_id: str, principal: Principal | None
    ) -> DurableEventWriter | None:
        await asyncio.wait([resuming])
        return self._writer_for(run_id, principal)

    def _writer_for(self, run_id: str, principal: Principal | None) -> DurableEventWriter | None:
        """Return the event writer of a run that is live in this process and in the principal's tenant."""
        live = self._live.get(run_id)
        if live is None or (principal and live.run.ledger.run.tenant_id != principal.tenant):
            return None
        return _durable_writer(live)

    async def _named(self, run_id: str, principal: Principal | None) -> RunKey:
        return RunKey(principal.tenant if principal else await self._records.tenant_of(run_id), run_id)

    def to_attempt(self, live: LiveRun) -> Subscription:
        """Return a subscription to the events of a live run from the start of this attempt."""
        writer = _durable_writer(live)
        after = writer.resumed_after if writer is not None else START
        return self._subscription(live.run.ledger.run, after, writer)

    def to_log(self, run: RunKey) -> Subscription:
        """Return a subscription to all events of a run that is not live in this process."""
        return self._subscription(run, START, None)

    def _subscription(
        self, run: RunKey, after: EventCursor, writer: DurableEventWriter | None
    ) -> Subscription:
        log = LogReader(self._services.journal, partial(_known, run), self._attribution, self._is_at_rest)
        return Subscription(log, writer, self._services.clock, after)

    async def _is_at_rest(self, run: RunKey) -> bool:
        """Return whether a run has paused or ended."""
        state = await self._records.find(run.run_id, run.tenant_id)
        return state is not None and (state.is_terminal or state.status is AgentStatus.INTERRUPTED)

    async def _attribution(self, run: RunKey) -> AgentEventAttribution:
        state = await self._records.find(run.run_id, run.tenant_id)
        if state is None:
            raise RunNotFoundError(f"there is no run {run.run_id!r}.")
        rows = self._services.journal.read(run)
        async for row in rows:
            return attribution_of(RunRecord(state, self._services.seals(run).opened_rows([row])))
        raise RunNotFoundError(f"run {run.run_id!r} has no journal.")


def _durable_writer(live: LiveRun) -> DurableEventWriter | None:
    writer = live.run.events
    return writer if isinstance(writer, DurableEventWriter) else None


async def _known(run: RunKey) -> RunKey:
    return run

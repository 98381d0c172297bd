"""Runs as a stream of AG-UI reads them: durable ones by their events, others by events that are given.

A run that another process holds is tried again until this process drives it, or until it rests: the process that holds
it may be dead.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable, Sequence
from typing import TypeAlias

from ag_ui.core import BaseEvent

from pilotage.adapters.agui.stream import Bookmark, StreamedRun
from pilotage.agent.events import AgentEvent
from pilotage.agent.ports.persistence import RunKey
from pilotage.agent.principal import Principal
from pilotage.agent.run_values import RunResult
from pilotage.errors import CallerError, RunConflictError
from pilotage.runtime.events.subscription import Subscription
from pilotage.runtime.journal.lease import is_provably_dead
from pilotage.runtime.runs import AgentRuns

_TRY_AGAIN_SECONDS = 1.0

Following: TypeAlias = Callable[[], Awaitable[StreamedRun | None]]
"""Returns the run to stream after this one in the same stream; None where this one is the last."""


class ReadRun:
    """A durable run that is read and not driven by its reader.

    `notices` are frames for the beginning of its stream. With `is_held` another process has the run.
    """

    def __init__(
        self,
        runs: AgentRuns,
        seen: Bookmark,
        principal: Principal,
        *,
        notices: Sequence[BaseEvent] = (),
        following: Following | None = None,
        events: Subscription | None = None,
        is_held: bool = False,
    ) -> None:
        self.id = seen.run_id
        self.notices = tuple(notices)
        self.following = following
        self._runs = runs
        self._after = str(seen.origin)
        self._principal = principal
        self._events = events
        self.is_held = is_held
        self._trying: asyncio.Task[None] | None = None

    def events(self) -> Subscription:
        if self.is_held and self._trying is None:
            self._trying = asyncio.create_task(self._try_again(), name=f"waiting for run {self.id}")
        ready, self._events = self._events, None
        return ready or self._runs.events(self.id, after=self._after, principal=self._principal)

    async def result(self) -> RunResult:
        return await self._runs.result(self.id, principal=self._principal)

    async def leave(self) -> None:
        """Stop trying to take the run up; the run goes on."""
        trying, self._trying = self._trying, None
        if trying is not None:
            trying.cancel()
            await asyncio.wait([trying])

    async def _try_again(self) -> None:
        while True:
            await self._runs.services.clock.sleep(_TRY_AGAIN_SECONDS)
            try:
                if await self._has_living_owner():
                    continue
                await self._runs.take_up(self.id, principal=self._principal)
            except (RunConflictError, OSError):
                continue
            except CallerError:
                # It is not this process that can drive it: it is read all the same.
                return
            return

    async def _has_living_owner(self) -> bool:
        """Return whether a process has the lease that is not provably dead: taking a run up reads its whole record."""
        leases = self._runs.services.leases
        holder = None if leases is None else await leases.holder(RunKey(self._principal.tenant, self.id))
        return holder is not None and not is_provably_dead(holder.owner)


class GivenRun:
    """A run of which only the given events are streamed, after the notices."""

    following: Following | None = None
    is_held = False

    def __init__(
        self,
        run_id: str,
        events: Sequence[AgentEvent],
        result: RunResult | None,
        notices: Sequence[BaseEvent],
    ) -> None:
        self.id = run_id
        self.notices = tuple(notices)
        self._events = tuple(events)
        self._result = result

    async def _given(self) -> AsyncGenerator[AgentEvent, None]:
        for event in self._events:
            yield event

    def events(self) -> AsyncIterator[AgentEvent]:
        return self._given()

    async def result(self) -> RunResult | None:
        return self._result

    async def leave(self) -> None:
        """Do nothing: the run is not driven by its reader."""


class NoticedRun:
    """A new run with notices for the beginning of its stream."""

    following: Following | None = None
    is_held = False

    def __init__(self, run: StreamedRun, notices: Sequence[BaseEvent]) -> None:
        self.id = run.id
        self.notices = tuple(notices)
        self._run = run

    def events(self) -> AsyncIterator[AgentEvent]:
        return self._run.events()

    async def result(self) -> object:
        return await self._run.result()

    async def leave(self) -> None:
        await self._run.leave()

"""One task that keeps all leases of a process alive: most runs end long before theirs would have to be renewed."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Coroutine
from contextlib import suppress
from dataclasses import dataclass
from typing import Any, Protocol

from pilotage.agent.ports.journal import LeaseRequest, RunKey
from pilotage.agent.ports.leases import IAgentLeases, Lease
from pilotage.checks import reject_not_positive
from pilotage.errors import RunConflictError
from pilotage.ids import IClock
from pilotage.runtime.journal.interruptions import RunOwnershipLost, StoreUnavailable
from pilotage.values import value

_LOOK_SECONDS = 2.0
"""How long it may take to notice that nobody is left: runs that follow each other share a task, and then it goes."""


class Renewable(Protocol):
    """What runs out unless it is renewed."""

    def renewed(self) -> Coroutine[Any, Any, None]:
        """Renew it; a failure is nobody's concern, for it comes up again."""
        ...


class LeaseRenewer:
    """Renews each of many every so often, from when it is added until it is dropped.

    Its task is made when the first one is added. When none is left it ends at its next look, or `rest` ends it.
    """

    def __init__(self, clock: IClock, every_seconds: float) -> None:
        self._clock, self._every = clock, every_seconds
        # All wait equally long: the first one is always the next one.
        self._due: dict[Renewable, float] = {}
        self._renewing: dict[Renewable, asyncio.Task[None]] = {}
        self._keeping: asyncio.Task[None] | None = None

    def add(self, each: Renewable) -> None:
        """Renew it from now on."""
        self._due[each] = self._clock.monotonic() + self._every
        keeping = self._keeping
        # An application may be used in one event loop after the other.
        if keeping is None or keeping.done() or keeping.get_loop() is not asyncio.get_running_loop():
            self._keeping = asyncio.create_task(self._keep(), name="keeper of leases")

    def drop(self, each: Renewable) -> None:
        """Renew it no more."""
        self._due.pop(each, None)
        if each in self._renewing:
            self._renewing[each].cancel()

    async def rest(self) -> None:
        """Return when no task is left, unless there still is something to renew."""
        tasks = [*self._renewing.values(), *([self._keeping] if self._keeping is not None else ())]
        if self._due or not tasks:
            return
        for task in tasks:
            task.cancel()
        await asyncio.wait(tasks)

    async def _keep(self) -> None:
        while self._due:
            now = self._clock.monotonic()
            each, due = next(iter(self._due.items()))
            if due > now:
                await self._clock.sleep(min(due - now, _LOOK_SECONDS))
                continue
            del self._due[each]
            self._due[each] = now + self._every
            self._renew(each)

    def _renew(self, each: Renewable) -> None:
        """In a task of its own: a store that is slow to answer for one must not keep the others waiting."""
        if each not in self._renewing:
            task = self._renewing[each] = asyncio.create_task(each.renewed())
            task.add_done_callback(lambda _: self._renewing.pop(each, None))


@value
class LeaseSettings:
    """How long others wait before they take a run over from a process that has fallen silent.

    All processes of a store should have the same. A process is certain of its run for two thirds of it: a shorter
    lease brings runs back sooner, and bears shorter silences, such as a store that does not answer.
    """

    seconds: float = 30.0

    def __post_init__(self) -> None:
        reject_not_positive(self, seconds=self.seconds)


_SAFE_SHARE = 2 / 3
_RENEW_SHARE = 1 / 3


@dataclass
class _Holders:
    """Those in this process who hold the lease of one run together; `was_shared` once there have been several."""

    holds: int = 0
    was_shared: bool = False


_companies: dict[tuple[str, RunKey], _Holders] = {}


async def give_back(leases: IAgentLeases, run: RunKey, owner: str) -> None:
    """Give a lease back that was claimed and not used; whoever holds it in this process meanwhile keeps it."""
    if (owner, run) not in _companies:
        with suppress(OSError):
            await leases.release(run, owner)


class Leasing:
    """The leases of one owner: what is the same for all runs that it drives."""

    def __init__(
        self, leases: IAgentLeases, owner: str, clock: IClock, settings: LeaseSettings | None = None
    ) -> None:
        self.leases, self.owner, self.clock = leases, owner, clock
        self.seconds = (settings or LeaseSettings()).seconds
        self.request = LeaseRequest(owner, self.seconds)
        self.keeper = LeaseRenewer(clock, self.seconds * _RENEW_SHARE)


class HeldLease:
    """A lease that is kept alive until it is let go, or until the run has ended."""

    def __init__(self, leasing: Leasing, run: RunKey) -> None:
        self._leasing = leasing
        self._leases, self._clock, self._keeper = leasing.leases, leasing.clock, leasing.keeper
        self._run, self._owner, self._seconds = run, leasing.owner, leasing.seconds
        self._safe_until = 0.0
        self._unanswered = 0
        self._company: _Holders | None = None

    @property
    def is_safe(self) -> bool:
        """Whether nobody else tries to drive the run, for certain."""
        return self._clock.monotonic() < self._safe_until

    @property
    def is_held(self) -> bool:
        """Whether the lease is still to be given back."""
        return self._company is not None

    @property
    def request(self) -> LeaseRequest:
        """What the first commit of the run asks for (see `take_with`)."""
        return self._leasing.request

    async def take(self) -> None:
        """Get the lease.

        Raises:
            RunConflictError: somebody else has it.
        """
        asked = self._clock.monotonic()
        lease = await self._leases.acquire(self._run, self._owner, self._seconds)
        if lease is None:
            raise RunConflictError(
                f"run {self._run.run_id!r} is driven by another process. Signals reach it there; it can be taken over "
                f"when that process has been silent for {self._seconds:g} seconds."
            )
        self._take(asked, lease.granted_seconds)

    async def take_with(self, commit: Awaitable[None]) -> None:
        """Get the lease with the first commit of the run, which asks for it; what that raises is raised.

        The time counts from before the commit is sent, however often it has to be sent.
        """
        asked = self._clock.monotonic()
        await commit
        self._take(asked, self._seconds)

    async def renew(self) -> None:
        """Keep the lease, or take it anew where it has run out and nobody else wants it.

        Who comes too late may have missed something: only a commit behind the new lease can tell.

        Raises:
            RunOwnershipLost: somebody else has it.
            StoreUnavailable: nobody can say who has it.
        """
        asked = self._clock.monotonic()
        try:
            lease = await self._leases.renew(self._run, self._owner, self._seconds)
            lease = lease or await self._taken_anew()
        except OSError as error:
            raise StoreUnavailable(
                f"run {self._run.run_id!r}: its lease cannot be renewed: {error}"
            ) from error
        if lease is None:
            raise RunOwnershipLost(f"run {self._run.run_id!r}: another process has its lease")
        self._granted(asked, lease.granted_seconds)

    async def renewed(self) -> None:
        """Renew in good time. A lease that has run out is not taken anew here: the next effect finds out."""
        asked = self._clock.monotonic()
        with suppress(OSError):
            lease = await self._leases.renew(self._run, self._owner, self._seconds)
            if lease is not None:
                self._granted(asked, lease.granted_seconds)

    def end(self) -> None:
        """The run has ended: the commit of its end took the lease away, so nobody has to give it back.

        Unless somebody in this process may have asked for it anew meanwhile, whom the store may have heard behind that
        commit: then it is still held, and to be let go. A renewal cannot bring it back.
        """
        company = self._company
        if company is not None and not company.was_shared and not self._unanswered:
            self._leave(company)

    async def let_go(self) -> None:
        """Give the lease back; a store that does not answer lets it run out.

        An attempt that is ending may have company: whoever resumed the run in this process in the meantime, or tried
        to. Only the last of them gives the lease back.
        """
        company = self._company
        if company is None:
            return
        self._leave(company)
        await give_back(self._leases, self._run, self._owner)

    async def forgo(self) -> None:
        """Give back what a commit may have taken of which nobody knows the outcome."""
        await give_back(self._leases, self._run, self._owner)

    def _take(self, asked: float, seconds: float) -> None:
        self._granted(asked, seconds)
        company = self._company = _companies.setdefault((self._owner, self._run), _Holders())
        company.holds += 1
        company.was_shared = company.was_shared or company.holds > 1
        self._keeper.add(self)

    async def _taken_anew(self) -> Lease | None:
        # Who is cancelled in here does not hear whether the lease was taken.
        self._unanswered += 1
        lease = await self._leases.acquire(self._run, self._owner, self._seconds)
        self._unanswered -= 1
        return lease

    def _leave(self, company: _Holders) -> None:
        self._company = None
        self._keeper.drop(self)
        company.holds -= 1
        if not company.holds:
            del _companies[self._owner, self._run]

    def _granted(self, asked: float, seconds: float) -> None:
        self._safe_until = asked + seconds * _SAFE_SHARE

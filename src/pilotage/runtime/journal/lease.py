"""Leases of runs: how long an owner may be sure of a run, and the one task that renews all leases of a process."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Coroutine, Sequence
from contextlib import suppress
from dataclasses import dataclass
from itertools import takewhile
from typing import TypeAlias

from pilotage.agent.ports.journal import LeaseRequest
from pilotage.agent.ports.leases import IAgentLeases, Lease
from pilotage.agent.ports.persistence import RunKey
from pilotage.checks import reject_not_positive
from pilotage.errors import RunConflictError
from pilotage.ids import IClock
from pilotage.runtime.journal.interruptions import EventLoopStalled, RunOwnershipLost, StoreUnavailable
from pilotage.runtime.journal.owners import is_provably_dead
from pilotage.values import value

_IDLE_CHECK_SECONDS = 2.0
"""The longest time that the task outlives its last lease: runs that follow each other share one task."""


RenewTogether: TypeAlias = "Callable[[Sequence[HeldLease]], Coroutine[None, None, None]]"

_TOGETHER_SHARE = 1 / 2
"""Leases that are due within this share of an interval are renewed together with the first one that is due."""

_AT_ONCE = 1_000
"""The most leases that are renewed together: what else is written waits for as many rows at most."""


class LeaseRenewer:
    """Renews leases together at equal intervals, each from when it is added until it is dropped.

    The task starts with the first lease. It ends by itself when there is none left, or in `stop_if_idle`. Most runs
    end before their lease has to be renewed. After its first renewal a lease is due with the others.
    """

    def __init__(self, clock: IClock, every_seconds: float, renew: RenewTogether) -> None:
        self._clock, self._every, self._renew = clock, every_seconds, renew
        # The interval is the same for all: the first entry is always the next one due.
        self._due: dict[HeldLease, float] = {}
        self._renewals: dict[HeldLease, asyncio.Task[None]] = {}
        self._task: asyncio.Task[None] | None = None
        self.beats = 0
        """Grows at least every `beat_seconds` while leases are held and the event loop moves."""
        self.beat_seconds = _IDLE_CHECK_SECONDS

    def add(self, lease: HeldLease) -> None:
        """Renew a lease from now on."""
        self._due[lease] = self._clock.monotonic() + self._every
        task = self._task
        # An application may be used in one event loop after the other.
        if task is None or task.done() or task.get_loop() is not asyncio.get_running_loop():
            self._task = asyncio.create_task(self._renew_all(), name="renewal of leases")

    def drop(self, lease: HeldLease) -> None:
        """Stop renewing a lease."""
        self._due.pop(lease, None)

    @property
    def is_needed(self) -> bool:
        """Whether there are leases to renew and a loop that should do it; may be asked in any thread."""
        task = self._task
        return bool(self._due) and task is not None and not task.done() and task.get_loop().is_running()

    def revoke(self, reason: str) -> list[RunKey]:
        """Renew none of the present leases any more: no further effect begins under them. May be called in any thread.

        Returns:
            The runs whose leases were revoked.
        """
        leases = list(self._due)
        for lease in leases:
            lease.revoke(reason)
        return [lease.run for lease in leases]

    async def stop_if_idle(self) -> None:
        """End all tasks of the renewer, unless there still is a lease to renew."""
        tasks = {*self._renewals.values(), *([self._task] if self._task is not None else ())}
        if self._due or not tasks:
            return
        for task in tasks:
            task.cancel()
        await asyncio.wait(tasks)

    async def _renew_all(self) -> None:
        while self._due:
            self.beats += 1
            now = self._clock.monotonic()
            due = next(iter(self._due.values()))
            if due > now:
                await self._clock.sleep(min(due - now, self.beat_seconds))
                continue
            self._renew_due(now)

    def _renew_due(self, now: float) -> None:
        """Renew the leases that are due, and those that will be soon, in tasks of their own: a store may be slow."""
        until = now + self._every * _TOGETHER_SHARE
        due = list(takewhile(lambda lease: self._due[lease] <= until, self._due))
        for lease in due:
            del self._due[lease]
            self._due[lease] = now + self._every
        free = [lease for lease in due if lease not in self._renewals]
        for first in range(0, len(free), _AT_ONCE):
            self._begin(free[first : first + _AT_ONCE])

    def _begin(self, leases: Sequence[HeldLease]) -> None:
        task = asyncio.create_task(self._renew(leases), name="renewal of leases that are due")
        self._renewals |= dict.fromkeys(leases, task)
        task.add_done_callback(lambda _: self._end(leases))

    def _end(self, leases: Sequence[HeldLease]) -> None:
        for lease in leases:
            self._renewals.pop(lease, None)


@value
class LeaseSettings:
    """The time after which other processes take over a run, if its owner does not renew the lease.

    All processes of a store should have the same. An owner is sure of its run for two thirds of the time: with a
    shorter lease runs are taken over sooner, and an owner survives shorter outages of the store.

    With `frees_dead_owners` a process takes over at once from a process that is provably dead: one of the same machine,
    boot and container, whose process id is free or belongs to another process. Switch it off where running machines are
    copied with their memory.
    """

    seconds: float = 30.0
    frees_dead_owners: bool = True

    def __post_init__(self) -> None:
        reject_not_positive(self, seconds=self.seconds)


SAFE_SHARE = 2 / 3
"""The share of a lease for which its owner is sure of the run."""
_RENEW_SHARE = 1 / 3


@dataclass
class _Holders:
    """The number of attempts of this process that hold the lease of one run; `was_shared` once there were several."""

    count: int = 0
    was_shared: bool = False


_holders: dict[tuple[str, RunKey], _Holders] = {}


async def release_unused(leases: IAgentLeases, run: RunKey, owner: str) -> None:
    """Release a lease that was claimed and not used, unless an attempt of this process holds it meanwhile."""
    if (owner, run) not in _holders:
        with suppress(OSError):
            await leases.release(run, owner)


async def release_of_dead(leases: IAgentLeases, run: RunKey) -> bool:
    """Release the lease of a run whose owner is provably dead; return False where there is no such owner."""
    holder = await leases.holder(run)
    if holder is None or not is_provably_dead(holder.owner):
        return False
    await leases.release(run, holder.owner)
    return True


class Leasing:
    """The settings and the renewer that all leases of one owner share."""

    def __init__(
        self, leases: IAgentLeases, owner: str, clock: IClock, settings: LeaseSettings | None = None
    ) -> None:
        self.leases, self.owner, self.clock = leases, owner, clock
        settings = settings or LeaseSettings()
        self.seconds = settings.seconds
        self.frees_dead_owners = settings.frees_dead_owners
        self.request = LeaseRequest(owner, self.seconds)
        self.renewer = LeaseRenewer(clock, self.seconds * _RENEW_SHARE, self.renew)

    async def renew(self, held: Sequence[HeldLease]) -> None:
        """Renew leases before they expire, by one request; those that it does not renew are renewed one by one.

        So a lease that cannot be renewed, or a request that fails because of one of them, takes no other one along.
        """
        held = [lease for lease in held if lease.is_renewable]
        if len(held) > 1:
            asked, runs = self.clock.monotonic(), [lease.run for lease in held]
            # Whatever the error is: each of them then meets its own.
            with suppress(Exception):
                left = frozenset(await self.leases.renew_all(runs, self.owner, self.seconds))
                for lease in held:
                    if not left or lease.run not in left:
                        lease.renewed(asked)
                held = [lease for lease in held if lease.run in left] if left else []
        # An error ends nothing: the next effect asks for the lease again, and is told.
        await asyncio.gather(*(lease.renew_ahead() for lease in held), return_exceptions=True)


class HeldLease:
    """The lease of one run for one attempt: renewed until it is released, or until the run has ended."""

    def __init__(self, leasing: Leasing, run: RunKey) -> None:
        self._leasing = leasing
        self._leases, self._clock, self._renewer = leasing.leases, leasing.clock, leasing.renewer
        self._run, self._owner, self._seconds = run, leasing.owner, leasing.seconds
        self._safe_until = 0.0
        self._unanswered = 0
        """The number of requests for the lease that were cancelled before the store answered."""
        self._holders: _Holders | None = None
        self._revoked: str | None = None

    @property
    def run(self) -> RunKey:
        """The run."""
        return self._run

    @property
    def is_certain(self) -> bool:
        """Whether the lease certainly holds, so that no other process tries to drive the run."""
        return self._revoked is None and self._clock.monotonic() < self._safe_until

    def revoke(self, reason: str) -> None:
        """Renew the lease no more: the run is left to another owner."""
        self._revoked = reason

    @property
    def is_renewable(self) -> bool:
        """Whether the lease is to be renewed ahead: it was neither released nor revoked."""
        return self._holders is not None and self._revoked is None

    @property
    def is_held(self) -> bool:
        """Whether the lease has to be released."""
        return self._holders is not None

    @property
    def request(self) -> LeaseRequest:
        """The request for the first commit of the run (see `acquire_with`)."""
        return self._leasing.request

    async def acquire(self) -> None:
        """Acquire the lease; one of a process that is provably dead is released first.

        Raises:
            RunConflictError: another process has it.
        """
        asked = self._clock.monotonic()
        lease = await self._leases.acquire(self._run, self._owner, self._seconds)
        if (
            lease is None
            and self._leasing.frees_dead_owners
            and await release_of_dead(self._leases, self._run)
        ):
            asked = self._clock.monotonic()
            lease = await self._leases.acquire(self._run, self._owner, self._seconds)
        if lease is None:
            raise RunConflictError(
                f"run {self._run.run_id!r} is driven by another process. Signals reach it there; it can be taken over "
                f"when that process has been silent for {self._seconds:g} seconds."
            )
        self._take(asked, lease.granted_seconds)

    async def acquire_with(self, commit: Awaitable[None]) -> None:
        """Acquire the lease with the first commit of the run, which carries the request; its errors are raised.

        The time counts from before the commit is sent, however often it is sent.
        """
        asked = self._clock.monotonic()
        await commit
        self._take(asked, self._seconds)

    async def renew(self) -> None:
        """Renew the lease, or acquire it again where it has expired and is free.

        Another owner may have had the run after the expiry: only a commit under the new lease shows that none had.

        Raises:
            RunOwnershipLost: another process has it.
            EventLoopStalled: it was revoked.
            StoreUnavailable: the store does not answer.
        """
        if self._revoked is not None:
            raise EventLoopStalled(f"run {self._run.run_id!r}: {self._revoked}")
        asked = self._clock.monotonic()
        try:
            lease = await self._leases.renew(self._run, self._owner, self._seconds)
            lease = lease or await self._acquired_again()
        except OSError as error:
            raise StoreUnavailable(
                f"run {self._run.run_id!r}: its lease cannot be renewed: {error}"
            ) from error
        if lease is None:
            raise RunOwnershipLost(f"run {self._run.run_id!r}: another process has its lease")
        self._granted(asked, lease.granted_seconds)

    async def renew_ahead(self) -> None:
        """Renew the lease before it expires. An expired one is left to `renew`, before the next effect."""
        if not self.is_renewable:
            return
        asked = self._clock.monotonic()
        with suppress(OSError):
            lease = await self._leases.renew(self._run, self._owner, self._seconds)
            if lease is not None:
                self.renewed(asked)

    def renewed(self, asked: float) -> None:
        """Take in that the lease was renewed, by a request of that moment; one that was released stays so."""
        if self._holders is not None:
            self._granted(asked, self._seconds)

    def end(self) -> None:
        """Stop renewing: the commit that ended the run has removed the lease, so it need not be released.

        An attempt of this process may have acquired it again after that commit: then it is still held, and has to be
        released. A renewal cannot bring it back.
        """
        holders = self._holders
        if holders is not None and not holders.was_shared and not self._unanswered:
            self._leave(holders)

    async def release(self) -> None:
        """Release the lease; where the store does not answer, it expires.

        Another attempt of this process may hold it too, one that resumed the run meanwhile or tried to. The last of
        them releases it.
        """
        holders = self._holders
        if holders is None:
            return
        self._leave(holders)
        await release_unused(self._leases, self._run, self._owner)

    async def release_unknown(self) -> None:
        """Release a lease that a commit with an unknown outcome may have acquired."""
        await release_unused(self._leases, self._run, self._owner)

    def _take(self, asked: float, seconds: float) -> None:
        self._granted(asked, seconds)
        holders = self._holders = _holders.setdefault((self._owner, self._run), _Holders())
        holders.count += 1
        holders.was_shared = holders.was_shared or holders.count > 1
        self._renewer.add(self)

    async def _acquired_again(self) -> Lease | None:
        # A task that is cancelled in here does not learn whether the lease was acquired.
        self._unanswered += 1
        lease = await self._leases.acquire(self._run, self._owner, self._seconds)
        self._unanswered -= 1
        return lease

    def _leave(self, holders: _Holders) -> None:
        self._holders = None
        self._renewer.drop(self)
        holders.count -= 1
        if not holders.count:
            del _holders[self._owner, self._run]

    def _granted(self, asked: float, seconds: float) -> None:
        self._safe_until = asked + seconds * SAFE_SHARE

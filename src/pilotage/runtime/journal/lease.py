"""Leases of runs: how long an owner may be sure of a run, what it holds, and proofs of death.

On Linux the name of an owner has the place and the start of the process: a digest of host, boot, process and time
namespace, and the start time by the clock of that boot. Another process of the same place proves a death by the
process table: the process id is free, or belongs to a process that started at another time, or to one that has exited.
Anything else is no proof: another machine, boot or container, a system without `/proc`, a name of another form.
"""

from __future__ import annotations

import asyncio
import os
import re
from collections.abc import Awaitable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from socket import gethostname

from pilotage.agent.ports.journal import LeaseRequest
from pilotage.agent.ports.leases import IAgentLeases, Lease
from pilotage.agent.ports.persistence import RunKey
from pilotage.checks import reject_not_positive
from pilotage.errors import RunConflictError
from pilotage.ids import IClock
from pilotage.jsonvalue import text_digest
from pilotage.runtime.journal.interruptions import EventLoopStalled, RunOwnershipLost, StoreUnavailable
from pilotage.runtime.journal.renewal import LeaseRenewer
from pilotage.values import value

_PROC = Path("/proc")
_NAME = re.compile(r"[^:]*:([1-9][0-9]{0,9}):.*:([0-9a-f]{16})-([0-9]{1,20})", re.DOTALL)
_EXITED = ("Z", "X")


@value
class OwnerProcess:
    """A process: its id, the place in which the id is valid, and its start in clock ticks after the boot."""

    pid: int
    place: str
    started: int


def owner_name(unique: str, pid: int | None = None) -> str:
    """Return the name of a process, by default this one: host, process id, a unique part, and place and start."""
    pid = pid or os.getpid()
    known = _process(pid)
    end = f":{known.place}-{known.started}" if known is not None else ""
    return f"{gethostname()}:{pid}:{unique}{end}"


def process_of(owner: str) -> OwnerProcess | None:
    """Return the process that a name is of; None where it names none that could be proven dead."""
    found = _NAME.fullmatch(owner)
    return None if found is None else OwnerProcess(int(found[1]), found[2], int(found[3]))


def is_provably_dead(owner: str) -> bool:
    """Return whether the process of a name certainly does nothing any more."""
    process = process_of(owner)
    if process is None or process.place != _place():
        return False
    try:
        os.kill(process.pid, 0)
    except ProcessLookupError:
        return True
    except (OSError, OverflowError):
        # It exists and is another user's, or its id is none.
        return False
    return _has_ended(process)


def _has_ended(process: OwnerProcess) -> bool:
    """Return whether an id belongs to another process by now, or to one that has exited and was not collected."""
    found = _stat(process.pid)
    if found is None:
        return False
    state, threads, started = found
    # While other threads run, the first one of a process may have exited.
    return started != process.started or (state in _EXITED and threads <= 1)


def _process(pid: int) -> OwnerProcess | None:
    place, found = _place(), _stat(pid)
    return None if place is None or found is None else OwnerProcess(pid, place, found[2])


@lru_cache(maxsize=1)
def _place() -> str | None:
    """Return the place of this process; None where there is no `/proc` of Linux."""
    try:
        boot = (_PROC / "sys/kernel/random/boot_id").read_text()
        spaces = [_namespace(name) for name in ("pid", "time")]
    except OSError:
        return None
    return text_digest("\n".join([gethostname(), boot, *spaces]))[:16]


def _namespace(name: str) -> str:
    try:
        return str((_PROC / "self/ns" / name).readlink())
    except FileNotFoundError:
        # A kernel without such namespaces has one.
        return ""


def _stat(pid: int) -> tuple[str, int, int] | None:
    """Return the state of a process, its number of threads and its start; None where they cannot be read."""
    try:
        # The name in parentheses may contain anything.
        fields = (_PROC / str(pid) / "stat").read_text(errors="replace").rpartition(")")[2].split()
        return fields[0], int(fields[17]), int(fields[19])
    except (OSError, ValueError, IndexError):
        return None


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
        self.renewer = LeaseRenewer[HeldLease](clock, self.seconds * _RENEW_SHARE, self.renew)

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
        # An error ends nothing: the next effect asks for the lease again, and gets it.
        await asyncio.gather(*(lease.renew_ahead() for lease in held), return_exceptions=True)


class HeldLease:
    """The lease of one run for one attempt: renewed until it is released, or until the run has ended."""

    def __init__(self, leasing: Leasing, run: RunKey) -> None:
        self._leasing = leasing
        self._leases, self._clock, self._renewer = leasing.leases, leasing.clock, leasing.renewer
        self._run, self._owner, self._seconds = run, leasing.owner, leasing.seconds
        self._safe_until = 0.0
        self._asked = 0.0
        """When the newest request that was granted was sent: a reply to an older one says nothing new."""
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
        if asked >= self._asked:
            self._asked, self._safe_until = asked, asked + seconds * SAFE_SHARE

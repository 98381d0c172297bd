"""The lease of this process on a run it drives: who holds it is the one who tries.

Safety is the journal's; a lease keeps others from trying, and an effect from beginning when they may be trying
already. So an effect begins only while the lease certainly holds, counted on this process's own clock from the moment
it was asked for.
"""

from __future__ import annotations

from collections.abc import Awaitable
from contextlib import suppress
from dataclasses import dataclass

from pilotage.agent.ports.journal import LeaseRequest, RunKey
from pilotage.agent.ports.leases import IAgentLeases, Lease
from pilotage.checks import reject_not_positive
from pilotage.errors import RunConflictError
from pilotage.ids import IClock
from pilotage.runtime.actions.interruptions import RunOwnershipLost, StoreUnavailable
from pilotage.runtime.journal.keeping import Keeper
from pilotage.values import value


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
class _Company:
    """Those in this process who hold the lease of one run together; `was_shared` once there have been several."""

    holds: int = 0
    was_shared: bool = False


_companies: dict[tuple[str, RunKey], _Company] = {}


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
        self.keeper = Keeper(clock, self.seconds * _RENEW_SHARE)


class Hold:
    """A lease that is kept alive until it is let go, or until the run has ended."""

    def __init__(self, leasing: Leasing, run: RunKey) -> None:
        self._leasing = leasing
        self._leases, self._clock, self._keeper = leasing.leases, leasing.clock, leasing.keeper
        self._run, self._owner, self._seconds = run, leasing.owner, leasing.seconds
        self._safe_until = 0.0
        self._unanswered = 0
        self._company: _Company | None = None

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
        company = self._company = _companies.setdefault((self._owner, self._run), _Company())
        company.holds += 1
        company.was_shared = company.was_shared or company.holds > 1
        self._keeper.add(self)

    async def _taken_anew(self) -> Lease | None:
        # Who is cancelled in here does not hear whether the lease was taken.
        self._unanswered += 1
        lease = await self._leases.acquire(self._run, self._owner, self._seconds)
        self._unanswered -= 1
        return lease

    def _leave(self, company: _Company) -> None:
        self._company = None
        self._keeper.drop(self)
        company.holds -= 1
        if not company.holds:
            del _companies[self._owner, self._run]

    def _granted(self, asked: float, seconds: float) -> None:
        self._safe_until = asked + seconds * _SAFE_SHARE

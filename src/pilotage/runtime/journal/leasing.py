"""The lease of this process on a run it drives: who holds it is the one who tries.

Safety is the journal's; a lease keeps others from trying, and an effect from beginning when they may be trying
already. So an effect begins only while the lease certainly holds, counted on this process's own clock from the moment
it was asked for.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from contextlib import suppress

from pilotage.agent.ports.journal import RunKey
from pilotage.agent.ports.leases import IAgentLeases, Lease
from pilotage.checks import reject_not_positive
from pilotage.errors import RunConflictError
from pilotage.ids import IClock
from pilotage.runtime.actions.interruptions import RunOwnershipLost, StoreUnavailable
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


_DEFAULT = LeaseSettings()
_SAFE_SHARE = 2 / 3
_RENEW_SHARE = 1 / 3
_holders: Counter[tuple[str, RunKey]] = Counter()


async def give_back(leases: IAgentLeases, run: RunKey, owner: str) -> None:
    """Give a lease back that was claimed and not used; whoever holds it in this process meanwhile keeps it."""
    if not _holders[owner, run]:
        with suppress(OSError):
            await leases.release(run, owner)


class Hold:
    """A lease that is kept alive until it is let go."""

    def __init__(
        self,
        leases: IAgentLeases,
        run: RunKey,
        owner: str,
        clock: IClock,
        settings: LeaseSettings = _DEFAULT,
    ) -> None:
        self._seconds = settings.seconds
        self._leases = leases
        self._run = run
        self._owner = owner
        self._clock = clock
        self._safe_until = 0.0
        self._keeping: asyncio.Task[None] | None = None

    @property
    def is_safe(self) -> bool:
        """Whether nobody else tries to drive the run, for certain."""
        return self._clock.monotonic() < self._safe_until

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
        self._granted(asked, lease)
        _holders[self._owner, self._run] += 1
        self._keeping = asyncio.create_task(self._keep())

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
            lease = lease or await self._leases.acquire(self._run, self._owner, self._seconds)
        except OSError as error:
            raise StoreUnavailable(
                f"run {self._run.run_id!r}: its lease cannot be renewed: {error}"
            ) from error
        if lease is None:
            raise RunOwnershipLost(f"run {self._run.run_id!r}: another process has its lease")
        self._granted(asked, lease)

    async def let_go(self) -> None:
        """Give the lease back; a store that does not answer lets it run out.

        An attempt that is ending may have company: whoever resumed the run in this process in the meantime, or tried
        to. Only the last of them gives the lease back.
        """
        if self._keeping is None:
            return
        self._keeping.cancel()
        await asyncio.wait([self._keeping])
        holders = _holders[self._owner, self._run] - 1
        if holders:
            _holders[self._owner, self._run] = holders
            return
        del _holders[self._owner, self._run]
        with suppress(OSError):
            await self._leases.release(self._run, self._owner)

    def _granted(self, asked: float, lease: Lease) -> None:
        self._safe_until = asked + lease.granted_seconds * _SAFE_SHARE

    async def _keep(self) -> None:
        """Renew in good time. A lease that has run out is not taken anew here: the next effect finds out."""
        while True:
            await self._clock.sleep(self._seconds * _RENEW_SHARE)
            asked = self._clock.monotonic()
            with suppress(OSError):
                lease = await self._leases.renew(self._run, self._owner, self._seconds)
                if lease is not None:
                    self._granted(asked, lease)

"""The ports for the ownership of runs: leases, the backlog of runs without an owner, wake-up hints.

A lease saves work; it gives no safety. Of two owners that both believe in their lease, one loses at the journal, so
a lease may be lost, doubled or late without harm. It expires by the store's clock, the only one that all owners share.
An owner counts `granted_seconds` on its own monotonic clock from the moment it asked, and so stops before the store
grants the lease to another owner.

A run has no owner when its process dies or stops, or when an answer arrives for one that waits. Claiming a run from the
backlog finds it and takes its lease in one step. A wake-up hint says "look now": it may be lost, late, merged with
others or wrong, so a listener reads the store, and also polls it slowly without any hint.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Collection, Sequence
from contextlib import AbstractAsyncContextManager
from datetime import datetime, timedelta

from pilotage.agent.ports.persistence import RunKey, persistence_port
from pilotage.agent.signals import AgentSignalKind
from pilotage.agent.state import AgentState, AgentStateReason, AgentStatus
from pilotage.checks import reject_naive, reject_negative, reject_not_positive
from pilotage.errors import AgentDefinitionError
from pilotage.values import value


@value
class Lease:
    """An owner may try to drive a run for `granted_seconds`, which is until `expires_at` by the store's clock."""

    run: RunKey
    owner: str
    expires_at: datetime
    granted_seconds: float

    def __post_init__(self) -> None:
        if not self.owner.strip():
            raise AgentDefinitionError("Lease.owner is blank. Give it at least one visible character.")
        reject_naive(self, expires_at=self.expires_at)
        reject_not_positive(self, granted_seconds=self.granted_seconds)


@persistence_port
class IAgentLeases(ABC):
    """Grants leases on runs, one at a time each.

    Every adapter guarantees: of several owners that ask at once exactly one gets the lease; time is the
    store's; a lease needs no run, so it can be taken before the run's first commit. A lease that has run
    out counts as none, whether or not anything cleared it away. A lease that the first commit of a run took is like any
    other, and the commit that ends a run takes its lease away (see `IAgentJournal`).
    """

    @abstractmethod
    async def acquire(self, run: RunKey, owner: str, seconds: float) -> Lease | None:
        """Take the lease for `seconds` from now; None where another owner has one that has not run out.

        The owner that has the lease already gets it anew, from now on.

        Raises:
            AgentDefinitionError: `owner` is blank or `seconds` is not positive.
            OSError: the store cannot be reached; whether the lease was taken is unknown.
        """

    @abstractmethod
    async def renew(self, run: RunKey, owner: str, seconds: float) -> Lease | None:
        """Keep a lease for `seconds` from now; None where it has run out or is another owner's.

        Unlike `acquire` it never takes a lease that is free: an owner that comes too late must learn that.

        Raises:
            AgentDefinitionError: `owner` is blank or `seconds` is not positive.
            OSError: the store cannot be reached; whether the lease was renewed is unknown.
        """

    async def renew_all(self, runs: Collection[RunKey], owner: str, seconds: float) -> Collection[RunKey]:
        """Keep the leases of an owner on these runs for `seconds` from now; return the runs whose leases are left.

        Those are left as they are, and do not keep the others from being renewed. A run may be left although its lease
        holds, for example because another transaction has locked it: then `renew` decides. An adapter without a method
        of its own renews one after the other.

        Raises:
            AgentDefinitionError: `owner` is blank or `seconds` is not positive.
            OSError: the store cannot be reached; which leases were renewed is unknown.
        """
        return [run for run in runs if await self.renew(run, owner, seconds) is None]

    @abstractmethod
    async def release(self, run: RunKey, owner: str) -> None:
        """Give a lease back, so that others need not wait for it to run out; another owner's is unchanged.

        Another process may do so for an owner that is provably dead.

        Raises:
            OSError: the store cannot be reached; the lease runs out by itself.
        """

    @abstractmethod
    async def holder(self, run: RunKey) -> Lease | None:
        """Return the lease that has not run out, or None.

        Raises:
            OSError: the store cannot be reached.
        """

    async def owners(self) -> frozenset[str]:
        """Return the owners of all leases that have not run out; none where an adapter cannot list them.

        Raises:
            OSError: the store cannot be reached.
        """
        return frozenset()

    async def release_all(self, owner: str) -> None:
        """Give all leases of an owner back, which is provably dead; an adapter that lists no owners has none to give.

        Raises:
            OSError: the store cannot be reached.
        """
        return


LETS_GO_ON = frozenset({AgentSignalKind.APPROVAL_DECISION, AgentSignalKind.RESUME, AgentSignalKind.CANCEL})
"""The signals that give a waiting run something to do."""

LETS_POISONED_GO_ON = frozenset({AgentSignalKind.RESUME, AgentSignalKind.CANCEL})
"""The signals that give a run something to do that is quarantined, diverged or at a limit."""

WAITS_FOR_PERSON = frozenset(
    {AgentStateReason.POISONED, AgentStateReason.DIVERGED, AgentStateReason.LIMIT_REACHED}
)
"""The reasons of interruptions that no answer and no time ends: a person resumes, resolves or cancels the run."""

_UNDER_WAY = frozenset({AgentStatus.ACTIVE, AgentStatus.CANCELLING})


def has_something_to_do(
    state: AgentState,
    pending: Collection[AgentSignalKind],
    now: datetime,
    parent: AgentStatus | None = None,
) -> bool:
    """Return whether a run could go on if it had an owner; `pending` are the kinds of its unconsumed signals.

    A run that is under way can. A child is driven by its parent, unless the `parent` waits: then the parent was
    abandoned while it drove this child, and nothing else brings it back. A run that waits, child or not, can go on once
    there is an answer or the message that it awaits, or once its time is up. A cancelled run with something that it
    awaits waits as well, for nothing else. One that is quarantined, diverged or at a limit waits for a person. A child
    whose parent has ended must be cancelled, whatever it does or waits for.
    """
    if parent is not None and parent.is_terminal and not state.is_terminal:
        return True
    is_due = state.wake_at is not None and state.wake_at <= now
    if state.status is AgentStatus.CANCELLING and state.awaits is not None:
        return is_due or state.awaits in pending
    if state.status in _UNDER_WAY:
        return state.metadata.get("parent") is None or parent is AgentStatus.INTERRUPTED
    if state.status is not AgentStatus.INTERRUPTED:
        return False
    if state.reason in WAITS_FOR_PERSON:
        return not LETS_POISONED_GO_ON.isdisjoint(pending)
    return is_due or not LETS_GO_ON.isdisjoint(pending) or state.awaits in pending


SUSPECT_FROM = 2
"""A run with so many claims without progress is driven alone: it may end its process."""

POISONED_FROM = 5
"""A run with so many claims without progress is quarantined."""

LONGEST_DELAY = timedelta(minutes=5)
"""The longest time for which a run is not given out. A later `next_claim` is that of a clock that was set back."""


@value
class ClaimRecord:
    """The claims of a run without progress: they ended without a new row, a pause or a hand-over.

    `count` are those since the last new row, the current one included. `problem` is the last known error; a process
    that dies leaves none. The run is not given out before `next_claim`.
    """

    count: int = 0
    last_claim: datetime | None = None
    problem: str | None = None
    next_claim: datetime | None = None

    def __post_init__(self) -> None:
        reject_negative(self, count=self.count)
        reject_naive(self, last_claim=self.last_claim, next_claim=self.next_claim)

    @property
    def is_suspect(self) -> bool:
        """Whether the run must be driven alone in its process."""
        return self.count >= SUSPECT_FROM

    @property
    def is_poisoned(self) -> bool:
        """Whether the run must not be driven any more."""
        return self.count >= POISONED_FROM

    @property
    def delay(self) -> timedelta | None:
        """The time from the last claim to the next; None where no claim was put off."""
        if self.last_claim is None or self.next_claim is None:
            return None
        return max(self.next_claim - self.last_claim, timedelta())

    def is_due(self, now: datetime) -> bool:
        """Return whether the run may be given out now."""
        return self.next_claim is None or not now < self.next_claim <= now + 2 * LONGEST_DELAY


NO_CLAIMS = ClaimRecord()


@value
class BacklogEntry:
    """A run that was given out: its lease, and its claims before this one."""

    lease: Lease
    claims: ClaimRecord = NO_CLAIMS

    @property
    def run(self) -> RunKey:
        """The run."""
        return self.lease.run


@persistence_port
class IAgentBacklog(ABC):
    """Finds runs that have something to do and no owner, takes their leases, and counts claims without progress.

    Every adapter guarantees: what it gives out is what `has_something_to_do` says, of runs that have a journal and
    are due (`ClaimRecord.is_due`); of several owners that claim at once each run goes to one; the leases are those of
    `IAgentLeases` over the same store, which renews and releases them. No owner waits for another. Time is the store's.
    A commit that makes progress (`commit_rules.makes_progress`) sets the count of its run to zero.
    """

    @abstractmethod
    async def claim(
        self,
        owner: str,
        seconds: float,
        limit: int,
        *,
        agents: Collection[str],
        leaving: Collection[RunKey] = (),
        suspects: bool = False,
    ) -> Sequence[BacklogEntry]:
        """Take the leases of up to `limit` runs of these agents, for `seconds` from now.

        The longest untouched come first, as far as the store looks: of very many open runs it may look at a part each
        time. Every run that can go on is found within some claims.

        A run with a lease that has not run out is passed over, even if it is this owner's, and so are those of
        `leaving`. Suspects are passed over, too; with `suspects` one of them may come besides the others, as the last.

        Raises:
            AgentDefinitionError: `owner` is blank, or `seconds` or `limit` is not positive.
            OSError: the store cannot be reached; what it may have claimed runs out by itself.
        """

    @abstractmethod
    async def begin(self, run: RunKey, delay_seconds: float) -> None:
        """Count a claim of a run before anything is done for it; the run is not given out again for so long.

        Raises:
            AgentDefinitionError: the delay is negative, or longer than `LONGEST_DELAY`.
            OSError: the store cannot be reached; whether the claim was counted is unknown.
        """

    @abstractmethod
    async def settle(
        self, run: RunKey, *, counts: bool, delay_seconds: float = 0.0, problem: str | None = None
    ) -> None:
        """End a claim: with `counts` it stays counted unless there was progress, otherwise it is taken back.

        A `problem` replaces the last one. The run is not given out for so many seconds from now.

        Raises:
            AgentDefinitionError: the delay is negative, or longer than `LONGEST_DELAY`.
            OSError: the store cannot be reached; the claim stays counted.
        """

    @abstractmethod
    async def forget(self, run: RunKey) -> None:
        """Set the count of a run to zero, without a delay and without a problem: a person resumes it.

        Raises:
            OSError: the store cannot be reached.
        """

    @abstractmethod
    async def claims_of(self, run: RunKey) -> ClaimRecord:
        """Return the claims of a run without progress; an unknown run has none.

        Raises:
            OSError: the store cannot be reached.
        """

    @abstractmethod
    async def agents(self) -> frozenset[str]:
        """Return the agents whose runs could be claimed now, so that unknown ones are noticed.

        Raises:
            OSError: the store cannot be reached.
        """


def checked_delay(owner: str, seconds: float) -> timedelta:
    """Return a delay of `begin` or `settle`.

    Raises:
        AgentDefinitionError: it is negative, or longer than `LONGEST_DELAY`.
    """
    reject_negative(owner, delay_seconds=seconds)
    longest = LONGEST_DELAY.total_seconds()
    if not seconds <= longest:
        raise AgentDefinitionError(f"{owner}: delay_seconds is {seconds:g}. Give {longest:g} at most.")
    return timedelta(seconds=seconds)


class IWakeUpSubscription(ABC):
    """One listener's hints that it has not received yet: each run at most once, and only so many runs."""

    @abstractmethod
    async def next(self) -> str:
        """Return the id of a run to look after; waits until there is one.

        A caller that is cancelled while waiting has missed nothing: the hint is there for the next call.
        """


@persistence_port
class IAgentWakeUps(ABC):
    """Passes hints about changes to all processes that listen.

    Every adapter guarantees: a listener that keeps up receives a hint soon after it, in whichever process it
    was given; a listener that does not keep up delays no other and costs bounded memory. Hints that do not fit are
    dropped. A channel that is down loses hints; it comes back by itself and raises neither here nor there.
    """

    @abstractmethod
    async def notify(self, run_id: str) -> None:
        """Hint at a run, after what it should look at is committed. Never waits for a listener."""

    @abstractmethod
    def subscribe(self) -> AbstractAsyncContextManager[IWakeUpSubscription]:
        """Listen for the length of the block; hints given before it begins are not received."""

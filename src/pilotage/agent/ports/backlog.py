"""The backlog port: the runs that somebody should drive and nobody does.

A run is left behind when its process dies or stops, or when an answer comes for one that waits. Whoever has hands
free claims runs here: finding one and taking its lease is one step, so that several processes compete without getting
in each other's way. What keeps a run safe is, as ever, its journal.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Collection, Sequence
from datetime import datetime

from pilotage.agent.ports.journal import RunKey
from pilotage.agent.ports.leases import Lease
from pilotage.agent.ports.providers import persistence_port
from pilotage.agent.signals import AgentSignalKind
from pilotage.agent.state import AgentState, AgentStatus

LETS_GO_ON = frozenset({AgentSignalKind.APPROVAL_DECISION, AgentSignalKind.RESUME, AgentSignalKind.CANCEL})
"""The signals that give a waiting run something to do."""

_UNDER_WAY = frozenset({AgentStatus.ACTIVE, AgentStatus.CANCELLING})


def has_something_to_do(
    state: AgentState,
    pending: Collection[AgentSignalKind],
    now: datetime,
    parent: AgentStatus | None = None,
) -> bool:
    """Whether a run could go on if somebody drove it; `pending` are the kinds of its unconsumed signals.

    A run that is under way can. If it belongs to another run, that one brings it along, unless the `parent` waits: it
    had come back for this run and was left in the middle, with nothing that would bring it back again. A run that waits
    can once there is an answer or the message that it awaits, also if it belongs to another run, or once the time is up
    until which it waits.
    """
    if state.status in _UNDER_WAY:
        return state.metadata.get("parent") is None or parent is AgentStatus.INTERRUPTED
    if state.status is not AgentStatus.INTERRUPTED:
        return False
    is_due = state.wake_at is not None and state.wake_at <= now
    return is_due or not LETS_GO_ON.isdisjoint(pending) or state.awaits in pending


@persistence_port
class IAgentBacklog(ABC):
    """Finds runs that have something to do and that nobody drives, and takes their leases.

    Every adapter guarantees: what it gives out is what `has_something_to_do` says, of runs that have a journal; of
    several owners that claim at once each run goes to one; the leases are those of `IAgentLeases` over the same
    store, which renews and releases them. Nobody waits for anybody. Time is the store's and nobody else's.
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
    ) -> Sequence[Lease]:
        """Take the leases of up to `limit` runs of these agents, for `seconds` from now; the longest untouched first.

        A run with a lease that has not run out is passed over, even if it is this owner's, and so are those of
        `leaving`.

        Raises:
            AgentDefinitionError: `owner` is blank, or `seconds` or `limit` is not positive.
            OSError: the store cannot be reached; what it may have claimed runs out by itself.
        """

    @abstractmethod
    async def agents(self) -> frozenset[str]:
        """The agents whose runs could be claimed now, so that those which nobody knows are noticed.

        Raises:
            OSError: the store cannot be reached.
        """

"""The repositories: reading and, outside journaled runs, writing state, signals and evidence.

All methods are async. Order is the run's sequence: never a timestamp, never an id. What goes in comes
out again unchanged, time zones and descriptors of sensitive fields included. On a journaled run only the
journal writes: a direct `save` or `mark_consumed` is refused there, and `append` of evidence goes through
the journal.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Collection, Sequence
from datetime import datetime

from pilotage.agent.evidence import AgentEvidence
from pilotage.agent.ports.providers import persistence_port
from pilotage.agent.signals import AgentSignal
from pilotage.agent.state import AgentState, AgentStatus
from pilotage.values import value


@value
class RunPage:
    """Some runs of a longer list. `cursor` given as `after` leads to the next page; None says that this is the last."""

    runs: tuple[AgentState, ...]
    cursor: str | None = None


@value
class EvidencePage:
    """Some evidence of a longer list; `cursor` as in `RunPage`."""

    evidence: tuple[AgentEvidence, ...]
    cursor: str | None = None


@persistence_port
class IAgentStateRepository(ABC):
    """Keeps one `AgentState` per run."""

    @abstractmethod
    async def get(self, state_id: str) -> AgentState:
        """The state of a run.

        Raises:
            RunNotFoundError: there is no such run, or it belongs to another tenant.
        """

    @abstractmethod
    async def get_or_none(self, state_id: str) -> AgentState | None:
        """The state of a run, or None."""

    @abstractmethod
    async def get_with_head(self, state_id: str) -> tuple[AgentState, int] | None:
        """The state of a run and the number of the last row its journal had in the same moment; None for no such run.

        Whoever then finds that row to be the last one has rows and state as they stood together. 0 stands for a run
        without a journal.
        """

    @abstractmethod
    async def save(self, state: AgentState) -> AgentState:
        """Store a state and give back what was stored, with the store's timestamps."""

    @abstractmethod
    async def list_by_status(self, status: AgentStatus) -> Sequence[AgentState]:
        """All runs in a status, oldest first."""

    @abstractmethod
    async def list_resume_candidates(self) -> Sequence[AgentState]:
        """All runs that are active, interrupted or cancelling, oldest first."""

    @abstractmethod
    async def list_runs(
        self,
        tenant_id: str,
        *,
        statuses: Collection[AgentStatus] = (),
        agent_type: str | None = None,
        conversation_id: str | None = None,
        since: datetime | None = None,
        until: datetime | None = None,
        after: str | None = None,
        limit: int = 50,
    ) -> RunPage:
        """The runs of a tenant, newest first: all, or those in one of the statuses, of the agent, of the conversation.

        Created from `since` on and before `until`, where these are given.

        The order is that in which the store first saw the runs. A page begins behind the cursor of the one
        before, so runs that are started or changed while somebody pages neither shift nor repeat anything.

        Raises:
            CallerError: `after` is not the cursor of a page.
            AgentDefinitionError: `limit` is not positive, or a moment has no time zone.
        """


@persistence_port
class IAgentSignalRepository(ABC):
    """Keeps the signals of each run in the order the store took them in."""

    @abstractmethod
    async def append(self, signal: AgentSignal) -> AgentSignal:
        """Queue a signal. An id that is there already is not queued again; the first one is returned."""

    @abstractmethod
    async def list_pending(self, state_id: str) -> Sequence[AgentSignal]:
        """The signals of a run that nobody consumed yet, in append (queue) order, those of both lanes together.

        A signal keeps its place: one that is appended later never comes before one that was listed.
        """

    @abstractmethod
    async def mark_consumed(self, signal_id: str) -> AgentSignal:
        """Take a signal out of the queue and return it.

        Raises:
            SignalNotFoundError: there is no such signal, or it was consumed already.
        """


@persistence_port
class IAgentEvidenceRepository(ABC):
    """Keeps evidence. Append only: there is no way to change or delete what was recorded."""

    @abstractmethod
    async def append(self, evidence: AgentEvidence) -> AgentEvidence:
        """Record evidence and give back what was stored."""

    @abstractmethod
    async def get(self, evidence_id: str) -> AgentEvidence:
        """One piece of evidence.

        Raises:
            EvidenceNotFoundError: there is no such evidence, or it belongs to another tenant.
        """

    @abstractmethod
    async def list_by_state(self, state_id: str) -> Sequence[AgentEvidence]:
        """All evidence of a run, in the run's sequence."""

    @abstractmethod
    async def page_by_state(
        self, state_id: str, *, after: str | None = None, limit: int = 50
    ) -> EvidencePage:
        """The evidence of a run, in the run's sequence, a page at a time; costs what the page costs.

        Raises:
            CallerError: `after` is not the cursor of a page.
            AgentDefinitionError: `limit` is not positive.
        """

    @abstractmethod
    async def list_by_manifest_ref(self, manifest_ref: str) -> Sequence[AgentEvidence]:
        """All evidence that refers to a context manifest, in the order it was appended."""

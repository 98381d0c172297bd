"""The journal port: the one writer of a run's history, and its lock.

The rows of a run are numbered 1, 2, 3 ... without gaps. A commit names the head it expects; the store
compares and sets it inside the statement, so of two writers exactly one wins. Rows, state, consumed signals,
evidence, turns, outbox events and settled budgets of a commit are one transaction, durable when `commit` returns.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import AsyncIterator, Sequence
from enum import StrEnum
from typing import TypeAlias

from pilotage.agent.evidence import AgentEvidence
from pilotage.agent.ports.budget import BudgetSettlement
from pilotage.agent.ports.conversations import ConversationTurns
from pilotage.agent.ports.persistence import JournalRow, RunKey, persistence_port
from pilotage.agent.signals import AgentSignalEnd
from pilotage.agent.state import AgentState
from pilotage.checks import reject_blank, reject_negative, reject_not_positive
from pilotage.errors import AgentDefinitionError
from pilotage.jsonvalue import JsonObject
from pilotage.values import value


@value
class OutboxEvent:
    """A domain fact that leaves with the commit: its type, the version of its shape, and its data."""

    event_type: str
    version: int
    payload: JsonObject

    def __post_init__(self) -> None:
        reject_blank(self, event_type=self.event_type)
        reject_not_positive(self, version=self.version)


@value
class LeaseRequest:
    """The owner of a run from its first commit on, and for how many seconds."""

    owner: str
    seconds: float

    def __post_init__(self) -> None:
        reject_blank(self, owner=self.owner)
        reject_not_positive(self, seconds=self.seconds)


@value
class ClosedSignal:
    """A signal that a commit takes out of the queue without taking it in, and why."""

    signal_id: str
    end: AgentSignalEnd

    def __post_init__(self) -> None:
        reject_blank(self, signal_id=self.signal_id)


@value
class JournalCommit:
    """One commit of a run. By the token the writer recognises its own rows after a lost reply.

    The first commit of a run may name the `parent` it was started by and the `conversation` it holds until it
    ends, paused or not, and take the `lease` of the run. `known_turns` is the number of turns of that conversation that
    the run knows, None for a run that is shown none. `turns` are added to it. `settled` is what the tenant has spent by
    it.

    `consumed_signals` are taken in, `closed_signals` end without that. `last_signal` is the number of the last signal
    that the writer has read; it counts in the commit that ends the run.
    """

    run: RunKey
    token: str
    expected_head: int
    rows: tuple[JournalRow, ...]
    state: AgentState | None = None
    consumed_signals: tuple[str, ...] = ()
    evidence: tuple[AgentEvidence, ...] = ()
    outbox: tuple[OutboxEvent, ...] = ()
    parent: RunKey | None = None
    conversation: str | None = None
    turns: ConversationTurns | None = None
    settled: tuple[BudgetSettlement, ...] = ()
    lease: LeaseRequest | None = None
    closed_signals: tuple[ClosedSignal, ...] = ()
    last_signal: int = 0
    known_turns: int | None = None

    def __post_init__(self) -> None:
        reject_negative(self, last_signal=self.last_signal, known_turns=self.known_turns)
        if not self.token.strip() or self.conversation is not None or self.expected_head < 0:
            reject_blank(self, token=self.token, conversation=self.conversation)
            reject_negative(self, expected_head=self.expected_head)
        if self.expected_head and (self.parent is not None or self.conversation is not None):
            raise AgentDefinitionError(
                f"JournalCommit of run {self.run.run_id!r} names a parent or a conversation after row "
                f"{self.expected_head}. Only the first commit of a run does."
            )
        if self.expected_head and self.lease is not None:
            raise AgentDefinitionError(
                f"JournalCommit of run {self.run.run_id!r} takes a lease after row {self.expected_head}. "
                "Only the first commit of a run does; later it is acquired."
            )
        if self.parent is not None:
            _reject_unfit_parent(self.run, self.parent)
        for place, row in enumerate(self.rows, start=self.expected_head + 1):
            if row.seq != place:
                raise AgentDefinitionError(
                    f"JournalCommit.rows of run {self.run.run_id!r} have a gap: "
                    f"row {row.seq} stands where {place} belongs."
                )


def _reject_unfit_parent(run: RunKey, parent: RunKey) -> None:
    if parent == run or parent.tenant_id != run.tenant_id:
        raise AgentDefinitionError(
            f"JournalCommit.parent of run {run.run_id!r} is run {parent.run_id!r} of tenant {parent.tenant_id!r}. "
            f"Name another run of tenant {run.tenant_id!r}."
        )


@value
class Committed:
    """The commit is durable; `head` is the number of the run's last row, `last_signal` that of its last signal."""

    head: int
    last_signal: int = 0


@value
class HeadMoved:
    """Another writer came first: this one has lost the run and must not act any more."""

    head: int
    epoch: int


class CommitRefusal(StrEnum):
    """The cause of a refusal: the commit itself, or the state of other runs."""

    INVALID = "invalid"
    PARENT_CLOSED = "parent_closed"
    CONVERSATION_HELD = "conversation_held"
    CONVERSATION_MOVED = "conversation_moved"


@value
class CommitRefused:
    """The store cannot take this commit; nothing of it was written and the other runs are unharmed.

    `reason` is the message, with the names involved, `code` is for programs. `holder` is the run that holds the
    conversation of the commit.
    """

    reason: str
    code: CommitRefusal = CommitRefusal.INVALID
    holder: str | None = None


@value
class SignalsUnread:
    """The commit would end the run over a signal that its writer has not read; nothing of it was written.

    `last_signal` is the number of the run's last signal.
    """

    last_signal: int


CommitOutcome: TypeAlias = Committed | HeadMoved | CommitRefused | SignalsUnread


@value
class JournalHead:
    """The head of a run's journal: last row, epoch of its owner, digest of the chain."""

    seq: int
    epoch: int
    digest: str


@value
class EntryCount:
    """The count of changes to entries of one kind in a scope; the scope is a JSON list, or empty for all."""

    entries: str
    scope: str
    changes: int


@persistence_port
class IAgentJournal(ABC):
    """Commits and reads the journals of runs.

    Every adapter guarantees: what `commit` reported as committed survives a crash; per run a commit is all
    or nothing; one run's lost head or bad payload fails only that run. A commit that is sent again with its
    token and rows after a lost reply is recognised and not written twice; if another owner has claimed the run since,
    the answer is `HeadMoved` all the same, for a writer that lost the run must not act.

    Refused is a commit without a row, with a second row for one action, stage and attempt, with a state or evidence of
    another run or tenant, with evidence that the tenant has already, that consumes a signal which is unknown or was
    consumed, or that adds turns to a conversation which the run does not hold; a run that has ended holds none. Refused
    as PARENT_CLOSED is one whose parent has no state, is cancelling or has ended; as CONVERSATION_HELD one whose
    conversation is held by a run that has not ended, the `holder`; as CONVERSATION_MOVED one that knows fewer turns of
    its conversation than there are. They are decided inside the transaction: a parent that is being cancelled, a second
    run of the conversation, or the turns of one that has just ended, cannot slip in between.

    Every commit brings back the number of the run's last signal. The commit that ends a run names the last one that its
    writer knows; if there is a newer one it is not written, and the answer is `SignalsUnread`. That is decided under
    the lock of appending signals: a signal is known to the ending commit, or is refused by the run that has ended. The
    rules are a function, `decide` in
    `pilotage.agent.ports.commit_rules`, that every adapter decides with.

    The lease that the first commit of a run asks for is granted with it, from the moment it is written, whatever lease
    there was before: of several owners that begin a run the journal chooses one. A commit whose state has ended the run
    takes its lease away. Both are the leases of `IAgentLeases` over the same store. A commit that is not written or is
    recognised by its token changes no lease; nor does one without a state after the end of the run.
    """

    @abstractmethod
    async def commit(self, commits: Sequence[JournalCommit]) -> Sequence[CommitOutcome]:
        """Commit for several runs at once; one outcome per commit, in the same order.

        Raises:
            OSError: the store cannot be reached; whether anything was written is unknown.
        """

    @abstractmethod
    def read(self, run: RunKey, after: int = 0) -> AsyncIterator[JournalRow]:
        """Yield the rows of a run in order, from the one following `after`; nothing for an unknown run.

        Costs what the rows following `after` cost, however long the journal is. A reader may stop early.
        """

    @abstractmethod
    async def head(self, run: RunKey) -> JournalHead | None:
        """Return where the run's journal ends, or None where there is no such run."""

    async def entry_counts(self) -> Sequence[EntryCount]:
        """Return the counts of entries outside of journals, of all tenants; none in a store that does not count them.

        Raises:
            DamagedEntryError: a count was changed.
        """
        return ()

    async def damage(self, run: RunKey) -> str | None:
        """Return a message about a damaged entry of a run besides its rows; None where none is known.

        A store that others can write to overrides this. It checks the state and the head, signals, evidence, facts and
        turns of the run, and that none of them is missing.
        """
        return None

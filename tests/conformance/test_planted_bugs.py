"""The kits notice what they are there for: journals with one bug each, and repositories likewise."""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping, Sequence
from dataclasses import replace

import pytest

from pilotage.agent.evidence import AgentEvidence
from pilotage.agent.ports.journal import (
    CommitOutcome,
    CommitRefused,
    Committed,
    HeadMoved,
    JournalCommit,
    JournalHead,
    JournalRow,
    OutboxEvent,
    RunKey,
)
from pilotage.agent.signals import AgentSignal
from pilotage.agent.state import AgentState, AgentStatus
from pilotage.testing import (
    MemoryEvidenceRepository,
    MemoryJournal,
    MemorySignalRepository,
    MemoryStateRepository,
    MemoryStore,
)
from pilotage.testing.conformance import (
    EvidenceRepositoryConformance,
    JournalConformance,
    SignalRepositoryConformance,
    StateRepositoryConformance,
    TransactionConformance,
)
from tests.conformance.planted import failing_tests


class WithoutFence(MemoryJournal):
    """Moves a late commit behind the present head instead of refusing it."""

    async def commit(self, commits: Sequence[JournalCommit]) -> Sequence[CommitOutcome]:
        outcomes = list(await super().commit(commits))
        for index, (commit, outcome) in enumerate(zip(commits, outcomes, strict=True)):
            if isinstance(outcome, HeadMoved):
                outcomes[index] = self._tables.commit(_moved(commit, outcome.head))
        return outcomes


class BlindToTokens(MemoryJournal):
    """Does not know a commit that it has taken already."""

    async def commit(self, commits: Sequence[JournalCommit]) -> Sequence[CommitOutcome]:
        for commit in commits:
            journal = self._tables.journals.find(commit.run.tenant_id, commit.run.run_id)
            if journal is not None:
                journal.receipts.clear()
        return await super().commit(commits)


class WritesTwice(MemoryJournal):
    """Knows a repeated token, and writes its rows again all the same."""

    async def commit(self, commits: Sequence[JournalCommit]) -> Sequence[CommitOutcome]:
        known = [self._knows(commit) for commit in commits]
        outcomes = await super().commit(commits)
        for commit, is_known in zip(commits, known, strict=True):
            journal = self._tables.journals.find(commit.run.tenant_id, commit.run.run_id)
            if is_known and journal is not None:
                journal.rows.extend(journal.rows[-len(commit.rows) :])
        return outcomes

    def _knows(self, commit: JournalCommit) -> bool:
        journal = self._tables.journals.find(commit.run.tenant_id, commit.run.run_id)
        return journal is not None and commit.token in journal.receipts


class TrustsDeadOwners(MemoryJournal):
    """Tells an owner that lost the run that its old commit stands, as if it could still act."""

    async def commit(self, commits: Sequence[JournalCommit]) -> Sequence[CommitOutcome]:
        return [self._commit(commit) for commit in commits]

    def _commit(self, commit: JournalCommit) -> CommitOutcome:
        journal = self._tables.journals.find(commit.run.tenant_id, commit.run.run_id)
        receipt = journal.receipts.get(commit.token) if journal else None
        return Committed(receipt.head) if receipt else self._tables.commit(commit)


class LeaksBetweenTenants(MemoryJournal):
    """Looks a run up by its id alone."""

    def read(self, run: RunKey, after: int = 0) -> AsyncIterator[JournalRow]:
        return super().read(RunKey("default", run.run_id), after)


class HalfCommits(MemoryJournal):
    """Writes the rows in front of the one that cannot be written."""

    async def commit(self, commits: Sequence[JournalCommit]) -> Sequence[CommitOutcome]:
        outcomes = list(await super().commit(commits))
        for commit, outcome in zip(commits, outcomes, strict=True):
            if isinstance(outcome, CommitRefused):
                self._tables.commit(JournalCommit(commit.run, "half", commit.expected_head, commit.rows[:1]))
        return outcomes


class FailsTogether(MemoryJournal):
    """Lets one bad commit take the others of the batch with it."""

    async def commit(self, commits: Sequence[JournalCommit]) -> Sequence[CommitOutcome]:
        trial = MemoryStore()
        bad = [c for c in commits if isinstance(trial.tables.commit(_moved(c, 0)), CommitRefused)]
        return [CommitRefused("rolled back") for _ in commits] if bad else await super().commit(commits)


class MixesOutcomesUp(MemoryJournal):
    """Reports the outcomes in the order it likes to commit in."""

    async def commit(self, commits: Sequence[JournalCommit]) -> Sequence[CommitOutcome]:
        return await super().commit(sorted(commits, key=lambda commit: commit.run.run_id, reverse=True))


class ForgetsTheEpoch(MemoryJournal):
    """Reports the head without its owner."""

    async def head(self, run: RunKey) -> JournalHead | None:
        head = await super().head(run)
        return head and replace(head, epoch=1)


class ReadsOneTooFew(MemoryJournal):
    """Counts the rows behind `after` from one."""

    def read(self, run: RunKey, after: int = 0) -> AsyncIterator[JournalRow]:
        return super().read(run, after + 1 if after else 0)


class TakesActionsTwice(MemoryJournal):
    """Takes a second row of a stage of an action."""

    async def commit(self, commits: Sequence[JournalCommit]) -> Sequence[CommitOutcome]:
        for commit in commits:
            journal = self._tables.journals.find(commit.run.tenant_id, commit.run.run_id)
            if journal is not None:
                journal.actions.clear()
        return await super().commit(commits)


class KeepsTheWritersTime(MemoryJournal):
    """Does not set the store's time where the writer sent one."""

    async def commit(self, commits: Sequence[JournalCommit]) -> Sequence[CommitOutcome]:
        outcomes = await super().commit(commits)
        for commit in commits:
            journal = self._tables.journals.find(commit.run.tenant_id, commit.run.run_id)
            for index, row in enumerate(commit.rows):
                if journal is not None and row.created_at is not None:
                    kept = journal.rows[index]
                    journal.rows[index] = replace(kept, bare=replace(kept.bare, created_at=row.created_at))
        return outcomes


class SharesItsRows(MemoryJournal):
    """Hands out the objects it keeps."""

    _read: dict[tuple[RunKey, int], JournalRow]

    def __init__(self, store: MemoryStore) -> None:
        super().__init__(store)
        self._read = {}

    async def read(self, run: RunKey, after: int = 0) -> AsyncIterator[JournalRow]:
        async for row in super().read(run, after):
            yield self._read.setdefault((run, row.seq), row)


def _moved(commit: JournalCommit, head: int) -> JournalCommit:
    rows = tuple(replace(row, seq=head + index) for index, row in enumerate(commit.rows, start=1))
    return replace(commit, expected_head=head, rows=rows)


JOURNAL_BUGS = [
    WithoutFence,
    BlindToTokens,
    WritesTwice,
    TrustsDeadOwners,
    LeaksBetweenTenants,
    HalfCommits,
    FailsTogether,
    MixesOutcomesUp,
    ForgetsTheEpoch,
    ReadsOneTooFew,
    TakesActionsTwice,
    KeepsTheWritersTime,
    SharesItsRows,
]


def journal_fixtures(journal: type[MemoryJournal]) -> Mapping[str, object]:
    store = MemoryStore()
    return {"journal": journal(store), "second_journal": journal(store)}


async def test_the_journal_kit_finds_nothing_in_a_journal_without_a_bug() -> None:
    assert await failing_tests(JournalConformance, lambda: journal_fixtures(MemoryJournal)) == []


@pytest.mark.parametrize("bug", JOURNAL_BUGS)
async def test_the_journal_kit_notices_a_bug(bug: type[MemoryJournal]) -> None:
    assert await failing_tests(JournalConformance, lambda: journal_fixtures(bug)) != []


class StateApart(MemoryJournal):
    """Writes the state even if the rows are refused."""

    async def commit(self, commits: Sequence[JournalCommit]) -> Sequence[CommitOutcome]:
        outcomes = await super().commit(commits)
        for commit, outcome in zip(commits, outcomes, strict=True):
            if isinstance(outcome, HeadMoved) and commit.state:
                self._tables.commit(JournalCommit(commit.run, "state", outcome.head, (), commit.state))
        return outcomes


class LosesTheOutbox(MemoryJournal):
    """Forgets outbox events."""

    async def commit(self, commits: Sequence[JournalCommit]) -> Sequence[CommitOutcome]:
        return await super().commit([replace(commit, outbox=()) for commit in commits])


class LeavesSignals(MemoryJournal):
    """Does not take consumed signals out of the queue."""

    async def commit(self, commits: Sequence[JournalCommit]) -> Sequence[CommitOutcome]:
        return await super().commit([replace(commit, consumed_signals=()) for commit in commits])


class RepeatsEvents(MemoryJournal):
    """Sends the events of a commit again when the commit is sent again."""

    async def commit(self, commits: Sequence[JournalCommit]) -> Sequence[CommitOutcome]:
        present = {run for run, _ in self._tables.events}
        outcomes = await super().commit(commits)
        again = [commit.run for commit in commits if commit.run in present]
        self._tables.events.extend([each for each in self._tables.events if each[0] in again])
        return outcomes


def store_fixtures(journal: type[MemoryJournal]) -> Mapping[str, object]:
    store = MemoryStore()

    async def read_outbox() -> Sequence[OutboxEvent]:
        return [event for _, event in store.outbox]

    return {
        "journal": journal(store),
        "states": store.states,
        "signals": store.signals,
        "evidence": store.evidence,
        "read_outbox": read_outbox,
    }


async def test_the_transaction_kit_finds_nothing_in_a_store_without_a_bug() -> None:
    assert await failing_tests(TransactionConformance, lambda: store_fixtures(MemoryJournal)) == []


@pytest.mark.parametrize("bug", [StateApart, LosesTheOutbox, LeavesSignals, RepeatsEvents])
async def test_the_transaction_kit_notices_a_bug(bug: type[MemoryJournal]) -> None:
    assert await failing_tests(TransactionConformance, lambda: store_fixtures(bug)) != []


class ListsNewestFirst(MemoryStateRepository):
    async def list_by_status(self, status: AgentStatus) -> Sequence[AgentState]:
        return list(reversed(await super().list_by_status(status)))


class ForgetsCancelling(MemoryStateRepository):
    async def list_resume_candidates(self) -> Sequence[AgentState]:
        return [s for s in await super().list_resume_candidates() if s.status is not AgentStatus.CANCELLING]


class QueuesTwice(MemorySignalRepository):
    async def append(self, signal: AgentSignal) -> AgentSignal:
        pending = {each.id for each in await self.list_pending(signal.agent_state_id)}
        twin = replace(signal, id=f"{signal.id}-again") if signal.id in pending else signal
        return await super().append(twin)


class SortsByTime(MemorySignalRepository):
    async def list_pending(self, state_id: str) -> Sequence[AgentSignal]:
        return sorted(await super().list_pending(state_id), key=lambda signal: str(signal.created_at))


class ForgetsDescriptors(MemoryEvidenceRepository):
    async def append(self, evidence: AgentEvidence) -> AgentEvidence:
        return await super().append(replace(evidence, sensitive_fields=()))


class SortsById(MemoryEvidenceRepository):
    async def list_by_state(self, state_id: str) -> Sequence[AgentEvidence]:
        return sorted(await super().list_by_state(state_id), key=lambda evidence: evidence.id)


REPOSITORY_BUGS = [
    (StateRepositoryConformance, "states", ListsNewestFirst),
    (StateRepositoryConformance, "states", ForgetsCancelling),
    (SignalRepositoryConformance, "signals", QueuesTwice),
    (SignalRepositoryConformance, "signals", SortsByTime),
    (EvidenceRepositoryConformance, "evidence", ForgetsDescriptors),
    (EvidenceRepositoryConformance, "evidence", SortsById),
]


@pytest.mark.parametrize(("kit", "port", "bug"), REPOSITORY_BUGS)
async def test_the_kit_of_a_repository_notices_a_bug(kit: type, port: str, bug: type) -> None:
    def fixtures() -> Mapping[str, object]:
        store = MemoryStore()
        return {port: bug(store), f"foreign_{port}": bug(store, "elsewhere")}

    assert await failing_tests(kit, fixtures) != []


@pytest.mark.parametrize(
    ("kit", "port", "repository"),
    [
        (StateRepositoryConformance, "states", MemoryStateRepository),
        (SignalRepositoryConformance, "signals", MemorySignalRepository),
        (EvidenceRepositoryConformance, "evidence", MemoryEvidenceRepository),
    ],
)
async def test_a_repository_kit_notices_that_tenants_are_not_kept_apart(
    kit: type, port: str, repository: type
) -> None:
    def fixtures() -> Mapping[str, object]:
        store = MemoryStore()
        return {port: repository(store), f"foreign_{port}": repository(store)}

    failing = await failing_tests(kit, fixtures)
    assert failing
    assert all("another_tenant" in name for name in failing)

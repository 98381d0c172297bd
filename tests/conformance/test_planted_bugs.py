"""The kits notice what they are there for: journals with one bug each, and repositories likewise."""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest

from pilotage.agent.evidence import AgentEvidence
from pilotage.agent.ports.journal import (
    CommitOutcome,
    CommitRefusal,
    CommitRefused,
    Committed,
    HeadMoved,
    JournalCommit,
    JournalHead,
    OutboxEvent,
)
from pilotage.agent.ports.persistence import JournalRow, JournalStage, RunKey
from pilotage.agent.ports.repositories import RunPage
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
from tests.conformance.planted import failing_tests, receipt_of


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
        return journal is not None and receipt_of(commit) in journal.receipts


class TrustsDeadOwners(MemoryJournal):
    """Tells an owner that lost the run that its old commit stands, as if it could still act."""

    async def commit(self, commits: Sequence[JournalCommit]) -> Sequence[CommitOutcome]:
        return [self._commit(commit) for commit in commits]

    def _commit(self, commit: JournalCommit) -> CommitOutcome:
        journal = self._tables.journals.find(commit.run.tenant_id, commit.run.run_id)
        is_known = journal is not None and receipt_of(commit) in journal.receipts
        return Committed(commit.rows[-1].seq) if is_known else self._tables.commit(commit)


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


class ChangesTheWritersTime(MemoryJournal):
    """Sets its own time where the writer sent one, which the chain covers."""

    async def read(self, run: RunKey, after: int = 0) -> AsyncIterator[JournalRow]:
        async for row in super().read(run, after):
            yield replace(row, created_at=row.created_at and row.created_at + timedelta(microseconds=1))


class KeepsNoTime(MemoryJournal):
    """Leaves a row without a time where the writer sent none."""

    async def read(self, run: RunKey, after: int = 0) -> AsyncIterator[JournalRow]:
        async for row in super().read(run, after):
            yield replace(row, created_at=None)


class ReadersHoldWritersUp(MemoryJournal):
    """Cannot write while somebody reads."""

    _readers = 0

    async def read(self, run: RunKey, after: int = 0) -> AsyncIterator[JournalRow]:
        self._readers += 1
        async for row in super().read(run, after):
            yield row
        self._readers -= 1

    async def commit(self, commits: Sequence[JournalCommit]) -> Sequence[CommitOutcome]:
        if self._readers:
            raise BlockingIOError("somebody is reading")
        return await super().commit(commits)


class KeepsOnlyActions(MemoryJournal):
    """Does not give back what subscribers were told."""

    async def read(self, run: RunKey, after: int = 0) -> AsyncIterator[JournalRow]:
        async for row in super().read(run, after):
            if row.stage is not JournalStage.TOLD:
                yield row


class KeepsNoEvents(MemoryJournal):
    """Does not give back the text about events in rows of actions."""

    async def read(self, run: RunKey, after: int = 0) -> AsyncIterator[JournalRow]:
        async for row in super().read(run, after):
            yield replace(row, events="")


class TakesTellingForAnAction(MemoryJournal):
    """Refuses a second row that tells something under the same name."""

    async def commit(self, commits: Sequence[JournalCommit]) -> Sequence[CommitOutcome]:
        for commit in commits:
            told = [row.action_id for row in commit.rows if row.stage is JournalStage.TOLD]
            if len(set(told)) < len(told):
                return [CommitRefused("told already") for _ in commits]
        return await super().commit(commits)


class ClaimsByTelling(MemoryJournal):
    """Takes any row without a kind for a claim."""

    async def head(self, run: RunKey) -> JournalHead | None:
        head, rows = await super().head(run), [row async for row in self.read(run)]
        epochs = [row.epoch for row in rows if row.kind is None]
        return head and replace(head, epoch=epochs[-1] if epochs else head.epoch)


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
    ChangesTheWritersTime,
    KeepsNoTime,
    ReadersHoldWritersUp,
    KeepsOnlyActions,
    KeepsNoEvents,
    TakesTellingForAnAction,
    ClaimsByTelling,
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
                kept = self._tables.encoded_state(commit.state, self._tables.clock.now())
                self._tables.states.put(commit.run.tenant_id, commit.run.run_id, kept)
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
        outbox = self._tables.outbox
        present = {entry.run for entry in outbox.rows}
        outcomes = await super().commit(commits)
        for run in {commit.run for commit in commits} & present:
            outbox.add(run, [entry.event for entry in outbox.of_run(run)], self._tables.clock.now())
        return outcomes


class StartsAnybodysChildren(MemoryJournal):
    """Does not look at the parent."""

    async def commit(self, commits: Sequence[JournalCommit]) -> Sequence[CommitOutcome]:
        return await super().commit([replace(commit, parent=None) for commit in commits])


class StartsUnlessTheParent(MemoryJournal):
    """Refuses a child only where its parent is in one of some statuses."""

    closed: frozenset[AgentStatus]

    async def commit(self, commits: Sequence[JournalCommit]) -> Sequence[CommitOutcome]:
        return [self._commit(commit) for commit in commits]

    def _commit(self, commit: JournalCommit) -> CommitOutcome:
        outcome = self._tables.commit(commit)
        if commit.parent is None or not isinstance(outcome, CommitRefused):
            return outcome
        parent = self._tables.states.find(commit.parent.tenant_id, commit.parent.run_id)
        is_closed = parent is None or parent.bare.status in self.closed
        return outcome if is_closed else self._tables.commit(replace(commit, parent=None))


class StartsWhileCancelling(StartsUnlessTheParent):
    """Looks only whether the parent has ended."""

    closed = frozenset(status for status in AgentStatus if status.is_terminal)


class StartsAfterTheEnd(StartsUnlessTheParent):
    """Looks only whether the parent is cancelling."""

    closed = frozenset({AgentStatus.CANCELLING})


class NeedsAnActiveParent(MemoryJournal):
    """Refuses a child of a parent that waits."""

    async def commit(self, commits: Sequence[JournalCommit]) -> Sequence[CommitOutcome]:
        for commit in commits:
            parent = commit.parent and self._tables.states.find(None, commit.parent.run_id)
            if parent and parent.bare.status is not AgentStatus.ACTIVE:
                return [CommitRefused("closed", CommitRefusal.PARENT_CLOSED) for _ in commits]
        return await super().commit(commits)


class AsksTheParentAgain(MemoryJournal):
    """Looks at the parent before it recognises a child's start that it has taken already."""

    async def commit(self, commits: Sequence[JournalCommit]) -> Sequence[CommitOutcome]:
        outcomes = list(await super().commit(commits))
        for index, commit in enumerate(commits):
            parent = commit.parent and self._tables.states.find(None, commit.parent.run_id)
            if parent and parent.bare.status is AgentStatus.CANCELLING:
                outcomes[index] = CommitRefused("closed", CommitRefusal.PARENT_CLOSED)
        return outcomes


class LooksParentsUpById(MemoryJournal):
    """Takes a namesake of another tenant for the parent."""

    async def commit(self, commits: Sequence[JournalCommit]) -> Sequence[CommitOutcome]:
        outcomes = list(await super().commit(commits))
        for index, commit in enumerate(commits):
            if commit.parent and self._tables.states.home(commit.parent.run_id) == "elsewhere":
                outcomes[index] = self._tables.commit(replace(commit, parent=None))
        return outcomes


class CountsChanges(MemoryStateRepository):
    """Takes the row of the last change of the state for the last row of the journal."""

    async def get_with_head(self, state_id: str) -> tuple[AgentState, JournalHead] | None:
        found = await super().get_with_head(state_id)
        return found and (found[0], replace(found[1], seq=min(found[1].seq, 2)))


class CountsRowsOfNobody(MemoryStateRepository):
    """Knows no run before its journal has begun."""

    async def get_with_head(self, state_id: str) -> tuple[AgentState, JournalHead] | None:
        found = await super().get_with_head(state_id)
        return found if found and found[1].seq else None


def store_fixtures(
    journal: type[MemoryJournal], states: type[MemoryStateRepository] = MemoryStateRepository
) -> Mapping[str, object]:
    store = MemoryStore()

    async def read_outbox() -> Sequence[OutboxEvent]:
        return [event for _, event in store.outbox]

    return {
        "journal": journal(store),
        "states": states(store),
        "signals": store.signals,
        "evidence": store.evidence,
        "read_outbox": read_outbox,
    }


async def test_the_transaction_kit_finds_nothing_in_a_store_without_a_bug() -> None:
    assert await failing_tests(TransactionConformance, lambda: store_fixtures(MemoryJournal)) == []


TRANSACTION_BUGS = [
    StateApart,
    LosesTheOutbox,
    LeavesSignals,
    RepeatsEvents,
    StartsAnybodysChildren,
    StartsWhileCancelling,
    StartsAfterTheEnd,
    NeedsAnActiveParent,
    AsksTheParentAgain,
    LooksParentsUpById,
]


@pytest.mark.parametrize("bug", TRANSACTION_BUGS)
async def test_the_transaction_kit_notices_a_bug(bug: type[MemoryJournal]) -> None:
    assert await failing_tests(TransactionConformance, lambda: store_fixtures(bug)) != []


@pytest.mark.parametrize("bug", [CountsChanges, CountsRowsOfNobody])
async def test_the_transaction_kit_notices_a_wrong_head(bug: type[MemoryStateRepository]) -> None:
    assert await failing_tests(TransactionConformance, lambda: store_fixtures(MemoryJournal, bug)) != []


class ListsNewestFirst(MemoryStateRepository):
    async def list_by_status(self, status: AgentStatus) -> Sequence[AgentState]:
        return list(reversed(await super().list_by_status(status)))


class ForgetsCancelling(MemoryStateRepository):
    async def list_resume_candidates(self) -> Sequence[AgentState]:
        return [s for s in await super().list_resume_candidates() if s.status is not AgentStatus.CANCELLING]


class PagesWithAQuirk(MemoryStateRepository):
    """Lists runs, and lets its bug change what is asked for and what is found."""

    async def list_runs(self, tenant_id: str, **what: Any) -> RunPage:
        asked = self.asked({"after": None, "limit": 50, **what})
        return self.found(await super().list_runs(tenant_id, **asked))

    def asked(self, what: dict[str, Any]) -> dict[str, Any]:
        return what

    def found(self, page: RunPage) -> RunPage:
        return page


class ListsOldestRunsFirst(PagesWithAQuirk):
    def found(self, page: RunPage) -> RunPage:
        return replace(page, runs=page.runs[::-1])


class ListsRunsByTime(PagesWithAQuirk):
    def found(self, page: RunPage) -> RunPage:
        return replace(page, runs=tuple(sorted(page.runs, key=lambda run: str(run.created_at), reverse=True)))


class ListsTheLastChangedFirst(PagesWithAQuirk):
    async def save(self, state: AgentState) -> AgentState:
        key = (state.tenant_id, state.id)
        self._tables.states._entries.pop(key, None)
        return await super().save(state)


class ForgetsTheStatuses(PagesWithAQuirk):
    def asked(self, what: dict[str, Any]) -> dict[str, Any]:
        return {**what, "statuses": ()}


class ForgetsTheAgent(PagesWithAQuirk):
    def asked(self, what: dict[str, Any]) -> dict[str, Any]:
        return {**what, "agent_type": None}


class ForgetsTheBeginning(PagesWithAQuirk):
    def asked(self, what: dict[str, Any]) -> dict[str, Any]:
        return {**what, "since": None}


class ForgetsTheEnd(PagesWithAQuirk):
    def asked(self, what: dict[str, Any]) -> dict[str, Any]:
        return {**what, "until": None}


class ForgetsTheLimit(PagesWithAQuirk):
    def asked(self, what: dict[str, Any]) -> dict[str, Any]:
        return {**what, "limit": what["limit"] and 50}


class TakesAnyCursor(PagesWithAQuirk):
    def asked(self, what: dict[str, Any]) -> dict[str, Any]:
        return {**what, "after": what["after"] if (what["after"] or "").isdecimal() else None}


class AlwaysPromisesMore(PagesWithAQuirk):
    def found(self, page: RunPage) -> RunPage:
        return replace(page, cursor=page.cursor or ("1" if page.runs else None))


class CountsFromTheTop(MemoryStateRepository):
    """Has a position for a cursor, which newcomers shift."""

    async def list_runs(
        self, tenant_id: str, *, after: str | None = None, limit: int = 50, **what: Any
    ) -> RunPage:
        skipped = int(after or 0)
        page = await super().list_runs(tenant_id, limit=skipped + limit, **what)
        return RunPage(page.runs[skipped:], page.cursor and str(skipped + limit))


class ControlFirst(MemorySignalRepository):
    async def list_pending(self, state_id: str) -> Sequence[AgentSignal]:
        return sorted(await super().list_pending(state_id), key=lambda signal: signal.kind.lane.value)


class SortsSignalsById(MemorySignalRepository):
    async def list_pending(self, state_id: str) -> Sequence[AgentSignal]:
        return sorted(await super().list_pending(state_id), key=lambda signal: signal.id)


class QueuesTwice(MemorySignalRepository):
    async def append(self, signal: AgentSignal) -> AgentSignal:
        pending = {each.id for each in await self.list_pending(signal.agent_state_id)}
        twin = replace(signal, id=f"{signal.id}-again") if signal.id in pending else signal
        return await super().append(twin)


class AppendsOneByOne(MemorySignalRepository):
    async def append_all(self, signals: Sequence[AgentSignal]) -> Mapping[str, AgentSignal]:
        return {each.id: await self.append(each) for each in signals}

    async def append(self, signal: AgentSignal) -> AgentSignal:
        return (await super().append_all([signal]))[signal.id]


class ListsPendingSteering(MemorySignalRepository):
    """Forgets the instructions that were taken in: a sender would revise them."""

    async def list_steering(self, state_id: str) -> Sequence[AgentSignal]:
        return [each for each in await super().list_steering(state_id) if each.end is None]


class MarksTheOldest(MemorySignalRepository):
    async def newest_pending(self, runs: AbstractSet[RunKey]) -> Mapping[RunKey, str]:
        listed = {run: await self.list_pending(run.run_id) for run in runs}
        return {run: pending[0].id for run, pending in listed.items() if pending}


class MarksTheNumberOfSignals(MemorySignalRepository):
    async def newest_pending(self, runs: AbstractSet[RunKey]) -> Mapping[RunKey, str]:
        listed = {run: await self.list_pending(run.run_id) for run in runs}
        return {run: str(len(pending)) for run, pending in listed.items() if pending}


class MarksAllRuns(MemorySignalRepository):
    async def newest_pending(self, runs: AbstractSet[RunKey]) -> Mapping[RunKey, str]:
        return await super().newest_pending(self._tables.queues.keys())


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
    (StateRepositoryConformance, "states", ListsOldestRunsFirst),
    (StateRepositoryConformance, "states", ListsRunsByTime),
    (StateRepositoryConformance, "states", ListsTheLastChangedFirst),
    (StateRepositoryConformance, "states", ForgetsTheStatuses),
    (StateRepositoryConformance, "states", ForgetsTheAgent),
    (StateRepositoryConformance, "states", ForgetsTheBeginning),
    (StateRepositoryConformance, "states", ForgetsTheEnd),
    (StateRepositoryConformance, "states", ForgetsTheLimit),
    (StateRepositoryConformance, "states", TakesAnyCursor),
    (StateRepositoryConformance, "states", AlwaysPromisesMore),
    (StateRepositoryConformance, "states", CountsFromTheTop),
    (SignalRepositoryConformance, "signals", ControlFirst),
    (SignalRepositoryConformance, "signals", SortsSignalsById),
    (SignalRepositoryConformance, "signals", QueuesTwice),
    (SignalRepositoryConformance, "signals", AppendsOneByOne),
    (SignalRepositoryConformance, "signals", SortsByTime),
    (SignalRepositoryConformance, "signals", MarksTheOldest),
    (SignalRepositoryConformance, "signals", MarksTheNumberOfSignals),
    (SignalRepositoryConformance, "signals", MarksAllRuns),
    (SignalRepositoryConformance, "signals", ListsPendingSteering),
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

"""The kits notice what they are there for: leases, wake-ups and conversations with one bug each."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Collection, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import replace
from datetime import timedelta

import pytest

from pilotage.agent.ports.conversations import ConversationTurn
from pilotage.agent.ports.journal import CommitOutcome, CommitRefusal, CommitRefused, Committed, JournalCommit
from pilotage.agent.ports.leases import IWakeUpSubscription, Lease
from pilotage.agent.ports.persistence import RunKey
from pilotage.agent.ports.repositories import LateOutcome
from pilotage.agent.state import AgentStatus
from pilotage.ids import SystemClock
from pilotage.testing import MemoryJournal, MemoryStore, VirtualClock
from pilotage.testing.conformance.conversations import ConversationCommitConformance, TaskStoreConformance
from pilotage.testing.conformance.evidence import LateOutcomesConformance
from pilotage.testing.conformance.lease_commits import LeaseCommitConformance
from pilotage.testing.conformance.leases import LeasesConformance
from pilotage.testing.conformance.wakeups import WakeUpsConformance
from pilotage.testing.coordination import MemoryLeases, MemoryWakeUps, MemoryWakeUpSubscription
from pilotage.testing.memory import MemoryLateOutcomes, MemoryTaskStore
from pilotage.testing.tables import Conversation, MemoryTables
from tests.conformance.planted import failing_tests, receipt_of


class GrantsToEverybody(MemoryLeases):
    async def acquire(self, run: RunKey, owner: str, seconds: float) -> Lease | None:
        return self._grant(self._lease(run, owner, seconds))


class NeverRunsOut(MemoryLeases):
    def _current(self, run: RunKey) -> Lease | None:
        return self._tables.leases.get(run)


class HasAClockOfItsOwn(MemoryLeases):
    def __init__(self, tables: MemoryTables) -> None:
        super().__init__(tables)
        self._tables.clock = SystemClock()


class BelievesTheTimeOfDay(MemoryLeases):
    def _current(self, run: RunKey) -> Lease | None:
        held = self._tables.leases.get(run)
        return held if held is not None and held.expires_at > self._tables.clock.now() else None

    def _lease(self, run: RunKey, owner: str, seconds: float) -> Lease:
        lease = super()._lease(run, owner, seconds)
        return replace(lease, expires_at=self._tables.clock.now() + timedelta(seconds=seconds))


class HasLeasesOfItsOwn(MemoryLeases):
    def __init__(self, tables: MemoryTables) -> None:
        super().__init__(MemoryTables(tables.clock))


class RenewsWhatIsFree(MemoryLeases):
    async def renew(self, run: RunKey, owner: str, seconds: float) -> Lease | None:
        return await self.acquire(run, owner, seconds)


class RenewsForAnybody(MemoryLeases):
    async def renew(self, run: RunKey, owner: str, seconds: float) -> Lease | None:
        lease = self._lease(run, owner, seconds)
        return self._grant(lease) if self._current(run) else None


class KeepsTheFirstEnd(MemoryLeases):
    def _grant(self, lease: Lease) -> Lease:
        return super()._grant(self._current(lease.run) or lease)


class OnlyLengthens(MemoryLeases):
    def _grant(self, lease: Lease) -> Lease:
        held = self._current(lease.run) or lease
        return super()._grant(lease if lease.expires_at > held.expires_at else held)


class ReleasesAnybodys(MemoryLeases):
    async def release(self, run: RunKey, owner: str) -> None:
        self._tables.leases.pop(run, None)


class NeverReleases(MemoryLeases):
    async def release(self, run: RunKey, owner: str) -> None:
        return


class ReleasesOnce(MemoryLeases):
    async def release(self, run: RunKey, owner: str) -> None:
        if self._tables.leases.pop(run).owner != owner:
            raise KeyError(owner)


class ForgetsTheTenantOfALease(MemoryLeases):
    async def acquire(self, run: RunKey, owner: str, seconds: float) -> Lease | None:
        return await super().acquire(RunKey("default", run.run_id), owner, seconds)


class ReadsThenWrites(MemoryLeases):
    """Lets others in between looking and taking."""

    async def acquire(self, run: RunKey, owner: str, seconds: float) -> Lease | None:
        lease, held = self._lease(run, owner, seconds), self._current(run)
        await asyncio.sleep(0)
        return self._grant(lease) if held is None or held.owner == owner else None


class TakesAnySpan(MemoryLeases):
    def _lease(self, run: RunKey, owner: str, seconds: float) -> Lease:
        return super()._lease(run, owner.strip() or "nobody", seconds if 0 < seconds < 9999 else 1)


class RenewsTogetherWhateverItHas(MemoryLeases):
    async def renew_all(self, runs: Collection[RunKey], owner: str, seconds: float) -> frozenset[RunKey]:
        own = {run for run, lease in self._tables.leases.items() if lease.owner == owner}
        return await super().renew_all({*runs, *own}, owner, seconds)


class RenewsTogetherForAnybody(MemoryLeases):
    async def renew_all(self, runs: Collection[RunKey], owner: str, seconds: float) -> frozenset[RunKey]:
        for run in runs:
            await self.acquire(run, owner, seconds)
        return await super().renew_all(runs, owner, seconds)


class RenewsAllOrNone(MemoryLeases):
    async def renew_all(self, runs: Collection[RunKey], owner: str, seconds: float) -> frozenset[RunKey]:
        held = [self._current(run) for run in runs]
        if any(lease is None or lease.owner != owner for lease in held):
            return frozenset(runs)
        return await super().renew_all(runs, owner, seconds)


class SaysThatItRenewed(MemoryLeases):
    async def renew_all(self, runs: Collection[RunKey], owner: str, seconds: float) -> frozenset[RunKey]:
        return frozenset()


class RenewsTogetherForALongTime(MemoryLeases):
    async def renew_all(self, runs: Collection[RunKey], owner: str, seconds: float) -> frozenset[RunKey]:
        return await super().renew_all(runs, owner, 9 * seconds)


LEASE_BUGS = [
    RenewsTogetherWhateverItHas,
    RenewsTogetherForAnybody,
    RenewsAllOrNone,
    SaysThatItRenewed,
    RenewsTogetherForALongTime,
    GrantsToEverybody,
    NeverRunsOut,
    HasAClockOfItsOwn,
    BelievesTheTimeOfDay,
    HasLeasesOfItsOwn,
    RenewsWhatIsFree,
    RenewsForAnybody,
    KeepsTheFirstEnd,
    OnlyLengthens,
    ReleasesAnybodys,
    NeverReleases,
    ReleasesOnce,
    ForgetsTheTenantOfALease,
    ReadsThenWrites,
    TakesAnySpan,
]


def lease_fixtures(leases: type[MemoryLeases]) -> Mapping[str, object]:
    clock = VirtualClock()
    store = MemoryStore(clock)

    async def pass_time(seconds: float) -> None:
        clock.advance(seconds)

    async def set_time_of_day(seconds: float) -> None:
        clock.set_time_of_day(seconds)

    return {
        "leases": leases(store.tables),
        "second_leases": leases(store.tables),
        "pass_time": pass_time,
        "set_time_of_day": set_time_of_day,
    }


async def test_the_lease_kit_finds_nothing_in_leases_without_a_bug() -> None:
    assert await failing_tests(LeasesConformance, lambda: lease_fixtures(MemoryLeases)) == []


@pytest.mark.parametrize("bug", LEASE_BUGS)
async def test_the_lease_kit_notices_a_bug(bug: type[MemoryLeases]) -> None:
    assert await failing_tests(LeasesConformance, lambda: lease_fixtures(bug)) != []


class KeepsTheLastWord(MemoryLateOutcomes):
    async def append(self, outcome: LateOutcome) -> None:
        self._tables.late_outcomes.pop((outcome.run, outcome.action_id, outcome.attempt, outcome.epoch), None)
        await super().append(outcome)


class ForgetsTheEpoch(MemoryLateOutcomes):
    async def append(self, outcome: LateOutcome) -> None:
        await super().append(replace(outcome, epoch=1))


class ForgetsTheTenantOfAnOutcome(MemoryLateOutcomes):
    async def append(self, outcome: LateOutcome) -> None:
        await super().append(replace(outcome, run=RunKey("default", outcome.run.run_id)))


class FindsWhatIsBelow(MemoryLateOutcomes):
    async def list_by_action(self, run: RunKey, action_id: str) -> Sequence[LateOutcome]:
        known = {key[1] for key in self._tables.late_outcomes if key[1].startswith(action_id)}
        return [each for below in sorted(known) for each in await super().list_by_action(run, below)]


class SortsByAttempt(MemoryLateOutcomes):
    async def list_by_action(self, run: RunKey, action_id: str) -> Sequence[LateOutcome]:
        return sorted(await super().list_by_action(run, action_id), key=lambda each: each.attempt)


class HasOutcomesOfItsOwn(MemoryLateOutcomes):
    def __init__(self, tables: MemoryTables) -> None:
        super().__init__(MemoryTables(tables.clock))


LATE_BUGS = [
    KeepsTheLastWord,
    ForgetsTheEpoch,
    ForgetsTheTenantOfAnOutcome,
    FindsWhatIsBelow,
    SortsByAttempt,
    HasOutcomesOfItsOwn,
]


def late_fixtures(late: type[MemoryLateOutcomes]) -> Mapping[str, object]:
    tables = MemoryStore().tables
    return {"late_outcomes": late(tables), "second_late_outcomes": late(tables)}


async def test_the_kit_for_late_outcomes_finds_nothing_in_those_without_a_bug() -> None:
    assert await failing_tests(LateOutcomesConformance, lambda: late_fixtures(MemoryLateOutcomes)) == []


@pytest.mark.parametrize("bug", LATE_BUGS)
async def test_the_kit_for_late_outcomes_notices_a_bug(bug: type[MemoryLateOutcomes]) -> None:
    assert await failing_tests(LateOutcomesConformance, lambda: late_fixtures(bug)) != []


class Impatient(WakeUpsConformance):
    """In memory a hint is there at once or never."""

    hint_seconds = 0.05


class LosesEveryHint(MemoryWakeUps):
    async def notify(self, run_id: str) -> None:
        return


class WakesOneOfMany(MemoryWakeUps):
    async def notify(self, run_id: str) -> None:
        for listener in list(self._listeners)[:1]:
            listener.add(run_id)


class HintsOncePerRun(MemoryWakeUps):
    def __init__(self) -> None:
        super().__init__()
        self._hinted: set[str] = set()

    async def notify(self, run_id: str) -> None:
        if run_id not in self._hinted:
            self._hinted.add(run_id)
            await super().notify(run_id)


class KnowsOneRunAtATime(MemoryWakeUps):
    def __init__(self) -> None:
        super().__init__(capacity=1)


class FailsWhenFull(MemoryWakeUps):
    async def notify(self, run_id: str) -> None:
        await super().notify(run_id)
        if any(len(listener._pending) == listener._capacity for listener in self._listeners):
            raise BlockingIOError(run_id)


class MissesThoseWhoLeft(MemoryWakeUps):
    """Still speaks to listeners that are gone, and fails at it."""

    def __init__(self) -> None:
        super().__init__()
        self._left = 0

    @asynccontextmanager
    async def subscribe(self) -> AsyncGenerator[IWakeUpSubscription]:
        async with super().subscribe() as listener:
            yield listener
        self._left += 1

    async def notify(self, run_id: str) -> None:
        if self._left:
            raise ConnectionResetError(run_id)
        await super().notify(run_id)


class EveryHintCounts(MemoryWakeUpSubscription):
    """Keeps a hint for each notification."""

    def add(self, run_id: str) -> None:
        self._pending[f"{run_id} {len(self._pending)}"] = None
        self._has_hints.set()

    async def next(self) -> str:
        return (await super().next()).partition(" ")[0]


class HandsOver(MemoryWakeUpSubscription):
    """Gives a hint to whoever waits, also if they are about to leave."""

    def __init__(self, capacity: int) -> None:
        super().__init__(capacity)
        self._waiting: list[asyncio.Future[str]] = []

    def add(self, run_id: str) -> None:
        if self._waiting:
            self._waiting.pop().set_result(run_id)
        else:
            super().add(run_id)

    async def next(self) -> str:
        if self._pending:
            return await super().next()
        waiting: asyncio.Future[str] = asyncio.get_running_loop().create_future()
        self._waiting.append(waiting)
        return await waiting


def with_listener(subscription: type[MemoryWakeUpSubscription]) -> type[MemoryWakeUps]:
    class WakeUps(MemoryWakeUps):
        @asynccontextmanager
        async def subscribe(self) -> AsyncGenerator[IWakeUpSubscription]:
            listener = subscription(self._capacity)
            self._listeners.add(listener)
            yield listener
            self._listeners.remove(listener)

    WakeUps.__name__ = subscription.__name__
    return WakeUps


WAKE_UP_BUGS = [
    LosesEveryHint,
    WakesOneOfMany,
    HintsOncePerRun,
    KnowsOneRunAtATime,
    FailsWhenFull,
    MissesThoseWhoLeft,
    with_listener(EveryHintCounts),
    with_listener(HandsOver),
]


def wake_up_fixtures(wake_ups: type[MemoryWakeUps]) -> Mapping[str, object]:
    channel = wake_ups()
    return {"wake_ups": channel, "second_wake_ups": channel}


@pytest.mark.parametrize("wake_ups", [MemoryWakeUps, with_listener(MemoryWakeUpSubscription)])
async def test_the_wake_up_kit_finds_nothing_in_wake_ups_without_a_bug(wake_ups: type[MemoryWakeUps]) -> None:
    assert await failing_tests(Impatient, lambda: wake_up_fixtures(wake_ups)) == []


@pytest.mark.parametrize("bug", WAKE_UP_BUGS, ids=lambda bug: bug.__name__)
async def test_the_wake_up_kit_notices_a_bug(bug: type[MemoryWakeUps]) -> None:
    assert await failing_tests(Impatient, lambda: wake_up_fixtures(bug)) != []


Turns = Sequence[ConversationTurn]


class IgnoresTheEnd(MemoryTaskStore):
    async def tenant_history(
        self, tenant_id: str, conversation_id: str, *, up_to: int | None = None
    ) -> Turns:
        return await super().tenant_history(tenant_id, conversation_id)


class ReadsTheLastTurns(MemoryTaskStore):
    async def tenant_history(
        self, tenant_id: str, conversation_id: str, *, up_to: int | None = None
    ) -> Turns:
        turns = await super().tenant_history(tenant_id, conversation_id)
        return turns[len(turns) - up_to if up_to else 0 :]


class ForgetsTheTenant(MemoryTaskStore):
    async def tenant_history(
        self, tenant_id: str, conversation_id: str, *, up_to: int | None = None
    ) -> Turns:
        return await super().tenant_history("default", conversation_id, up_to=up_to)


class HandsOutItsList(MemoryTaskStore):
    async def tenant_history(
        self, tenant_id: str, conversation_id: str, *, up_to: int | None = None
    ) -> Turns:
        return self._conversations.find(tenant_id, conversation_id).turns


class AppendsTurnByTurn(MemoryTaskStore):
    async def append_tenant_turns(self, tenant_id: str, conversation_id: str, turns: Turns) -> None:
        for turn in turns:
            await super().append_tenant_turns(tenant_id, conversation_id, [turn])
            await asyncio.sleep(0)


class ReplacesTheHistory(MemoryTaskStore):
    async def append_tenant_turns(self, tenant_id: str, conversation_id: str, turns: Turns) -> None:
        self._conversations.find(tenant_id, conversation_id).turns.clear()
        await super().append_tenant_turns(tenant_id, conversation_id, turns)


class CutsAtNul(MemoryTaskStore):
    async def append_tenant_turns(self, tenant_id: str, conversation_id: str, turns: Turns) -> None:
        cut = [replace(turn, content=turn.content.partition("\u0000")[0]) for turn in turns]
        await super().append_tenant_turns(tenant_id, conversation_id, cut)


class ForgetsTheLabel(MemoryTaskStore):
    async def append_tenant_turns(self, tenant_id: str, conversation_id: str, turns: Turns) -> None:
        unlabelled = [ConversationTurn(turn.role, turn.content) for turn in turns]
        await super().append_tenant_turns(tenant_id, conversation_id, unlabelled)


class TakesAnyName(MemoryTaskStore):
    async def append_tenant_turns(self, tenant_id: str, conversation_id: str, turns: Turns) -> None:
        await super().append_tenant_turns(tenant_id.strip() or "default", conversation_id or "chat", turns)


TASK_STORE_BUGS = [
    IgnoresTheEnd,
    ReadsTheLastTurns,
    ForgetsTheTenant,
    HandsOutItsList,
    AppendsTurnByTurn,
    ReplacesTheHistory,
    CutsAtNul,
    ForgetsTheLabel,
    TakesAnyName,
]


def task_store_fixtures(task_store: type[MemoryTaskStore]) -> Mapping[str, object]:
    return {"conversations": task_store(MemoryStore().tables.conversations)}


async def test_the_task_store_kit_finds_nothing_in_a_store_without_a_bug() -> None:
    assert await failing_tests(TaskStoreConformance, lambda: task_store_fixtures(MemoryTaskStore)) == []


@pytest.mark.parametrize("bug", TASK_STORE_BUGS)
async def test_the_task_store_kit_notices_a_bug(bug: type[MemoryTaskStore]) -> None:
    assert await failing_tests(TaskStoreConformance, lambda: task_store_fixtures(bug)) != []


class OneByOne(MemoryJournal):
    """A journal whose bug is in how it takes a single commit."""

    async def commit(self, commits: Sequence[JournalCommit]) -> Sequence[CommitOutcome]:
        return [await self.take(commit) for commit in commits]

    async def take(self, commit: JournalCommit) -> CommitOutcome:
        return self._tables.commit(commit)

    def conversation_of(self, commit: JournalCommit) -> Conversation:
        return self._tables.conversations.find(commit.run.tenant_id, commit.conversation or "chat")


class LosesTheLease(OneByOne):
    async def take(self, commit: JournalCommit) -> CommitOutcome:
        return await super().take(replace(commit, lease=None))


class LeasesBeforeTheCommit(OneByOne):
    async def take(self, commit: JournalCommit) -> CommitOutcome:
        if commit.lease is not None:
            await MemoryLeases(self._tables).acquire(commit.run, commit.lease.owner, commit.lease.seconds)
        return await super().take(replace(commit, lease=None))


class LeasesAgain(OneByOne):
    async def take(self, commit: JournalCommit) -> CommitOutcome:
        outcome = await super().take(commit)
        if commit.lease is not None and isinstance(outcome, Committed):
            await MemoryLeases(self._tables).acquire(commit.run, commit.lease.owner, commit.lease.seconds)
        return outcome


class LeavesALeaseToOthers(OneByOne):
    async def take(self, commit: JournalCommit) -> CommitOutcome:
        is_taken = commit.run in self._tables.leases
        return await super().take(replace(commit, lease=None) if is_taken else commit)


class KeepsTheLeaseBehindTheEnd(OneByOne):
    async def take(self, commit: JournalCommit) -> CommitOutcome:
        lease = self._tables.leases.get(commit.run)
        outcome = await super().take(commit)
        if lease is not None:
            self._tables.leases.setdefault(commit.run, lease)
        return outcome


class EndsTheLeaseBeforeTheCommit(OneByOne):
    async def take(self, commit: JournalCommit) -> CommitOutcome:
        if commit.state is not None and commit.state.is_terminal:
            self._tables.leases.pop(commit.run, None)
        return await super().take(commit)


class EndsTheLeaseOfACancellation(OneByOne):
    async def take(self, commit: JournalCommit) -> CommitOutcome:
        outcome = await super().take(commit)
        if commit.state is not None and commit.state.status is AgentStatus.CANCELLING:
            self._tables.leases.pop(commit.run, None)
        return outcome


class EndsAllLeases(OneByOne):
    async def take(self, commit: JournalCommit) -> CommitOutcome:
        outcome = await super().take(commit)
        if commit.state is not None and commit.state.is_terminal:
            self._tables.leases.clear()
        return outcome


LEASE_COMMIT_BUGS = [
    LosesTheLease,
    LeasesBeforeTheCommit,
    LeasesAgain,
    LeavesALeaseToOthers,
    KeepsTheLeaseBehindTheEnd,
    EndsTheLeaseBeforeTheCommit,
    EndsTheLeaseOfACancellation,
    EndsAllLeases,
]


def lease_commit_fixtures(journal: type[MemoryJournal]) -> Mapping[str, object]:
    clock = VirtualClock()
    store = MemoryStore(clock)

    async def pass_time(seconds: float) -> None:
        clock.advance(seconds)

    return {"journal": journal(store), "leases": store.leases, "pass_time": pass_time}


async def test_the_kit_for_leases_in_commits_finds_nothing_in_a_journal_without_a_bug() -> None:
    assert await failing_tests(LeaseCommitConformance, lambda: lease_commit_fixtures(MemoryJournal)) == []


@pytest.mark.parametrize("bug", LEASE_COMMIT_BUGS)
async def test_the_kit_for_leases_in_commits_notices_a_bug(bug: type[MemoryJournal]) -> None:
    assert await failing_tests(LeaseCommitConformance, lambda: lease_commit_fixtures(bug)) != []


class LosesTurns(OneByOne):
    async def take(self, commit: JournalCommit) -> CommitOutcome:
        return await super().take(replace(commit, turns=None))


class SaysBeforeTheCommit(OneByOne):
    async def take(self, commit: JournalCommit) -> CommitOutcome:
        if commit.turns is not None:
            self.conversation_of(commit).turns.extend(commit.turns.turns)
        return await super().take(replace(commit, turns=None))


class SaysAgain(OneByOne):
    async def take(self, commit: JournalCommit) -> CommitOutcome:
        journal = self._tables.journals.find(commit.run.tenant_id, commit.run.run_id)
        if commit.turns is not None and journal is not None and receipt_of(commit) in journal.receipts:
            self.conversation_of(commit).turns.extend(commit.turns.turns)
        return await super().take(commit)


class LetsRunsShare(OneByOne):
    async def take(self, commit: JournalCommit) -> CommitOutcome:
        self.conversation_of(commit).holder = None
        if commit.turns is not None:
            self.conversation_of(commit).holder = commit.run
        return await super().take(commit)


class LetsGoWhenPaused(OneByOne):
    async def take(self, commit: JournalCommit) -> CommitOutcome:
        outcome = await super().take(commit)
        if commit.state is not None and commit.state.status is AgentStatus.INTERRUPTED:
            self.conversation_of(commit).holder = None
        return outcome


class NeverLetsGo(OneByOne):
    async def take(self, commit: JournalCommit) -> CommitOutcome:
        if commit.conversation is not None and self.conversation_of(commit).holder not in (None, commit.run):
            return CommitRefused("'chat' 'run-1'", CommitRefusal.CONVERSATION_HELD)
        return await super().take(commit)


class LetsGoForGood(OneByOne):
    """Forgets that the next run holds the conversation too."""

    async def take(self, commit: JournalCommit) -> CommitOutcome:
        was_held = self.conversation_of(commit).holder is not None
        outcome = await super().take(commit)
        if was_held and commit.conversation is not None and isinstance(outcome, Committed):
            self.conversation_of(commit).holder = None
        return outcome


class HoldsWhatWasRefused(OneByOne):
    async def take(self, commit: JournalCommit) -> CommitOutcome:
        outcome = await super().take(commit)
        if commit.conversation is not None and isinstance(outcome, CommitRefused):
            self._tables.conversations.hold(commit.run, commit.conversation)
        return outcome


class LooksThenTakes(OneByOne):
    """Lets others in between asking for the holder and becoming it."""

    async def take(self, commit: JournalCommit) -> CommitOutcome:
        is_free = commit.conversation is not None and self.conversation_of(commit).holder is None
        await asyncio.sleep(0)
        if is_free:
            self.conversation_of(commit).holder = None
        return await super().take(commit)


class NamesAnotherHolder(OneByOne):
    """Names the run that was refused as the one that holds the conversation."""

    async def take(self, commit: JournalCommit) -> CommitOutcome:
        outcome = await super().take(commit)
        if isinstance(outcome, CommitRefused) and outcome.holder is not None:
            return replace(outcome, holder=commit.run.run_id)
        return outcome


class RefusesItsOwnStart(OneByOne):
    async def take(self, commit: JournalCommit) -> CommitOutcome:
        if commit.conversation is not None and self.conversation_of(commit).holder == commit.run:
            return CommitRefused("held", CommitRefusal.CONVERSATION_HELD)
        return await super().take(commit)


class TakesTurnsFromAnybody(OneByOne):
    async def take(self, commit: JournalCommit) -> CommitOutcome:
        outcome = await super().take(replace(commit, turns=None))
        if commit.turns is not None and isinstance(outcome, Committed):
            names = (commit.run.tenant_id, commit.turns.conversation_id)
            self._tables.conversations.append(*names, commit.turns.turns)
        return outcome


class HoldsAcrossTenants(OneByOne):
    async def take(self, commit: JournalCommit) -> CommitOutcome:
        ours = self._tables.conversations.find("default", commit.conversation or "")
        if commit.run.tenant_id != "default" and ours.holder is not None:
            return CommitRefused("held", CommitRefusal.CONVERSATION_HELD)
        return await super().take(commit)


CONVERSATION_BUGS = [
    LosesTurns,
    SaysBeforeTheCommit,
    SaysAgain,
    LetsRunsShare,
    LetsGoWhenPaused,
    NeverLetsGo,
    LetsGoForGood,
    HoldsWhatWasRefused,
    LooksThenTakes,
    NamesAnotherHolder,
    RefusesItsOwnStart,
    TakesTurnsFromAnybody,
    HoldsAcrossTenants,
]


def conversation_fixtures(journal: type[MemoryJournal]) -> Mapping[str, object]:
    store = MemoryStore()
    return {"journal": journal(store), "second_journal": journal(store), "conversations": store.conversations}


@pytest.mark.parametrize("journal", [MemoryJournal, OneByOne])
async def test_the_conversation_kit_finds_nothing_in_a_journal_without_a_bug(
    journal: type[MemoryJournal],
) -> None:
    assert await failing_tests(ConversationCommitConformance, lambda: conversation_fixtures(journal)) == []


@pytest.mark.parametrize("bug", CONVERSATION_BUGS)
async def test_the_conversation_kit_notices_a_bug(bug: type[MemoryJournal]) -> None:
    assert await failing_tests(ConversationCommitConformance, lambda: conversation_fixtures(bug)) != []

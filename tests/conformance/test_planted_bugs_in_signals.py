"""The kit of signals in commits notices a store that lets a signal be ignored: one store for each bug."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

import pytest

from pilotage.agent.ports.journal import (
    CommitOutcome,
    Committed,
    JournalCommit,
    SignalsUnread,
)
from pilotage.agent.signals import AgentSignal, AgentSignalEnd
from pilotage.testing import MemoryJournal, MemorySignalRepository, MemoryStore
from pilotage.testing.conformance import SignalCommitConformance
from pilotage.testing.encoded import EncodedSignal
from tests.conformance.planted import failing_tests

EVERYTHING = 1_000_000


class EndsOverAnything(MemoryJournal):
    """Does not look at the signals of a run that ends."""

    async def commit(self, commits: Sequence[JournalCommit]) -> Sequence[CommitOutcome]:
        return await super().commit([replace(commit, last_signal=EVERYTHING) for commit in commits])


class WritesARefusedEnd(MemoryJournal):
    """Says that there is an unread signal, and ends the run all the same."""

    async def commit(self, commits: Sequence[JournalCommit]) -> Sequence[CommitOutcome]:
        outcomes = await super().commit(commits)
        for commit, outcome in zip(commits, outcomes, strict=True):
            if isinstance(outcome, SignalsUnread):
                self._tables.commit(replace(commit, last_signal=EVERYTHING))
        return outcomes


class EndsAllTogether(MemoryJournal):
    """Refuses a whole call because one run has an unread signal."""

    async def commit(self, commits: Sequence[JournalCommit]) -> Sequence[CommitOutcome]:
        outcomes = await super().commit(commits)
        unread = [outcome for outcome in outcomes if isinstance(outcome, SignalsUnread)]
        return unread * len(outcomes) if unread else outcomes


class MustAlwaysKnow(MemoryJournal):
    """Refuses every change of the state over an unread signal."""

    async def commit(self, commits: Sequence[JournalCommit]) -> Sequence[CommitOutcome]:
        return [self._commit(commit) for commit in commits]

    def _commit(self, commit: JournalCommit) -> CommitOutcome:
        last = self._tables.last_signals.get(commit.run, 0)
        is_unread = commit.state is not None and commit.expected_head and commit.last_signal < last
        return SignalsUnread(last) if is_unread else self._tables.commit(commit)


class BringsNothingBack(MemoryJournal):
    """Does not say what the last signal is."""

    async def commit(self, commits: Sequence[JournalCommit]) -> Sequence[CommitOutcome]:
        outcomes = await super().commit(commits)
        return [Committed(each.head) if isinstance(each, Committed) else each for each in outcomes]


class CountsWhatWaits(MemoryJournal):
    """Takes the number of pending signals for the number of the last one."""

    async def commit(self, commits: Sequence[JournalCommit]) -> Sequence[CommitOutcome]:
        for commit in commits:
            self._tables.last_signals[commit.run] = len(self._tables.queues.get(commit.run, {}))
        return await super().commit(commits)


class CountsForAll(MemoryJournal):
    """Has one number for all runs."""

    async def commit(self, commits: Sequence[JournalCommit]) -> Sequence[CommitOutcome]:
        total = sum(self._tables.last_signals.values())
        outcomes = await super().commit(commits)
        return [
            replace(each, last_signal=total) if isinstance(each, Committed) else each for each in outcomes
        ]


class TakesWhatItCloses(MemoryJournal):
    """Forgets why a signal was closed."""

    async def commit(self, commits: Sequence[JournalCommit]) -> Sequence[CommitOutcome]:
        return await super().commit([self._taking(commit) for commit in commits])

    def _taking(self, commit: JournalCommit) -> JournalCommit:
        closed = tuple(each.signal_id for each in commit.closed_signals)
        return replace(commit, consumed_signals=(*commit.consumed_signals, *closed), closed_signals=())


class ClosesAnything(MemoryJournal):
    """Leaves out what cannot be closed."""

    async def commit(self, commits: Sequence[JournalCommit]) -> Sequence[CommitOutcome]:
        return await super().commit([self._possible(commit) for commit in commits])

    def _possible(self, commit: JournalCommit) -> JournalCommit:
        closed = {
            each.signal_id: each
            for each in commit.closed_signals
            if self._tables.is_pending(commit.run, each.signal_id)
            and each.signal_id not in commit.consumed_signals
        }
        return replace(commit, closed_signals=tuple(closed.values()))


class TakesSignalsBehindTheEnd(MemorySignalRepository):
    """Queues a signal for a run that has ended."""

    async def append(self, signal: AgentSignal) -> AgentSignal:
        run = self._tables.run_of(self._tenant, signal.agent_state_id)
        if self._tables.signals.find(run.tenant_id, signal.id) is None:
            self._tables.queue_signal(run, EncodedSignal.of(self._tables.stamped_signal(signal)))
        return await super().append(signal)


class SaysNoEnd(MemorySignalRepository):
    """Does not tell the sender what became of a signal."""

    async def append(self, signal: AgentSignal) -> AgentSignal:
        return replace(await super().append(signal), end=None)


class SaysTaken(MemorySignalRepository):
    """Tells every sender that the signal was taken."""

    async def append(self, signal: AgentSignal) -> AgentSignal:
        return replace(await super().append(signal), end=AgentSignalEnd.TAKEN)


class NumbersAgain(MemorySignalRepository):
    """Gives a signal that is sent again another number."""

    async def append(self, signal: AgentSignal) -> AgentSignal:
        run = self._tables.run_of(self._tenant, signal.agent_state_id)
        if self._tables.signals.find(run.tenant_id, signal.id) is not None:
            self._tables.last_signals[run] += 1
        return await super().append(signal)


JOURNALS = [
    EndsOverAnything,
    WritesARefusedEnd,
    EndsAllTogether,
    MustAlwaysKnow,
    BringsNothingBack,
    CountsWhatWaits,
    CountsForAll,
    TakesWhatItCloses,
    ClosesAnything,
]
REPOSITORIES = [TakesSignalsBehindTheEnd, SaysNoEnd, SaysTaken, NumbersAgain]


def fixtures(
    journal: type[MemoryJournal] = MemoryJournal,
    signals: type[MemorySignalRepository] = MemorySignalRepository,
) -> Mapping[str, object]:
    store = MemoryStore()
    return {
        "journal": journal(store),
        "states": store.states,
        "signals": signals(store),
        "second_signals": signals(store),
    }


async def test_the_signal_kit_finds_nothing_in_a_store_without_a_bug() -> None:
    assert await failing_tests(SignalCommitConformance, fixtures) == []


@pytest.mark.parametrize("bug", JOURNALS)
async def test_the_signal_kit_notices_a_bug_of_the_journal(bug: type[MemoryJournal]) -> None:
    assert await failing_tests(SignalCommitConformance, lambda: fixtures(bug)) != []


@pytest.mark.parametrize("bug", REPOSITORIES)
async def test_the_signal_kit_notices_a_bug_of_the_queue(bug: type[MemorySignalRepository]) -> None:
    assert await failing_tests(SignalCommitConformance, lambda: fixtures(signals=bug)) != []

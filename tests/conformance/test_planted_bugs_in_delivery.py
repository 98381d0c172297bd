"""The kits notice what they are there for: outboxes and backlogs with one bug each."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Collection, Iterator, Mapping, Sequence
from dataclasses import replace
from datetime import datetime

import pytest

from pilotage.agent.ports.leases import BacklogEntry, has_something_to_do
from pilotage.agent.ports.outbox import OutboxEntry, OutboxPage, OutboxStatus
from pilotage.agent.ports.persistence import RunKey
from pilotage.agent.state import AgentState, AgentStateReason, AgentStatus
from pilotage.errors import CallerError
from pilotage.ids import SystemClock
from pilotage.testing import MemoryBacklog, MemoryOutbox, MemoryStore, VirtualClock
from pilotage.testing.conformance import BacklogConformance, OutboxConformance
from pilotage.testing.encoded import EncodedState
from pilotage.testing.outbox_table import OutboxRow
from pilotage.testing.tables import MemoryTables
from tests.conformance.planted import failing_tests


class GivesToEverybody(MemoryOutbox):
    def _due(self, run: RunKey, now: datetime) -> list[OutboxRow]:
        return [row for row in self._tables.outbox.of_run(run) if row.is_waiting and row.is_due(now)]


class GivesAgainToItsOwner(MemoryOutbox):
    async def claim(self, owner: str, seconds: float, limit: int) -> Sequence[OutboxEntry]:
        for row in self._tables.outbox.rows:
            if row.owner == owner:
                row.give_back()
        return await super().claim(owner, seconds, limit)


class LooksAtTheHeadOnly(MemoryOutbox):
    """Gives out what is behind a claimed entry."""

    def _due(self, run: RunKey, now: datetime) -> list[OutboxRow]:
        return [row for row in super()._waiting(run) if not row.is_claimed(now)]


class ForgetsToWait(MemoryOutbox):
    async def failed(self, owner: str, entry: OutboxEntry, problem: str, retry_in: float | None) -> None:
        await super().failed(owner, entry, problem, retry_in and 0.0)


class OvertakesWhatWaits(MemoryOutbox):
    def _due(self, run: RunKey, now: datetime) -> list[OutboxRow]:
        waiting = self._waiting(run)
        return [] if any(row.is_claimed(now) for row in waiting) else [r for r in waiting if r.is_due(now)]


class HoldsUpEverybody(MemoryOutbox):
    async def claim(self, owner: str, seconds: float, limit: int) -> Sequence[OutboxEntry]:
        now = self._tables.clock.now()
        if any(not row.is_due(now) for row in self._tables.outbox.rows):
            return []
        return await super().claim(owner, seconds, limit)


class ParkedBlocks(MemoryOutbox):
    def _due(self, run: RunKey, now: datetime) -> list[OutboxRow]:
        rows = self._tables.outbox.of_run(run)
        return [] if any(row.status is OutboxStatus.PARKED for row in rows) else super()._due(run, now)


class ParksForGood(MemoryOutbox):
    async def redeliver(self, run: RunKey, number: int) -> OutboxEntry:
        entry = await super().redeliver(run, number)
        self._tables.outbox.of_run(run)[number - 1].status = OutboxStatus.PARKED
        return entry


class KeepsCounting(MemoryOutbox):
    async def redeliver(self, run: RunKey, number: int) -> OutboxEntry:
        failures = self._tables.outbox.of_run(run)[number - 1].failures if number == 1 else 0
        await super().redeliver(run, number)
        row = self._tables.outbox.of_run(run)[number - 1]
        row.failures = failures
        return row.read()


class RedeliversAnything(MemoryOutbox):
    async def redeliver(self, run: RunKey, number: int) -> OutboxEntry:
        row = self._tables.outbox.of_run(run)[max(number, 1) - 1 if number < 2 else 0]
        row.status, row.failures = OutboxStatus.WAITING, 0
        return row.read()


class NeverRunsOut(MemoryOutbox):
    async def claim(self, owner: str, seconds: float, limit: int) -> Sequence[OutboxEntry]:
        return await super().claim(owner, seconds * 1000 if seconds < float("inf") else seconds, limit)


class HasAClockOfItsOwn(MemoryOutbox):
    def __init__(self, tables: MemoryTables) -> None:
        super().__init__(tables)
        tables.clock = SystemClock()


class MarksOnlyItsOwn(MemoryOutbox):
    async def delivered(self, owner: str, entries: Sequence[OutboxEntry]) -> None:
        own = [
            each for each in entries if self._tables.outbox.of_run(each.run)[each.number - 1].owner == owner
        ]
        await super().delivered(owner, own)


class MarksEverything(MemoryOutbox):
    async def delivered(self, owner: str, entries: Sequence[OutboxEntry]) -> None:
        for entry in entries:
            await super().delivered(owner, [row.read() for row in self._tables.outbox.of_run(entry.run)])


class ForgetsWhatWasDelivered(MemoryOutbox):
    async def read(self, run: RunKey, after: int = 0) -> AsyncIterator[OutboxEntry]:
        async for entry in super().read(run, after):
            if entry.status is not OutboxStatus.DELIVERED:
                yield entry


class FailsForAnybody(MemoryOutbox):
    async def failed(self, owner: str, entry: OutboxEntry, problem: str, retry_in: float | None) -> None:
        row = self._tables.outbox.of_run(entry.run)[entry.number - 1]
        row.claim(owner, row.claimed_until or self._tables.clock.now().replace(year=2999))
        await super().failed(owner, entry, problem, retry_in)


class ReleasesAnybodys(MemoryOutbox):
    async def release(self, owner: str, run: RunKey) -> None:
        for row in self._tables.outbox.of_run(run):
            row.give_back()


class NeverReleases(MemoryOutbox):
    async def release(self, owner: str, run: RunKey) -> None:
        return


class KeepsTheRestAfterAFailure(MemoryOutbox):
    async def failed(self, owner: str, entry: OutboxEntry, problem: str, retry_in: float | None) -> None:
        others = [row for row in self._tables.outbox.of_run(entry.run) if row.number > entry.number]
        held = [(row, row.owner, row.claimed_until) for row in others]
        await super().failed(owner, entry, problem, retry_in)
        for row, holder, until in held:
            row.owner, row.claimed_until = holder, until


class ForgetsTheProblem(MemoryOutbox):
    async def failed(self, owner: str, entry: OutboxEntry, problem: str, retry_in: float | None) -> None:
        await super().failed(owner, entry, "", retry_in)


class NewestFirst(MemoryOutbox):
    async def claim(self, owner: str, seconds: float, limit: int) -> Sequence[OutboxEntry]:
        self._tables.outbox.rows.sort(key=lambda row: -row.position if row.number == 1 else 0)
        return await super().claim(owner, seconds, limit)


class TakesMoreThanAsked(MemoryOutbox):
    async def claim(self, owner: str, seconds: float, limit: int) -> Sequence[OutboxEntry]:
        return await super().claim(owner, seconds, limit and limit + 1)


class ReadsThenWrites(MemoryOutbox):
    """Lets others in between looking and taking."""

    async def claim(self, owner: str, seconds: float, limit: int) -> Sequence[OutboxEntry]:
        free = [
            row
            for run in self._tables.outbox.waiting_runs()
            for row in self._due(run, self._tables.clock.now())
        ]
        await asyncio.sleep(0)
        for row in free:
            row.give_back()
        return await super().claim(owner, seconds, limit)


class ListsEverybodys(MemoryOutbox):
    async def list_parked(self, tenant_id: str, *, after: str | None = None, limit: int = 50) -> OutboxPage:
        mine = await super().list_parked(tenant_id, after=after, limit=limit)
        theirs = await super().list_parked("elsewhere")
        return OutboxPage((*mine.entries, *theirs.entries), mine.cursor)


class NeverEnds(MemoryOutbox):
    async def list_parked(self, tenant_id: str, *, after: str | None = None, limit: int = 50) -> OutboxPage:
        page = await super().list_parked(tenant_id, after=after, limit=limit)
        return OutboxPage(page.entries, None)


class TakesAnyCursor(MemoryOutbox):
    async def list_parked(self, tenant_id: str, *, after: str | None = None, limit: int = 50) -> OutboxPage:
        try:
            return await super().list_parked(tenant_id, after=after, limit=limit)
        except CallerError:
            return await super().list_parked(tenant_id, limit=limit)


OUTBOX_BUGS = [
    GivesToEverybody,
    GivesAgainToItsOwner,
    LooksAtTheHeadOnly,
    ForgetsToWait,
    OvertakesWhatWaits,
    HoldsUpEverybody,
    ParkedBlocks,
    ParksForGood,
    KeepsCounting,
    RedeliversAnything,
    NeverRunsOut,
    HasAClockOfItsOwn,
    MarksOnlyItsOwn,
    MarksEverything,
    ForgetsWhatWasDelivered,
    FailsForAnybody,
    ReleasesAnybodys,
    NeverReleases,
    KeepsTheRestAfterAFailure,
    ForgetsTheProblem,
    NewestFirst,
    TakesMoreThanAsked,
    ReadsThenWrites,
    ListsEverybodys,
    NeverEnds,
    TakesAnyCursor,
]


def outbox_fixtures(outbox: type[MemoryOutbox]) -> Mapping[str, object]:
    clock = VirtualClock()
    store = MemoryStore(clock)

    async def pass_time(seconds: float) -> None:
        clock.advance(seconds)

    ports = {"outbox": outbox(store.tables), "second_outbox": outbox(store.tables)}
    return {"journal": store.journal, "pass_time": pass_time, **ports}


async def test_the_outbox_kit_finds_nothing_in_an_outbox_without_a_bug() -> None:
    assert await failing_tests(OutboxConformance, lambda: outbox_fixtures(MemoryOutbox)) == []


@pytest.mark.parametrize("bug", OUTBOX_BUGS)
async def test_the_outbox_kit_notices_a_bug(bug: type[MemoryOutbox]) -> None:
    assert await failing_tests(OutboxConformance, lambda: outbox_fixtures(bug)) != []


class Claiming(MemoryBacklog):
    """A backlog whose bug is in how it claims."""

    suspects = False

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
        self.suspects = suspects
        return await self.take(owner, seconds, limit, agents, leaving)

    async def take(
        self, owner: str, seconds: float, limit: int, agents: Collection[str], leaving: Collection[RunKey]
    ) -> Sequence[BacklogEntry]:
        return await super().claim(
            owner, seconds, limit, agents=agents, leaving=leaving, suspects=self.suspects
        )


class IgnoresTheAgent(Claiming):
    async def take(
        self, owner: str, seconds: float, limit: int, agents: Collection[str], leaving: Collection[RunKey]
    ) -> Sequence[BacklogEntry]:
        return await super().take(owner, seconds, limit, await self.agents(), leaving)


class TakesWhatWasToBeLeft(Claiming):
    async def take(
        self, owner: str, seconds: float, limit: int, agents: Collection[str], leaving: Collection[RunKey]
    ) -> Sequence[BacklogEntry]:
        return await super().take(owner, seconds, limit, agents, ())


class ForgetsTheTenant(Claiming):
    async def take(
        self, owner: str, seconds: float, limit: int, agents: Collection[str], leaving: Collection[RunKey]
    ) -> Sequence[BacklogEntry]:
        names = [RunKey(tenant, run.run_id) for run in leaving for tenant in ("default", "elsewhere")]
        return await super().take(owner, seconds, limit, agents, names)


class LeavesNoLease(Claiming):
    async def take(
        self, owner: str, seconds: float, limit: int, agents: Collection[str], leaving: Collection[RunKey]
    ) -> Sequence[BacklogEntry]:
        leases = await super().take(owner, seconds, limit, agents, leaving)
        for lease in leases:
            del self._tables.leases[lease.run]
        return leases


class LooksThenTakes(Claiming):
    """Lets others in between finding runs and taking them."""

    async def take(
        self, owner: str, seconds: float, limit: int, agents: Collection[str], leaving: Collection[RunKey]
    ) -> Sequence[BacklogEntry]:
        found = [RunKey(state.tenant_id, state.id) for state in self._free() if state.agent_type in agents]
        await asyncio.sleep(0)
        for run in found[:limit]:
            self._tables.leases.pop(run, None)
        return await super().take(owner, seconds, limit, agents, leaving)


class TakesAll(Claiming):
    async def take(
        self, owner: str, seconds: float, limit: int, agents: Collection[str], leaving: Collection[RunKey]
    ) -> Sequence[BacklogEntry]:
        return await super().take(owner, seconds, limit and 1000, agents, leaving)


class NewestRunFirst(MemoryBacklog):
    def _free(self) -> Iterator[AgentState]:
        return reversed(list(super()._free()))


class IgnoresLeases(MemoryBacklog):
    def _is_left(self, kept: EncodedState) -> bool:
        held, self._tables.leases = self._tables.leases, {}
        try:
            return super()._is_left(kept)
        finally:
            self._tables.leases = held


class GivesOutItsOwn(Claiming):
    async def take(
        self, owner: str, seconds: float, limit: int, agents: Collection[str], leaving: Collection[RunKey]
    ) -> Sequence[BacklogEntry]:
        for run in [run for run, lease in self._tables.leases.items() if lease.owner == owner]:
            del self._tables.leases[run]
        return await super().take(owner, seconds, limit, agents, leaving)


class NeverSeesALeaseRunOut(MemoryBacklog):
    def _is_left(self, kept: EncodedState) -> bool:
        return RunKey(kept.bare.tenant_id, kept.bare.id) not in self._tables.leases and super()._is_left(kept)


class NeedsNoJournal(MemoryBacklog):
    def _is_left(self, kept: EncodedState) -> bool:
        return has_something_to_do(kept.read(), (), self._tables.clock.now()) or super()._is_left(kept)


class TakesWhateverWaits(MemoryBacklog):
    def _is_left(self, kept: EncodedState) -> bool:
        return kept.bare.status is AgentStatus.INTERRUPTED or super()._is_left(kept)


class AnySignalWillDo(MemoryBacklog):
    def _is_left(self, kept: EncodedState) -> bool:
        queue = self._tables.queues.get(RunKey(kept.bare.tenant_id, kept.bare.id))
        return (bool(queue) and kept.bare.status is AgentStatus.INTERRUPTED) or super()._is_left(kept)


class HearsNoAnswers(MemoryBacklog):
    def _is_left(self, kept: EncodedState) -> bool:
        return kept.bare.status is not AgentStatus.INTERRUPTED and super()._is_left(kept)


class NeverWakes(MemoryBacklog):
    def _is_left(self, kept: EncodedState) -> bool:
        return kept.bare.wake_at is None and super()._is_left(kept)


class WakesTheDead(MemoryBacklog):
    def _is_left(self, kept: EncodedState) -> bool:
        wake_at = kept.bare.wake_at
        return (wake_at is not None and wake_at <= self._tables.clock.now()) or super()._is_left(kept)


class TakesChildren(MemoryBacklog):
    def _is_left(self, kept: EncodedState) -> bool:
        return super()._is_left(EncodedState(kept.bare, "{}"))


class NeverTakesChildren(MemoryBacklog):
    def _is_left(self, kept: EncodedState) -> bool:
        return "parent" not in kept.read().metadata and super()._is_left(kept)


class LeavesOrphans(MemoryBacklog):
    def _is_left(self, kept: EncodedState) -> bool:
        parent = kept.read().metadata.get("parent")
        above = self._tables.states.find(kept.bare.tenant_id, str(parent)) if parent else None
        return (above is None or not above.bare.is_terminal) and super()._is_left(kept)


class LeavesTheCancelled(MemoryBacklog):
    def _is_left(self, kept: EncodedState) -> bool:
        return kept.bare.status is not AgentStatus.CANCELLING and super()._is_left(kept)


class CountsNothing(MemoryBacklog):
    async def begin(self, run: RunKey, delay_seconds: float) -> None:
        await super().begin(run, delay_seconds)
        self._tables.claims[run] = replace(self._tables.claims_of(run), count=0)


class CountsFromTheFirstClaimOn(MemoryBacklog):
    """Forgets claims when the next one begins."""

    async def begin(self, run: RunKey, delay_seconds: float) -> None:
        await self.forget(run)
        await super().begin(run, delay_seconds)


class NeverDelays(MemoryBacklog):
    async def begin(self, run: RunKey, delay_seconds: float) -> None:
        await super().begin(run, 0.0 * delay_seconds if 0 <= delay_seconds <= 300 else delay_seconds)


class ForgetsTheDelayOfTheEnd(MemoryBacklog):
    async def settle(
        self, run: RunKey, *, counts: bool, delay_seconds: float = 0.0, problem: str | None = None
    ) -> None:
        await super().settle(run, counts=counts, delay_seconds=0.0 * delay_seconds, problem=problem)


class TakesEveryClaimBack(MemoryBacklog):
    async def settle(
        self, run: RunKey, *, counts: bool, delay_seconds: float = 0.0, problem: str | None = None
    ) -> None:
        await super().settle(run, counts=False, delay_seconds=delay_seconds, problem=problem)


class TakesNoClaimBack(MemoryBacklog):
    async def settle(
        self, run: RunKey, *, counts: bool, delay_seconds: float = 0.0, problem: str | None = None
    ) -> None:
        await super().settle(run, counts=True, delay_seconds=delay_seconds, problem=problem)


class DropsTheProblem(MemoryBacklog):
    async def settle(
        self, run: RunKey, *, counts: bool, delay_seconds: float = 0.0, problem: str | None = None
    ) -> None:
        await super().settle(run, counts=counts, delay_seconds=delay_seconds)


class ForgetsNothing(MemoryBacklog):
    async def forget(self, run: RunKey) -> None:
        return


class GivesSuspectsToEverybody(Claiming):
    async def take(
        self, owner: str, seconds: float, limit: int, agents: Collection[str], leaving: Collection[RunKey]
    ) -> Sequence[BacklogEntry]:
        self.suspects = True
        return await super().take(owner, seconds, limit, agents, leaving)


class NeverGivesSuspects(Claiming):
    async def take(
        self, owner: str, seconds: float, limit: int, agents: Collection[str], leaving: Collection[RunKey]
    ) -> Sequence[BacklogEntry]:
        self.suspects = False
        return await super().take(owner, seconds, limit, agents, leaving)


class LetsThePoisonedOut(MemoryBacklog):
    def _is_left(self, kept: EncodedState) -> bool:
        state = kept.read()
        if state.reason is AgentStateReason.POISONED:
            return bool(self._tables.queues.get(RunKey(state.tenant_id, state.id)))
        return super()._is_left(kept)


class NoticesNobody(MemoryBacklog):
    async def agents(self) -> frozenset[str]:
        return frozenset()


BACKLOG_BUGS = [
    CountsNothing,
    CountsFromTheFirstClaimOn,
    NeverDelays,
    ForgetsTheDelayOfTheEnd,
    TakesEveryClaimBack,
    TakesNoClaimBack,
    DropsTheProblem,
    ForgetsNothing,
    GivesSuspectsToEverybody,
    NeverGivesSuspects,
    LetsThePoisonedOut,
    IgnoresTheAgent,
    TakesWhatWasToBeLeft,
    ForgetsTheTenant,
    LeavesNoLease,
    LooksThenTakes,
    TakesAll,
    NewestRunFirst,
    IgnoresLeases,
    GivesOutItsOwn,
    NeverSeesALeaseRunOut,
    NeedsNoJournal,
    TakesWhateverWaits,
    AnySignalWillDo,
    HearsNoAnswers,
    NeverWakes,
    WakesTheDead,
    TakesChildren,
    NeverTakesChildren,
    LeavesOrphans,
    LeavesTheCancelled,
    NoticesNobody,
]


def backlog_fixtures(backlog: type[MemoryBacklog]) -> Mapping[str, object]:
    clock = VirtualClock()
    store = MemoryStore(clock)

    async def pass_time(seconds: float) -> None:
        clock.advance(seconds)

    ports = {"backlog": backlog(store.tables), "second_backlog": backlog(store.tables)}
    others = {"journal": store.journal, "states": store.states, "signals": store.signals}
    return {**others, "leases": store.leases, "pass_time": pass_time, **ports}


@pytest.mark.parametrize("backlog", [MemoryBacklog, Claiming])
async def test_the_backlog_kit_finds_nothing_in_a_backlog_without_a_bug(backlog: type[MemoryBacklog]) -> None:
    assert await failing_tests(BacklogConformance, lambda: backlog_fixtures(backlog)) == []


@pytest.mark.parametrize("bug", BACKLOG_BUGS)
async def test_the_backlog_kit_notices_a_bug(bug: type[MemoryBacklog]) -> None:
    assert await failing_tests(BacklogConformance, lambda: backlog_fixtures(bug)) != []

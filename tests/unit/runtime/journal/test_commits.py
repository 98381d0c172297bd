"""Group commit: one call carries what all runs want, and everybody learns their own outcome."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Sequence
from dataclasses import replace

import pytest
from tests.unit.runtime.rows import a_claim, a_journal

from pilotage.agent.ports.journal import (
    CommitOutcome,
    Committed,
    HeadMoved,
    IAgentJournal,
    JournalCommit,
    JournalHead,
    OutboxEvent,
)
from pilotage.agent.ports.persistence import JournalRow, RunKey
from pilotage.runtime.journal.commits import JournalWriter, OutboxNotifier
from pilotage.runtime.journal.interruptions import StoreUnavailable
from pilotage.testing import (
    FailWrite,
    FaultyJournal,
    LoseReply,
    MemoryStore,
    ProcessStopped,
    StopBefore,
    VirtualClock,
)


def commit_of(run_id: str, *, tenant: str = "default", expected_head: int = 0) -> JournalCommit:
    """A claim of a run."""
    row = a_journal([a_claim(n + 1) for n in range(expected_head + 1)])[-1]
    return JournalCommit(RunKey(tenant, run_id), f"token {run_id}", expected_head, (row,))


class Page:
    """Has one commit, and waits for its outcome."""

    def __init__(self, commit: JournalCommit | None, run_id: str = "") -> None:
        self.commit = commit
        self.run = commit.run if commit is not None else RunKey("default", run_id)
        self.outcome: asyncio.Future[CommitOutcome] = asyncio.get_running_loop().create_future()

    def next_commit(self) -> JournalCommit | None:
        return self.commit

    def answered(self, commit: JournalCommit, outcome: CommitOutcome | BaseException) -> None:
        assert commit is self.commit
        if isinstance(outcome, BaseException):
            self.outcome.set_exception(outcome)
        else:
            self.outcome.set_result(outcome)


def committed(writer: JournalWriter, commit: JournalCommit) -> asyncio.Future[CommitOutcome]:
    """Give the writer a commit."""
    page = Page(commit)
    writer.enlist(page)
    return page.outcome


class Watched(IAgentJournal):
    """A journal that shows each call and answers when it is told to."""

    def __init__(self) -> None:
        self.store = MemoryStore().journal
        self.calls: list[list[str]] = []
        self.gate = asyncio.Event()

    async def commit(self, commits: Sequence[JournalCommit]) -> Sequence[CommitOutcome]:
        self.calls.append([f"{commit.run.tenant_id}/{commit.run.run_id}" for commit in commits])
        await self.gate.wait()
        return await self.store.commit(commits)

    async def read(self, run: RunKey, after: int = 0) -> AsyncIterator[JournalRow]:
        async for row in self.store.read(run, after):
            yield row

    async def head(self, run: RunKey) -> JournalHead | None:
        return await self.store.head(run)


class Dead(Watched):
    """A journal that never answers."""

    async def commit(self, commits: Sequence[JournalCommit]) -> Sequence[CommitOutcome]:
        self.calls.append([])
        raise OSError("no route")


async def test_what_comes_while_a_batch_is_written_goes_into_the_next_one() -> None:
    journal = Watched()
    writer = JournalWriter(journal)
    first = committed(writer, commit_of("a"))
    await asyncio.sleep(0)
    others = [committed(writer, commit_of(name)) for name in "dcb"]
    await asyncio.sleep(0)
    journal.gate.set()
    assert await asyncio.gather(first, *others) == [Committed(1)] * 4
    assert journal.calls == [["default/a"], ["default/b", "default/c", "default/d"]]


async def test_a_batch_is_in_the_order_of_tenants_and_runs() -> None:
    journal = Watched()
    journal.gate.set()
    writer = JournalWriter(journal)
    keys = [("z", "a"), ("y", "b"), ("z", "0"), ("y", "a")]
    await asyncio.gather(*(committed(writer, commit_of(run, tenant=tenant)) for tenant, run in keys))
    assert journal.calls == [["y/a", "y/b", "z/0", "z/a"]]


async def test_everybody_gets_their_own_outcome() -> None:
    writer = JournalWriter(MemoryStore().journal)
    outcomes = await asyncio.gather(
        committed(writer, commit_of("b")),
        committed(writer, commit_of("lost", expected_head=3)),
        committed(writer, commit_of("a")),
    )
    assert outcomes == [Committed(1), HeadMoved(0, 0), Committed(1)]


@pytest.mark.parametrize("facts", [(), (OutboxEvent("paid", 1, {}),)], ids=["without facts", "with facts"])
async def test_a_commit_with_facts_wakes_the_relay(facts: tuple[OutboxEvent, ...]) -> None:
    outbox, clock = OutboxNotifier(), VirtualClock()
    writer = JournalWriter(MemoryStore().journal, outbox)
    await committed(writer, replace(commit_of("a"), outbox=facts))
    relay = asyncio.create_task(outbox.wait(clock, 60))
    for _ in range(10):
        await asyncio.sleep(0)
    assert relay.done() is bool(facts)
    clock.advance(60)
    await relay


async def test_who_has_nothing_to_commit_any_more_is_left_out() -> None:
    journal = Watched()
    journal.gate.set()
    writer = JournalWriter(journal)
    writer.enlist(Page(None, "dead"))
    assert await committed(writer, commit_of("a")) == Committed(1)
    writer.enlist(Page(None, "dead"))
    await asyncio.sleep(0)
    assert await committed(writer, commit_of("b")) == Committed(1)
    assert journal.calls == [["default/a"], ["default/b"]]


@pytest.mark.parametrize("fault", [LoseReply(1), FailWrite(1)])
async def test_a_commit_without_a_reply_is_sent_again_and_written_once(fault: LoseReply | FailWrite) -> None:
    store = MemoryStore()
    journal = FaultyJournal(store.journal, fault)
    assert await committed(JournalWriter(journal), commit_of("a")) == Committed(1)
    assert journal.commits == 2
    assert len([row async for row in store.journal.read(RunKey("default", "a"))]) == 1


async def test_a_store_that_does_not_answer_is_given_up() -> None:
    journal = Dead()
    with pytest.raises(StoreUnavailable, match=r"^the journal did not answer 3 times: no route$"):
        await committed(JournalWriter(journal), commit_of("a"))
    assert len(journal.calls) == 3


async def test_a_writer_goes_on_after_a_batch_that_failed() -> None:
    store = MemoryStore()
    writer = JournalWriter(FaultyJournal(store.journal, FailWrite(1)))
    outcomes = await asyncio.gather(*(committed(writer, commit_of(name)) for name in "ab"))
    assert outcomes == [Committed(1)] * 2
    assert await committed(writer, commit_of("c")) == Committed(1)


async def test_everybody_in_a_batch_hears_of_the_death_of_the_process() -> None:
    writer = JournalWriter(FaultyJournal(MemoryStore().journal, StopBefore(1)))
    outcomes = await asyncio.gather(
        *(committed(writer, commit_of(name)) for name in "ab"), return_exceptions=True
    )
    assert [type(outcome) for outcome in outcomes] == [ProcessStopped, ProcessStopped]

"""The journal of one run as its attempt writes it: one commit per barrier, and death when the head has moved."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import replace

import pytest
from tests.unit.runtime.rows import AFTER, BEFORE, CLAIMED, an_action

from pilotage.agent.events import AgentEventAttribution, RunFinishedEvent, StepStartedEvent
from pilotage.agent.ports.journal import CommitOutcome, JournalCommit, JournalHead
from pilotage.agent.ports.persistence import JournalRow, JournalStage, RunKey
from pilotage.agent.ports.sealing import RecordSealError
from pilotage.agent.signals import AgentSignal, AgentSignalEnd, AgentSignalKind
from pilotage.agent.state import AgentSituation, AgentState
from pilotage.jsonvalue import JsonObject
from pilotage.runtime.events.event_log import logged_events
from pilotage.runtime.journal.chain import NO_HEAD, first_broken
from pilotage.runtime.journal.commits import JournalWriter
from pilotage.runtime.journal.interruptions import (
    EndRefused,
    Paused,
    RunInterruption,
    RunOwnershipLost,
    SealMissing,
    StartRefused,
    StoreUnavailable,
)
from pilotage.runtime.journal.ledger import Ledger, Opening
from pilotage.testing import FaultyJournal, LoseReply, MemoryJournal, MemoryStore

TOLD = JournalStage.TOLD
RUN = RunKey("default", "run-1")
BY = AgentEventAttribution("clerk", "run-1", "run-1")
CREATED = AgentState("run-1", "clerk", AgentSituation.CREATED.status)
PAY = an_action()
START: JsonObject = {"input": {}}
PAID: JsonObject = {"result": 1}


class Books:
    """A store, and ledgers over it as different owners have them."""

    def __init__(self, fault: LoseReply | None = None) -> None:
        self.store = MemoryStore()
        self.journal = FaultyJournal(self.store.journal, fault)
        self._owners = 0

    def ledger(
        self, head: JournalHead = NO_HEAD, run: RunKey = RUN, opening: Opening | None = None
    ) -> Ledger:
        self._owners += 1
        state = replace(CREATED, id=run.run_id)
        writer = JournalWriter(self.journal)
        return Ledger(run, state, head, writer, f"owner {self._owners}", opening=opening)

    async def rows(self) -> list[JournalRow]:
        return [row async for row in self.store.journal.read(RUN)]


async def claimed(books: Books) -> Ledger:
    """A ledger whose claim is committed."""
    ledger = books.ledger()
    ledger.claim(START, START)
    await ledger.barrier()
    return ledger


async def test_nothing_is_written_before_a_barrier() -> None:
    books = Books()
    ledger = books.ledger()
    ledger.claim(START, START)
    ledger.append(PAY, BEFORE, 1, None, None)
    assert await books.rows() == []
    await ledger.barrier()
    assert [row.seq for row in await books.rows()] == [1, 2]


async def test_rows_state_and_signals_of_a_step_are_one_commit() -> None:
    books = Books()
    ledger = await claimed(books)
    await books.store.signals.append(AgentSignal("s-1", "run-1", AgentSignalKind.CANCEL))
    ledger.append(PAY, AFTER, 1, PAID, PAID)
    ledger.change_state(CREATED.moved_to(AgentSituation.RUNNING))
    ledger.consume_signal("s-1")
    await ledger.barrier()
    assert books.journal.commits == 2
    assert (await books.store.states.get("run-1")).status is AgentSituation.RUNNING.status
    assert await books.store.signals.list_pending("run-1") == []


async def test_a_barrier_without_news_writes_nothing() -> None:
    books = Books()
    ledger = await claimed(books)
    await ledger.barrier()
    assert books.journal.commits == 1


async def test_events_are_in_the_last_row_of_the_next_commit() -> None:
    books = Books()
    ledger = await claimed(books)
    ledger.log.add(StepStartedEvent(BY, "first"), BY)
    ledger.append(PAY, BEFORE, 1, None, None)
    ledger.log.add(StepStartedEvent(BY, "second"), BY)
    await ledger.barrier()
    ledger.log.add(StepStartedEvent(BY, "third"), BY)
    ledger.append(PAY, AFTER, 1, PAID, PAID)
    await ledger.barrier()
    rows = await books.rows()
    assert [(row.action_id, row.stage, row.events) for row in rows] == [
        ("run", CLAIMED, ""),
        (PAY.id, BEFORE, '[1,"first","second"]'),
        (PAY.id, AFTER, '[3,"third"]'),
    ]
    assert first_broken(rows) is None


async def test_telling_alone_writes_nothing() -> None:
    books = Books()
    ledger = await claimed(books)
    ledger.log.add(StepStartedEvent(BY, "look"), BY)
    await ledger.barrier()
    assert books.journal.commits == 1


async def test_what_may_be_told_only_when_it_is_durable_is_written_by_the_next_barrier() -> None:
    books = Books()
    ledger = await claimed(books)
    ledger.log.promise(RunFinishedEvent(BY), BY)
    await ledger.barrier()
    await ledger.barrier()
    assert [row.stage for row in await books.rows()] == [CLAIMED, TOLD]
    assert books.journal.commits == 2


async def test_a_state_that_moves_without_a_row_moves_the_head() -> None:
    books = Books()
    ledger = await claimed(books)
    ledger.change_state(CREATED.moved_to(AgentSituation.RUNNING))
    await ledger.barrier()
    assert [row.record for row in await books.rows()] == [START, {"state": "active"}]


async def test_a_record_that_must_be_sealed_and_cannot_be_kills_the_attempt() -> None:
    books = Books()
    ledger = await claimed(books)
    with pytest.raises(SealMissing, match="nothing provides IRecordSealer") as missing:
        ledger.append(PAY, AFTER, 1, PAID, {"result": "hidden"})
    with pytest.raises(SealMissing):
        await ledger.barrier()
    with pytest.raises(SealMissing):
        ledger.append(PAY, AFTER, 1, PAID, PAID)
    assert len(await books.rows()) == 1
    await ledger.reopen(missing.value)
    await ledger.barrier()
    assert len(await books.rows()) == 1


async def test_only_the_attempt_that_lacks_a_key_is_reopened() -> None:
    ledger = await claimed(Books())
    ledger.kill(lost := RunOwnershipLost("another owner"))
    await ledger.reopen(SealMissing("a record"))
    with pytest.raises(RunOwnershipLost) as still:
        ledger.check_alive()
    assert still.value is lost


async def test_a_start_that_cannot_be_sealed_is_an_error_and_appends_nothing() -> None:
    books = Books()
    ledger = books.ledger()
    with pytest.raises(RecordSealError, match="nothing provides IRecordSealer"):
        ledger.claim(START, {"input": "hidden"})
    await ledger.barrier()
    assert await books.rows() == []


async def test_an_action_that_hides_nothing_is_recorded_without_a_key() -> None:
    books = Books()
    ledger = await claimed(books)
    ledger.append(replace(PAY, hides=False), AFTER, 1, PAID, {"result": "in another form"})
    await ledger.barrier()
    assert [row.record for row in await books.rows()][1:] == [PAID]


async def test_the_first_commit_says_what_the_run_belongs_to_and_no_later_one_does() -> None:
    books = Books()
    ledger = books.ledger(opening=Opening(conversation="talk-1"))
    ledger.claim(START, START)
    ledger.change_state(CREATED.moved_to(AgentSituation.RUNNING))
    await ledger.barrier()
    ledger.append(PAY, BEFORE, 1, None, None)
    await ledger.barrier()
    other = books.ledger(run=RunKey("default", "run-2"), opening=Opening(conversation="talk-1"))
    other.claim(START, START)
    other.change_state(replace(CREATED, id="run-2").moved_to(AgentSituation.RUNNING))
    with pytest.raises(StartRefused, match="talk-1"):
        await other.barrier()


async def test_the_rows_of_all_owners_are_one_chain() -> None:
    books = Books()
    first = await claimed(books)
    first.append(PAY, BEFORE, 1, None, None)
    await first.barrier()
    head = await books.store.journal.head(RUN)
    assert head is not None
    second = books.ledger(head)
    second.claim(START, START)
    second.append(PAY, AFTER, 1, PAID, PAID)
    await second.barrier()
    rows = await books.rows()
    assert first_broken(rows) is None
    assert [row.epoch for row in rows] == [1, 1, 2, 2]


async def test_of_two_owners_with_the_same_claim_one_loses() -> None:
    books = Books()
    first, second = books.ledger(), books.ledger()
    for ledger in (first, second):
        ledger.claim(START, START)
    await first.barrier()
    with pytest.raises(RunOwnershipLost) as error:
        await second.barrier()
    assert str(error.value) == "run 'run-1': epoch 1 wrote up to row 1, this attempt is epoch 1"
    assert len(await books.rows()) == 1


async def test_a_lost_reply_is_no_lost_run() -> None:
    books = Books(LoseReply(1))
    await claimed(books)
    assert len(await books.rows()) == 1


async def test_a_dead_ledger_stays_dead_with_its_first_death() -> None:
    books = Books()
    ledger = await claimed(books)
    ledger.kill(Paused("q-1"))
    ledger.kill(RunOwnershipLost("later"))
    with pytest.raises(Paused):
        ledger.append(PAY, BEFORE, 1, None, None)
    with pytest.raises(Paused):
        ledger.change_state(CREATED)
    with pytest.raises(Paused):
        ledger.consume_signal("s-1")
    with pytest.raises(Paused):
        await ledger.barrier()
    with pytest.raises(Paused):
        ledger.check_alive()
    assert len(await books.rows()) == 1


async def test_what_the_store_refuses_kills_the_attempt() -> None:
    books = Books()
    ledger = await claimed(books)
    ledger.consume_signal("nobody sent it")
    with pytest.raises(
        StoreUnavailable, match="the store refused the commit: signal 'nobody sent it'"
    ) as error:
        await ledger.barrier()
    with pytest.raises(RunInterruption) as again:
        ledger.check_alive()
    assert again.value is error.value


async def test_who_is_cancelled_in_a_barrier_loses_no_rows() -> None:
    books = Books()
    ledger = await claimed(books)
    ledger.append(PAY, BEFORE, 1, None, None)
    waiting = asyncio.create_task(ledger.barrier())
    await asyncio.sleep(0)
    waiting.cancel()
    with pytest.raises(asyncio.CancelledError):
        await waiting
    await ledger.barrier()
    assert len(await books.rows()) == 2


class SlowJournal(MemoryJournal):
    """A journal that answers when it is told to."""

    def __init__(self, store: MemoryStore) -> None:
        super().__init__(store)
        self.asked, self.may_answer = asyncio.Event(), asyncio.Event()

    async def commit(self, commits: Sequence[JournalCommit]) -> Sequence[CommitOutcome]:
        self.asked.set()
        await self.may_answer.wait()
        return await super().commit(commits)


async def test_a_ledger_is_settled_when_the_commit_of_a_cancelled_barrier_is_over() -> None:
    books = Books()
    journal = SlowJournal(books.store)
    books.journal = FaultyJournal(journal)
    ledger = books.ledger()
    ledger.claim(START, START)
    waiting = asyncio.create_task(ledger.barrier())
    await journal.asked.wait()
    waiting.cancel()
    settling = asyncio.create_task(ledger.settle())
    await asyncio.sleep(0)
    assert not settling.done()
    journal.may_answer.set()
    await settling
    assert len(await books.rows()) == 1


async def test_barriers_at_once_wait_for_each_other() -> None:
    books = Books()
    ledger = await claimed(books)

    async def append_and_wait(number: int) -> None:
        ledger.append(an_action(f"run/tool:pay#{number}"), BEFORE, 1, None, None)
        await ledger.barrier()

    await asyncio.gather(*(append_and_wait(number) for number in range(1, 21)))
    assert first_broken(await books.rows()) is None
    assert len(await books.rows()) == 21
    assert books.journal.commits == 2


async def test_a_refused_end_leaves_everything_before_it_to_be_committed() -> None:
    books = Books()
    ledger = await claimed(books)
    await books.store.signals.append(
        AgentSignal("late", RUN.run_id, AgentSignalKind.USER_MESSAGE, {"text": "wait"})
    )
    ledger.change_state(ledger.state.moved_to(AgentSituation.RUNNING))
    ledger.append(PAY, AFTER, 1, PAID, PAID)
    ledger.log.add(StepStartedEvent(BY, "look"), BY)
    ledger.mark_end()
    ledger.append(an_action("run/result#1"), AFTER, 1, PAID, PAID)
    ledger.log.promise(RunFinishedEvent(BY), BY)
    ledger.change_state(ledger.state.moved_to(AgentSituation.COMPLETED))
    with pytest.raises(EndRefused):
        await ledger.barrier()
    assert ledger.state.status is AgentSituation.RUNNING.status
    assert ledger.has_unread
    assert ledger.newest_signal == 1
    ledger.append(an_action("run/tool:pay#2"), AFTER, 1, PAID, PAID)
    await ledger.barrier()
    rows = await books.rows()
    assert first_broken(rows) is None
    assert [row.action_id for row in rows if row.stage is AFTER] == [PAY.id, "run/tool:pay#2"]
    assert [item.event(BY) for item in logged_events(rows, RUN.run_id)] == [StepStartedEvent(BY, "look")]
    assert (await books.store.states.get(RUN.run_id)).status is AgentSituation.RUNNING.status


async def test_an_end_closes_what_was_read_and_not_taken() -> None:
    books = Books()
    ledger = await claimed(books)
    kinds = {
        "m": AgentSignalKind.USER_MESSAGE,
        "r": AgentSignalKind.RESUME,
        "t": AgentSignalKind.USER_MESSAGE,
    }
    for name, kind in kinds.items():
        await books.store.signals.append(AgentSignal(name, RUN.run_id, kind, {"text": "wait"}))
    ledger.add_signals(await books.store.signals.list_pending(RUN.run_id), 3)
    ledger.change_state(ledger.state.moved_to(AgentSituation.RUNNING))
    ledger.consume_signal("t")
    ledger.add_signals(await books.store.signals.list_pending(RUN.run_id), 3)
    ledger.mark_end()
    assert ledger.close_signals() == {"late_signals": ["m"]}
    ledger.change_state(ledger.state.moved_to(AgentSituation.COMPLETED))
    await ledger.barrier()
    sent = [AgentSignal(name, RUN.run_id, kind, {"text": "wait"}) for name, kind in kinds.items()]
    ends = [(await books.store.signals.append(each)).end for each in sent]
    assert ends == [AgentSignalEnd.TOO_LATE, AgentSignalEnd.SUPERSEDED, AgentSignalEnd.TAKEN]

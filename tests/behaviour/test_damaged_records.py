"""A record is checked before it is believed: what does not fit interrupts the run, and says where and why."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Callable
from dataclasses import replace
from decimal import Decimal
from typing import Any

import pytest
from tests.behaviour.bureau import COMPLETED, WAITING, Bureau, hired, resumed, started, triple
from tests.behaviour.family import Family, member
from tests.behaviour.office import Worker
from tests.behaviour.test_sealed_runs import MINE, Bank, Teller

from pilotage import AgentStatus, RunPausedEvent
from pilotage.agent.ports.architecture import Dependencies
from pilotage.agent.ports.persistence import JournalRow, SealedRecord
from pilotage.agent.state import AgentState, AgentStateReason
from pilotage.errors import CallerError
from pilotage.jsonvalue import JsonObject, as_object
from pilotage.runtime.journal.chain import NO_HEAD, chained
from pilotage.runtime.runs import AgentRuns
from pilotage.testing import Fault, StopBefore
from pilotage.testing.encoded import EncodedRow
from pilotage.testing.tables import RunJournal

CLERK = hired("clerk")
CLEANUP_FAILED = ("failed", "failed", "cancellation_cleanup_failed")


async def program(worker: Worker) -> object:
    """Do one thing of each kind, then wait for a person."""
    await worker.desk.look("price")
    await worker.desk.note("paid")
    await worker.desk.pay(Decimal(1))
    return (await worker.desk.refund(Decimal(1))).number


ROWS = [
    "1 run claimed",
    "2 run/tool:look#1 after",
    "3 run/tool:note#1 before",
    "4 run/tool:note#1 after",
    "5 run/tool:pay#1 before",
    "6 run/tool:pay#1 after",
    "7 run/tool:refund#1/approval before",
    "8 told#8 told",
]
"""The rows of the waiting run, each of them damaged in each way."""


def _column(row: EncodedRow, place: int, word: object) -> EncodedRow:
    columns = list(row.columns)
    columns[place] = word
    return replace(row, columns=tuple(columns))


def _cut(row: EncodedRow) -> EncodedRow:
    assert isinstance(row.record_text, str)
    return replace(row, record_text=row.record_text[:-1])


def _deleted(rows: list[EncodedRow], at: int) -> None:
    del rows[at]


def _swapped(rows: list[EncodedRow], at: int) -> None:
    other = at + 1 if at + 1 < len(rows) else at - 1
    first, second = rows[at], rows[other]
    rows[at], rows[other] = _column(second, 0, first.seq), _column(first, 0, second.seq)


def _changed(change: Callable[[EncodedRow], EncodedRow]) -> Callable[[list[EncodedRow], int], None]:
    def damage(rows: list[EncodedRow], at: int) -> None:
        rows[at] = change(rows[at])

    return damage


CHANGED = "it was changed, or does not follow from the row before it"
DAMAGES: dict[str, tuple[Callable[[list[EncodedRow], int], None], str]] = {
    "deleted": (_deleted, "it is missing"),
    "swapped": (_swapped, CHANGED),
    "record": (_changed(lambda row: replace(row, record_text='{"result":9}')), CHANGED),
    "view": (_changed(lambda row: replace(row, view_text='{"result":9}')), CHANGED),
    "digest": (_changed(lambda row: replace(row, digest="0" * 64)), CHANGED),
    "salt": (_changed(lambda row: replace(row, salt="0")), CHANGED),
    "fingerprint": (_changed(lambda row: _column(row, 6, "f" * 64)), CHANGED),
    "number": (_changed(lambda row: replace(row, number=row.number + 1)), CHANGED),
    "turn": (_changed(lambda row: replace(row, turn=7)), CHANGED),
    "attempt": (_changed(lambda row: _column(row, 4, 7)), CHANGED),
    "events": (_changed(lambda row: replace(row, events="[1]")), CHANGED),
    "cut": (_changed(_cut), ""),
    "cut view": (_changed(lambda row: replace(row, view_text=row.view_text[:-1])), CHANGED),
}


def journal_of(bureau: Bureau, run_id: str) -> RunJournal:
    found = bureau.store.tables.journals.find("default", run_id)
    assert found is not None
    return found


def mend(journal: RunJournal, originals: list[EncodedRow]) -> None:
    """Put the original rows back; what was written since stays."""
    journal.rows[:] = [*originals, *(row for row in journal.rows if row.seq > len(originals))]


def rechain(journal: RunJournal) -> None:
    """Give changed rows digests that fit: the damage shows only when a record is decoded."""
    digest, rows = NO_HEAD.digest, list[EncodedRow]()
    for kept in journal.rows:
        row = chained(replace(kept.read(), encoded=None), digest)
        rows.append(EncodedRow.of(row, row.created_at))
        digest = row.digest
    journal.rows[:], journal.digest = rows, digest


async def look_at(runs: AgentRuns, run_id: str) -> AgentState:
    """Read everything that people look at; nothing raises."""
    assert await runs.questions(run_id) == ()
    await runs.evidence(run_id)
    result = await runs.result(run_id)
    assert result.status == AgentStatus.INTERRUPTED
    events = [event async for event in runs.events(run_id)]
    assert isinstance(events[-1], RunPausedEvent)
    assert events[-1].prompt == result.state.current_activity
    return result.state


def check_damaged(state: AgentState, seq: int, action: str | None, reason: str) -> None:
    assert state.reason is AgentStateReason.RECOVERY_REQUIRES_HITL
    place = f"row {seq}" + (f" ({action})" if action else "")
    assert f"the record of the run is damaged at {place}: {reason}" in str(state.current_activity)
    damage = state.metadata["damage"]
    assert isinstance(damage, dict)
    assert (damage["row"], damage["action"]) == (seq, action)


@pytest.fixture
async def waiting() -> tuple[Bureau, str]:
    bureau = Bureau()
    async with bureau.process(CLERK, program) as runs:
        run_id = (await started(runs, CLERK)).state.id
    assert [f"{row.seq} {row.action_id} {row.stage}" for row in await bureau.rows(run_id)] == ROWS
    return bureau, run_id


@pytest.mark.parametrize("at", range(len(ROWS)), ids=ROWS)
@pytest.mark.parametrize("kind", DAMAGES)
async def test_a_damaged_row_interrupts_the_run_and_the_mended_run_goes_on(
    waiting: tuple[Bureau, str], kind: str, at: int
) -> None:
    bureau, run_id = waiting
    journal, done = journal_of(bureau, run_id), list(bureau.world.done)
    originals, (damage, reason) = list(journal.rows), DAMAGES[kind]
    damage(journal.rows, at)
    seq = at if kind == "swapped" and at + 1 == len(ROWS) else at + 1
    is_missing = kind == "deleted"
    action = None if is_missing else str(journal.rows[seq - 1].columns[1])
    async with bureau.process(CLERK, program) as runs:
        interrupted = await resumed(runs, run_id)
        check_damaged(interrupted.state, seq, action, reason)
        assert await look_at(runs, run_id) == interrupted.state
        rows = len(journal.rows)
        assert (await resumed(runs, run_id)).state == interrupted.state
        assert len(journal.rows) == rows
        with pytest.raises(CallerError, match=rf"cannot be forked: its record is damaged at row {seq}"):
            await runs.fork(run_id)
    assert bureau.world.done == done
    mend(journal, originals)
    async with bureau.process(CLERK, program) as runs:
        assert triple((await resumed(runs, run_id)).state) == WAITING
        (question,) = await runs.questions(run_id)
        await runs.approve(question.id)
        assert triple((await resumed(runs, run_id)).state) == COMPLETED
        assert await runs.verify(run_id) == len(journal.rows)
    assert bureau.world.done == [*done, "refund 1"]


async def test_all_rows_may_be_missing(waiting: tuple[Bureau, str]) -> None:
    bureau, run_id = waiting
    journal = journal_of(bureau, run_id)
    originals = list(journal.rows)
    journal.rows.clear()
    async with bureau.process(CLERK, program) as runs:
        check_damaged((await resumed(runs, run_id)).state, 1, None, "it is missing")
        await look_at(runs, run_id)
    mend(journal, originals)
    async with bureau.process(CLERK, program) as runs:
        assert triple((await resumed(runs, run_id)).state) == WAITING


async def test_a_head_beyond_the_rows_interrupts_the_run(waiting: tuple[Bureau, str]) -> None:
    bureau, run_id = waiting
    journal_of(bureau, run_id).head += 1
    async with bureau.process(CLERK, program) as runs:
        check_damaged((await resumed(runs, run_id)).state, 9, None, "it is missing")


async def test_a_head_with_another_digest_interrupts_the_run(waiting: tuple[Bureau, str]) -> None:
    bureau, run_id = waiting
    journal_of(bureau, run_id).digest = "0" * 64
    async with bureau.process(CLERK, program) as runs:
        reason = "its digest is not that of the journal's head"
        check_damaged((await resumed(runs, run_id)).state, 8, "told#8", reason)


async def test_without_a_head_the_caller_is_told_and_the_run_stays_as_it_is(
    waiting: tuple[Bureau, str],
) -> None:
    bureau, run_id = waiting
    journal_of(bureau, run_id).head = 0
    async with bureau.process(CLERK, program) as runs:
        with pytest.raises(CallerError) as told:
            await runs.resume(run_id)
        assert triple(await runs.get(run_id)) == WAITING
        await runs.questions(run_id)
    assert str(told.value) == (
        f"run {run_id!r} can be neither resumed nor interrupted: its record is damaged at row 8 (told#8): by its "
        "head the journal ends in row 0, and its journal has no head. Restore its rows and its head from a backup."
    )


async def test_a_fork_before_the_damage_is_possible(waiting: tuple[Bureau, str]) -> None:
    bureau, run_id = waiting
    journal = journal_of(bureau, run_id)
    journal.rows[5] = replace(journal.rows[5], record_text="{")
    async with bureau.process(CLERK, program) as runs:
        with pytest.raises(CallerError, match="damaged at row 6"):
            await runs.fork(run_id, at=6)
        fork = await runs.fork(run_id, at=4)
        assert triple((await resumed(runs, fork.id)).state) == WAITING
        damaged = journal_of(bureau, fork.id)
        damaged.rows[1] = replace(damaged.rows[1], view_text="1")
        check_damaged((await resumed(runs, fork.id)).state, 2, "run/tool:look#1", CHANGED)


async def test_a_damaged_run_can_be_cancelled(waiting: tuple[Bureau, str]) -> None:
    bureau, run_id = waiting
    journal = journal_of(bureau, run_id)
    journal.rows[3] = replace(journal.rows[3], record_text="{")
    async with bureau.process(CLERK, program) as runs:
        await runs.cancel(run_id)
        state = await runs.get(run_id)
        assert triple(state) == CLEANUP_FAILED
        assert (state.current_activity, as_object(state.metadata["damage"])["row"]) == (None, 4)
        assert [event async for event in runs.events(run_id)]


MISFITS: dict[str, tuple[int, JsonObject, str]] = {
    "start without its agent": (1, {"record": {}, "view": {}}, "'record' is not of type RunStart"),
    "result missing": (4, {"record": {}, "view": {}}, ""),
    "record of another type": (4, {"record": [1], "view": [1]}, "'record' is not an object"),
    "events of another type": (8, {"view": {"first": "x"}}, "'view' is not a list of events"),
    "events of a row of another type": (3, {"events": '["x"]'}, "'view' is not a list of events"),
    "outcome unreadable": (6, {"record": 7, "view": 7}, "'record' is not an object"),
}


@pytest.mark.parametrize("kind", MISFITS)
async def test_a_record_that_fits_its_digest_and_does_not_decode_interrupts_the_run(
    waiting: tuple[Bureau, str], kind: str
) -> None:
    bureau, run_id = waiting
    seq, change, reason = MISFITS[kind]
    journal, done = journal_of(bureau, run_id), list(bureau.world.done)
    changes: dict[str, Any] = dict(change)
    row: JournalRow = replace(journal.rows[seq - 1].read(), **changes, encoded=None)
    journal.rows[seq - 1] = EncodedRow.of(row, row.created_at)
    rechain(journal)
    async with bureau.process(CLERK, program) as runs:
        state = (await resumed(runs, run_id)).state
        assert state.reason is AgentStateReason.RECOVERY_REQUIRES_HITL
        assert re.search(rf"damaged at row {seq} \(", str(state.current_activity))
        assert reason in str(state.current_activity)
        await look_at(runs, run_id)
    assert bureau.world.done == done


async def test_a_program_cannot_take_a_damaged_record_for_a_failed_call(waiting: tuple[Bureau, str]) -> None:
    bureau, run_id = waiting

    async def careless(worker: Worker) -> object:
        try:
            return await program(worker)
        except Exception:  # noqa: BLE001 - a program that goes on whatever happens
            await worker.desk.note("went on")
            return "went on"

    journal = journal_of(bureau, run_id)
    row = replace(journal.rows[5].read(), record={}, view={}, encoded=None)
    journal.rows[5] = EncodedRow.of(row, row.created_at)
    rechain(journal)
    async with bureau.process(CLERK, careless) as runs:
        state = (await resumed(runs, run_id)).state
    assert state.reason is AgentStateReason.RECOVERY_REQUIRES_HITL
    assert "note went on" not in bureau.world.done


@pytest.mark.parametrize("is_rechained", [False, True])
async def test_a_seal_that_does_not_open_interrupts_the_run(*, is_rechained: bool) -> None:
    bureau, bank = Bureau(), Bank()
    async with bureau.process(Teller, None, bank) as runs:
        run_id = (await started(runs, Teller, MINE)).state.id
    journal = journal_of(bureau, run_id)
    originals, digest = list(journal.rows), journal.digest
    sealed = [at for at, row in enumerate(journal.rows) if isinstance(row.record_text, SealedRecord)][1]
    kept = journal.rows[sealed].record_text
    assert isinstance(kept, SealedRecord)
    broken = replace(kept, ciphertext=kept.ciphertext[::-1])
    journal.rows[sealed] = replace(journal.rows[sealed], record_text=broken)
    if is_rechained:
        rechain(journal)
    async with bureau.process(Teller, None, bank) as runs:
        state = (await resumed(runs, run_id)).state
        assert state.reason is AgentStateReason.RECOVERY_REQUIRES_HITL
        assert f"damaged at row {sealed + 1} (" in str(state.current_activity)
        assert ("does not open" in str(state.current_activity)) is is_rechained
        await look_at(runs, run_id)
    if not is_rechained:
        assert digest
        mend(journal, originals)
        async with bureau.process(Teller, None, bank) as runs:
            assert triple((await resumed(runs, run_id)).state) == WAITING


class Household:
    """A parent that delegates once, and its child, which waits for a person or ends at once."""

    def __init__(self, *, has_waiting_child: bool) -> None:
        self.family = family = Family(has_leases=True)

        async def parent(deps: Dependencies, prompt: str) -> object:
            return await deps.runtime.spawn_child("kid", "child", {"task": "work"})

        async def child(deps: Dependencies, prompt: str) -> object:
            return await family.hands.ask("it") if has_waiting_child else "done"

        self.agents = (member("parent", parent), member("child", child))

    async def left(self, fault: Fault | None = None) -> tuple[AgentState, AgentState | None]:
        """Leave the runs as a process leaves them that may die: those of the parent and the child."""
        async with self.family.process(*self.agents, fault=fault) as runs:
            handle = await runs.start(self.agents[0], "work")
            await asyncio.gather(handle.result(), return_exceptions=True)
        states = self.family.store.states
        known = [await states.get(run.id) for run in (await states.list_runs("default")).runs]
        kid = next((state for state in known if state.metadata.get("parent")), None)
        return await states.get(handle.id), kid


async def household(*, has_waiting_child: bool) -> tuple[Household, AgentState, AgentState]:
    """A household whose parent has not ended, with a child that waits or has ended."""
    if has_waiting_child:
        home = Household(has_waiting_child=True)
        top, kid = await home.left()
        assert kid is not None
        return home, top, kid
    for commit in range(3, 12):
        home = Household(has_waiting_child=False)
        top, kid = await home.left(StopBefore(commit))
        if kid is not None and kid.is_terminal and not top.is_terminal:
            home.family.clock.advance(60)
            return home, top, kid
    raise AssertionError("no process died between the end of the child and that of its parent")


@pytest.mark.parametrize("has_waiting_child", [True, False])
async def test_a_damaged_child_interrupts_its_parent_too(*, has_waiting_child: bool) -> None:
    home, top, kid = await household(has_waiting_child=has_waiting_child)
    family = home.family
    journal = family.store.tables.journals.find("default", kid.id)
    assert journal is not None
    originals = list(journal.rows)
    journal.rows[0] = replace(journal.rows[0], record_text="{")
    async with family.process(*home.agents) as runs:
        result = await (await runs.resume(top.id)).result()
        assert result.state.reason is AgentStateReason.RECOVERY_REQUIRES_HITL
        assert "damaged at row 1 (run)" in str(result.state.current_activity)
        assert kid.id in str(result.state.current_activity)
        child_state = await runs.get(kid.id)
        if has_waiting_child:
            assert child_state.reason is AgentStateReason.RECOVERY_REQUIRES_HITL
        else:
            assert child_state == kid
        assert await runs.questions(top.id) == ()
        assert [event async for event in runs.events(top.id)]
    mend(journal, originals)
    async with family.process(*home.agents) as runs:
        result = await (await runs.resume(top.id)).result()
        assert triple(result.state) == (WAITING if has_waiting_child else COMPLETED)

"""Calls that a person skipped, in the kernel: passed over under every schedule, over records cut at every row."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import pytest
from tests.unit.runtime.journal.kernel_simulation import (
    Chooser,
    Program,
    World,
    changed,
    explore,
    join,
    pay,
    read,
    spawn,
    tool,
)

from pilotage.runtime.journal.decisions import BEGIN, OPEN, Diverge, ReturnAtOnce
from pilotage.runtime.journal.kernel import Kernel
from pilotage.runtime.journal.positions import CallIdentity, Record, RecordRow, RowStage

EXTRA = "extra"
Release = Callable[[bool], Program]
"""A program with the call of an earlier release, and without it."""


def in_a_row(has_extra: bool) -> Program:
    async def program() -> Any:
        price = await read("price")
        if has_extra:
            await pay(EXTRA, price)
        await pay("pay", price)
        return await read("end", price)

    return program


def first_of_all(has_extra: bool) -> Program:
    async def program() -> Any:
        if has_extra:
            await read(EXTRA)
        return await pay("pay", await read("price"))

    return program


def in_front_of_tasks(has_extra: bool) -> Program:
    async def one(number: int) -> Any:
        return await read("read", number)

    async def program() -> Any:
        if has_extra:
            await read(EXTRA)
        tasks = [await spawn(one(number)) for number in range(2)]
        done = await join(*tasks)
        return await pay("pay", ",".join(sorted(str(each.result) for each in done)))

    return program


def in_one_of_two_tasks(has_extra: bool) -> Program:
    async def first() -> Any:
        before = await read("before")
        if has_extra:
            await read(EXTRA)
        return await pay("pay", before)

    async def program() -> Any:
        task = await spawn(first())
        other = await read("other")
        await join(task)
        return await read("end", f"{task.result},{other}")

    return program


def inside_of_a_call(has_extra: bool) -> Program:
    async def inner() -> Any:
        if has_extra:
            await pay(EXTRA)
        return await pay("inner")

    async def program() -> Any:
        return await read("end", await tool("order", inner))

    return program


def with_calls_inside(has_extra: bool) -> Program:
    async def inner() -> Any:
        return await pay("inner")

    async def program() -> Any:
        if has_extra:
            await tool(EXTRA, inner)
        return await pay("pay", await read("price"))

    return program


def in_front_of_a_gate(has_extra: bool) -> Program:
    async def program() -> Any:
        price = await read("price")
        if has_extra:
            await read(EXTRA)
        if await changed("gate"):
            await pay("new", price)
        return await read("end", price)

    return program


RELEASES: list[Release] = [
    in_a_row,
    first_of_all,
    in_front_of_tasks,
    in_one_of_two_tasks,
    inside_of_a_call,
    with_calls_inside,
    in_front_of_a_gate,
]


def is_extra(row: RecordRow) -> bool:
    return row.asked.label == EXTRA


class Later(World):
    """An attempt of the later release: what it checks leaves out the calls that were skipped, and all inside of them."""

    def __init__(
        self,
        program: Program,
        rows: Sequence[RecordRow],
        chooser: Chooser,
        attempt: int,
        answers: frozenset[str],
    ) -> None:
        super().__init__(program, rows, chooser, attempt, answers)
        gone = tuple(f"{row.id}/" for row in rows if is_extra(row))
        left = [row for row in rows if not is_extra(row) and not f"{row.scope}/".startswith(gone or "\0")]
        world = World(program, left, chooser, attempt, answers)
        world.root.body.close()
        self.recorded, self.expected = world.recorded, world.expected
        self._has_left = {(row.scope, row.number) for row in left if row.stage is not RowStage.CHANGED}

    def _left(self) -> list[str]:
        places = {str(place) for place in self._has_left}
        return [each for each in super()._left() if each in places]


def records(release: Release) -> set[tuple[RecordRow, ...]]:
    """Return the records of the earlier release, cut behind every row, that have the extra call and go on behind it."""
    whole = {ended.rows for ended in explore(World, release(True))}
    cut = {rows[:count] for rows in whole for count in range(len(rows) + 1)}
    return {rows for rows in cut if any(map(is_extra, rows))}


def skipped(rows: Sequence[RecordRow]) -> tuple[RecordRow, ...]:
    extra = next(filter(is_extra, rows))
    return (*rows, replace(extra, stage=RowStage.SKIPPED))


@pytest.mark.parametrize("release", RELEASES)
def test_the_later_release_goes_on_and_does_nothing_twice(release: Release) -> None:
    for rows in records(release):
        for ended in explore(Later, release(False), skipped(rows), attempt=2):
            assert ended.how == "completed", (rows, ended.over)
            begun = [*ended.begun, *(row.id for row in rows if row.stage is RowStage.ENDED)]
            assert len(begun) == len(set(begun))


@pytest.mark.parametrize("release", RELEASES)
def test_a_later_replay_passes_over_the_same_number(release: Release) -> None:
    for rows in records(release):
        ended = next(explore(Later, release(False), skipped(rows), attempt=2))
        for count in range(len(rows) + 1, len(ended.rows) + 1):
            again = next(explore(Later, release(False), ended.rows[:count], attempt=3))
            assert again.how == "completed", (ended.rows[:count], again.over)


@pytest.mark.parametrize("release", RELEASES)
def test_without_the_row_of_a_person_the_later_release_diverges(release: Release) -> None:
    ends = {next(explore(World, release(False), rows, attempt=2)).how for rows in records(release)}
    assert "diverged" in ends


PRICE, PAY, SHIP = (CallIdentity("tool", name, f"{name}()") for name in ("price", "pay", "ship"))


def row(
    stage: RowStage, asked: CallIdentity, number: int, *, takes_turn: bool = False, passed: int = 0
) -> RecordRow:
    return RecordRow(
        stage, "run", number, asked, f"run/{asked.label}#1", takes_turn, passed, outcome=asked.label
    )


def test_numbers_behind_a_skipped_call_stay_what_they_are() -> None:
    rows = [row(RowStage.ENDED, PRICE, 1), row(RowStage.ENDED, PAY, 2), row(RowStage.ENDED, SHIP, 3)]
    kernel = Kernel(Record([*rows, row(RowStage.SKIPPED, PAY, 2)]))
    scope = kernel.open_scope("run", "owner")
    price, ship = kernel.make(scope, PRICE), kernel.make(scope, SHIP)
    assert (price.number, ship.number) == (1, 3)
    assert [kernel.ask(price), kernel.ask(ship)] == [ReturnAtOnce(rows[0]), ReturnAtOnce(rows[2])]
    new = kernel.make(scope, PAY)
    assert (new.number, kernel.ask(new)) == (4, BEGIN)


def test_a_skipped_call_that_is_asked_for_after_all_diverges() -> None:
    rows = [row(RowStage.ENDED, PAY, 1), row(RowStage.ENDED, SHIP, 2), row(RowStage.SKIPPED, PAY, 1)]
    kernel = Kernel(Record(rows))
    kernel.make(kernel.open_scope("run", "owner"), PAY)
    assert isinstance(kernel.over, Diverge)


def test_rows_without_numbers_are_skipped_by_id() -> None:
    record = Record([row(RowStage.ENDED, PAY, 0), row(RowStage.SKIPPED, PAY, 0)])
    assert (list(record.calls()), record.skipped) == ([], {})


def test_a_cut_behind_the_row_of_a_skip_counts_turns_without_the_skipped_call() -> None:
    rows = [
        row(RowStage.ENDED, PRICE, 1, takes_turn=True),
        row(RowStage.SKIPPED, PRICE, 1),
        row(RowStage.ENDED, SHIP, 3, takes_turn=True),
        row(RowStage.CUT, PAY, 2, takes_turn=True, passed=0),
    ]
    order = Record(rows).orders["run"]
    assert [call.number for call in order] == [2, 3]


def test_a_gate_behind_a_skipped_call_is_open_behind_the_call_before_it() -> None:
    gate = RecordRow(RowStage.CHANGED, "run", 2, CallIdentity("gate", "new", ""), "run/changed:new#2")
    rows = [row(RowStage.ENDED, PRICE, 1), row(RowStage.ENDED, PAY, 2), gate, row(RowStage.SKIPPED, PAY, 2)]
    kernel = Kernel(Record(rows))
    scope = kernel.open_scope("run", "owner")
    kernel.ask(kernel.make(scope, PRICE))
    assert kernel.gate(scope, "new") == OPEN

"""Asyncio programs over the replay kernel: recorded, cut at any row, replayed, cut again."""

from __future__ import annotations

import asyncio
import sys
import time

import pytest
from tests.unit.runtime.journal.asyncio_programs import (
    CHANCE,
    DISHONEST,
    HONEST,
    WAITING,
    helper_without_calls,
    sometimes_less,
)
from tests.unit.runtime.journal.asyncio_runs import Ended, Program, Run, drive, watch_tasks

from pilotage.runtime.journal.decisions import Pause
from pilotage.runtime.journal.positions import RecordRow, RowStage


def waits_in(rows: tuple[RecordRow, ...]) -> frozenset[str]:
    return frozenset(row.id for row in rows if row.stage is RowStage.BESIDE)


async def attempt(
    program: Program, rows: tuple[RecordRow, ...], seed: int, *, is_watched: bool = False
) -> Ended:
    """Run one attempt; everything asked so far is answered."""
    run = Run(rows, seed, answers=waits_in(rows))
    if is_watched:
        watch_tasks(run)
    return await drive(program, run)


async def carried_on(program: Program, rows: tuple[RecordRow, ...], seed: int) -> Ended:
    """Carry a run on over its pauses."""
    ended = await attempt(program, rows, seed)
    for again in range(6):
        if ended.how != "paused":
            break
        ended = await attempt(program, ended.rows, seed + again)
    return ended


def check(program: Program, ended: Ended, where: str) -> None:
    assert ended.how == "completed", f"{program.__name__} {where}: {ended.how} {ended.over}"
    begun = [row.id for row in ended.rows if row.stage is RowStage.BEGUN]
    assert len(begun) == len(set(begun)), f"{program.__name__} {where}: an effect twice"


async def replays(program: Program, seeds: range) -> int:
    """Record a program, cut the record at every row, go on, cut that at random, go on; return the replays."""
    count = 0
    for seed in seeds:
        live = await carried_on(program, (), seed)
        check(program, live, f"live, seed {seed}")
        whole = await attempt(program, live.rows, seed)
        assert (whole.output, whole.rows, whole.begun) == (live.output, live.rows, []), program.__name__
        for cut in range(1, len(live.rows)):
            again = await carried_on(program, live.rows[:cut], seed * 97 + cut)
            check(program, again, f"seed {seed}, cut at {cut}")
            second = (seed * 31 + cut * 17) % len(again.rows) + 1
            twice = await carried_on(program, again.rows[:second], seed * 7 + cut)
            check(program, twice, f"seed {seed}, cut at {cut} and {second}")
            count += 2
    return count


@pytest.mark.parametrize("program", [*HONEST, *WAITING], ids=lambda program: program.__name__)
async def test_a_deterministic_program_never_diverges(program: Program) -> None:
    assert await replays(program, range(2))


@pytest.mark.parametrize("program", DISHONEST, ids=lambda program: program.__name__)
async def test_a_program_that_depends_on_chance_diverges_before_anything_new_begins(program: Program) -> None:
    assert await divergences(program, range(6 if program is sometimes_less else 2))


async def divergences(program: Program, seeds: range) -> int:
    CHANCE.seed(7)
    diverged = 0
    for seed in seeds:
        live = await attempt(program, (), seed)
        for cut in range(1, len(live.rows) + 1):
            again = await attempt(program, live.rows[:cut], seed)
            assert again.how in ("completed", "diverged")
            if again.how == "diverged":
                diverged += 1
                assert not again.begun
                assert again.rows == live.rows[:cut]
    return diverged


async def test_a_helper_that_makes_no_calls_is_ordered_if_its_creation_is_reported() -> None:
    for seed in range(6):
        live = await attempt(helper_without_calls, (), seed, is_watched=True)
        check(helper_without_calls, live, f"live, seed {seed}")
        for cut in range(1, len(live.rows) + 1):
            again = await attempt(helper_without_calls, live.rows[:cut], seed + cut, is_watched=True)
            check(helper_without_calls, again, f"seed {seed}, cut at {cut}")


async def before_the_change(run: Run) -> str:
    await run.read("price")
    await asyncio.gather(_pay(run, 1), _pay(run, 2))
    return await run.pay("end")


async def with_a_new_call(run: Run) -> str:
    await run.read("price")
    await run.pay("fraud check")
    await asyncio.gather(_pay(run, 1), _pay(run, 2))
    return await run.pay("end")


async def behind_a_gate(run: Run) -> str:
    await run.read("price")
    if await run.changed("fraud-check"):
        await run.pay("fraud check")
    await asyncio.gather(_pay(run, 1), _pay(run, 2))
    return await run.pay("end")


async def _pay(run: Run, number: int) -> None:
    await run.read("look", number)
    await run.pay("pay", number)


async def test_a_new_call_in_front_of_the_recorded_part_diverges_before_it_begins() -> None:
    live = await attempt(before_the_change, (), 1)
    for cut in range(1, len(live.rows) + 1):
        again = await attempt(with_a_new_call, live.rows[:cut], 1)
        has_more = cut > 1
        assert again.how == ("diverged" if has_more else "completed"), cut
        assert not (has_more and again.begun)


async def test_a_new_call_behind_a_gate_is_left_out_where_the_record_goes_on_without_it() -> None:
    for seed in range(4):
        live = await attempt(before_the_change, (), seed)
        for cut in range(1, len(live.rows) + 1):
            again = await attempt(behind_a_gate, live.rows[:cut], seed)
            check(behind_a_gate, again, f"seed {seed}, cut at {cut}")
            took_it = any(row.asked.label == "fraud check" for row in again.rows)
            assert took_it == (cut == 1)
            for second in range(cut, len(again.rows) + 1):
                twice = await attempt(behind_a_gate, again.rows[:second], seed)
                check(behind_a_gate, twice, f"seed {seed}, cut at {cut} and {second}")


async def main(seeds: int) -> None:
    total = 0
    for program in [*HONEST, *WAITING]:
        begin = time.time()
        try:
            count = await replays(program, range(seeds))
        except AssertionError as error:
            print(f"{program.__name__:24} WRONG {str(error)[:1200]}")
            continue
        total += count
        print(f"{program.__name__:24} {count:6} {time.time() - begin:6.1f} s", flush=True)
    print(total, "replays")
    for program in DISHONEST:
        print(f"{program.__name__:24} {await divergences(program, range(seeds))} diverged")


if __name__ == "__main__":
    asyncio.run(main(int(sys.argv[1]) if len(sys.argv) > 1 else 2))


async def nested_wait(run: Run) -> object:
    """A tool that may not be repeated calls one that a person must approve."""
    return await run.tool("order", lambda: _approved_inside(run))


async def nested_wait_beside_a_read(run: Run) -> object:
    order = run.tool("order", lambda: _approved_inside(run))
    return await asyncio.gather(order, run.read("slow", seconds=0.002))


async def nested_wait_that_is_cancelled(run: Run) -> object:
    """The program cancels the outer call while the inner one waits."""
    order = asyncio.ensure_future(run.tool("order", lambda: _approved_inside(run)))
    await run.read("slow", seconds=0.002)
    order.cancel()
    return await order


async def _approved_inside(run: Run) -> str:
    await run.read("price")
    return await run.approve("transfer")


@pytest.mark.parametrize("program", [nested_wait, nested_wait_beside_a_read, nested_wait_that_is_cancelled])
async def test_a_wait_inside_of_a_call_that_may_not_be_repeated_pauses_the_run_and_cuts_nothing(
    program: Program,
) -> None:
    paused = await attempt(program, (), 1)
    assert paused.over == Pause(frozenset({"run/order#1/transfer#1"}))
    assert not [row for row in paused.rows if row.stage is RowStage.CUT]
    ended = await attempt(program, paused.rows, 2)
    outer = [row for row in ended.rows if row.id == "run/order#1"]
    assert [row.stage for row in outer] == [RowStage.BEGUN, RowStage.ENDED]
    assert ended.how in ("completed", "failed: None")

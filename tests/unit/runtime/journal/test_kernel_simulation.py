"""The replay kernel under every schedule of small programs, cut at every row, also twice, and with each law off."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from typing import Any

import pytest
from tests.unit.runtime.journal.kernel_simulation import (
    CancelledError,
    Ended,
    Program,
    Task,
    World,
    WrongError,
    approve,
    awaited,
    calm,
    explore,
    first,
    join,
    made,
    pay,
    quick,
    read,
    spawn,
    stop,
    timer,
    tool,
    turn,
)

from pilotage.runtime.journal.positions import RecordRow, RowStage


async def sequence() -> Any:
    price = await read("price")
    await pay("pay", price)
    return await read("end", price)


async def side_by_side() -> Any:
    async def one(number: int) -> None:
        seen.append(await read("read", number))

    seen: list[str] = []
    tasks = [await spawn(one(number)) for number in range(2)]
    await join(*tasks)
    return await pay("pay", ",".join(seen))


async def as_completed() -> Any:
    async def one(number: int) -> Any:
        return await read("read", number)

    tasks = [await spawn(one(number)) for number in range(2)]
    done: list[Task] = []
    while len(done) < 2:
        more = await first(*[task for task in tasks if task not in done])
        for task in more:
            await pay("pay", task.result)
        done += more


async def first_wins() -> Any:
    async def one(number: int) -> Any:
        return await read("read", number)

    tasks = [await spawn(one(number)) for number in range(2)]
    done = list(await first(*tasks))
    await stop(*[task for task in tasks if task not in done])
    await join(*tasks)
    return await pay("pay", ",".join(str(task.result) for task in done))


async def workers() -> Any:
    todo, out = [0, 1, 2], []

    async def work() -> None:
        while todo:
            item = todo.pop(0)
            out.append(await read("read", item))

    tasks = [await spawn(work()) for _ in range(2)]
    await join(*tasks)
    return await pay("pay", ",".join(out))


async def shared_total() -> Any:
    total = 0

    async def work(number: int) -> None:
        nonlocal total
        await read("read", number)
        total = total * 3 + number
        await pay("pay", total)

    await join(*[await spawn(work(number)) for number in (1, 2)])


async def slow_hand_over() -> Any:
    """The result of one task reaches another through a chain of tasks that make no call."""
    seen: list[int] = []

    async def hop() -> None:
        await turn()
        await turn()
        seen.append(1)

    async def one() -> None:
        await read("a")
        await spawn(hop())

    async def two() -> None:
        await read("b")
        await pay("pay", len(seen))

    await join(await spawn(one()), await spawn(two()))


async def made_then_awaited() -> Any:
    calls = [await made(read("read", number)) for number in range(2)]
    await made(pay("never awaited"))

    async def wait(call: object) -> Any:
        return await awaited(call)

    tasks = [await spawn(wait(call)) for call in calls]
    await join(*tasks)
    return await pay("pay", ",".join(task.result for task in tasks))


async def quick_beside_slow() -> Any:
    seen: list[str] = []

    async def one() -> None:
        seen.append(await quick("now"))
        seen.append(await read("read"))

    async def two() -> None:
        await read("other")
        seen.append(await quick("now", 2))
        await pay("pay", len(seen))

    await join(await spawn(one()), await spawn(two()))


async def time_out() -> Any:
    async def limited(number: int) -> Any:
        armed = await timer()
        try:
            out = await read("slow", number)
        except CancelledError:
            if not await calm(armed):
                raise
            return await read("other", number)
        await calm(armed)
        return out

    task = await spawn(limited(1))
    beside = await read("beside")
    await join(task)
    return await pay("pay", f"{beside},{task.result}")


async def time_out_over_payment() -> Any:
    """The timer may strike in the payment, which comes to its end, and then stops the next call."""
    armed = await timer()
    try:
        await pay("pay", 1)
        await pay("pay", 2)
    except CancelledError:
        if not await calm(armed):
            raise
        return await pay("give up")
    await calm(armed)
    return await read("end")


async def aborted_group() -> Any:
    async def bad() -> None:
        await read("bad")

    async def two(number: int) -> None:
        await pay("one", number)
        await pay("two", number)

    others = [await spawn(two(1))]
    failing = await spawn(bad())
    await join(failing)
    await stop(*others)
    await join(*others)
    return await pay("refund")


async def cut_order() -> Any:
    """A timer cuts a read while another outcome waits for its turn."""
    seen: list[str] = []

    async def limited() -> None:
        armed = await timer()
        try:
            await read("slow")
        except CancelledError:
            if not await calm(armed):
                raise
            seen.append("cut")
            return
        seen.append("done")
        await calm(armed)

    async def beside() -> None:
        await read("a")
        await pay("b", ",".join(seen))

    await join(await spawn(limited()), await spawn(beside()))


async def one_approval() -> Any:
    async def ask() -> Any:
        return await approve("transfer", 1)

    async def work() -> Any:
        await pay("pay", 1)
        return await read("read")

    await join(await spawn(ask()), await spawn(work()))
    return await pay("end")


async def two_approvals() -> Any:
    async def ask(number: int) -> Any:
        return await approve("transfer", number)

    await join(*[await spawn(ask(number)) for number in (1, 2)])
    return await pay("end")


async def withdrawn_approval() -> Any:
    async def ask() -> Any:
        return await approve("transfer", 1)

    task = await spawn(ask())
    await read("news")
    await stop(task)
    await join(task)
    return await pay("end", task.error is None)


async def nested() -> Any:
    async def body() -> Any:
        price = await read("price")
        return await pay("inner", price)

    async def outer() -> Any:
        return await tool("order", body)

    task = await spawn(outer())
    await read("beside")
    await join(task)
    return await pay("end", task.result)


async def nested_tasks() -> Any:
    async def body() -> Any:
        seen: list[str] = []

        async def one(number: int) -> None:
            seen.append(await read("read", number))

        await join(*[await spawn(one(number)) for number in range(2)])
        return await pay("inner", ",".join(seen))

    return await tool("order", body)


HONEST: list[Program] = [
    sequence,
    side_by_side,
    as_completed,
    first_wins,
    workers,
    shared_total,
    slow_hand_over,
    made_then_awaited,
    quick_beside_slow,
    time_out,
    time_out_over_payment,
    aborted_group,
    cut_order,
    one_approval,
    two_approvals,
    withdrawn_approval,
    nested,
    nested_tasks,
]

Rows = tuple[RecordRow, ...]


def waits_in(rows: Rows) -> frozenset[str]:
    return frozenset(row.id for row in rows if row.stage is RowStage.BESIDE)


def generations(world: type[World], program: Program, cuts: int, most: int = 400) -> tuple[int, int]:
    """Try a program under all schedules, cut the records at every row, and again; return schedules and records tried.

    Paused attempts go on with all answers given. A program must complete with the same output over its whole record.
    """
    tried: dict[tuple[Rows, frozenset[str]], None] = {}
    schedules = 0
    todo: deque[tuple[Rows, frozenset[str], int]] = deque([((), frozenset(), 0)])
    while todo:
        rows, answers, generation = todo.popleft()
        if (rows, answers) in tried:
            continue
        tried[rows, answers] = None
        ends: dict[Rows, Ended] = {}
        for ended in explore(world, program, rows, attempt=generation + 1, answers=answers):
            schedules += 1
            if ended.how == "diverged":
                raise WrongError(f"{program.__name__} diverged over {rows}: {ended.over}")
            ends[ended.rows] = ended
        for ended in sample(list(ends.values()), most if generation == 0 else most // 20):
            check_whole(world, program, ended, answers)
            if generation < cuts:
                todo += [(ended.rows[:cut], answers, generation + 1) for cut in range(len(ended.rows))]
            if ended.how == "paused":
                todo.append((ended.rows, answers | waits_in(ended.rows), generation))
    return schedules, len(tried)


def sample(ends: list[Ended], most: int) -> list[Ended]:
    """Return at most this many of the ends, spread evenly."""
    step = max(1, len(ends) // most)
    return ends[::step]


def check_whole(world: type[World], program: Program, ended: Ended, answers: frozenset[str]) -> None:
    """Check that the whole record leads to the same end, with nothing begun and no row added."""
    if ended.how != "completed":
        return
    again = next(iter(explore(world, program, ended.rows, attempt=99, answers=answers)))
    if (again.how, again.output, again.rows, again.begun) != ("completed", ended.output, ended.rows, []):
        raise WrongError(f"the whole record leads to {again}")


@pytest.mark.parametrize("program", HONEST, ids=lambda program: program.__name__)
def test_no_schedule_and_no_cut_changes_what_a_program_gets(program: Program) -> None:
    schedules, records = generations(World, program, cuts=2)
    assert schedules >= records > 1


def main() -> None:
    import time

    total = records = 0
    for program in HONEST:
        begin = time.time()
        try:
            schedules, count = generations(World, program, cuts=2)
        except WrongError as error:
            print(program.__name__, "WRONG", str(error)[:1500])
            continue
        total, records = total + schedules, records + count
        print(f"{program.__name__:24} {schedules:8} {count:7} {time.time() - begin:6.1f} s", flush=True)
    print(total, records)


if __name__ == "__main__":
    main()

"""Asyncio programs as people write them, over the calls of `asyncio_runs.Run`."""

from __future__ import annotations

import asyncio
import random
from contextlib import suppress

from tests.unit.runtime.journal.asyncio_runs import Program, Run

CHANCE = random.Random(5)  # noqa: S311 - chance of a test


async def sequence(run: Run) -> str:
    for number in range(4):
        await run.read("read", number)
        await run.pay("pay", number)
    return "done"


async def made_before_awaited(run: Run) -> str:
    calls = [run.read("read", number) for number in range(3)]
    out = await asyncio.gather(*calls)
    return await run.pay("pay", ",".join(out))


async def as_completed(run: Run) -> str:
    async def read(number: int) -> str:
        return await run.read("read", number)

    for next_one in asyncio.as_completed([asyncio.ensure_future(read(number)) for number in range(4)]):
        await run.pay("pay", await next_one)
    return "done"


async def first_completed(run: Run) -> str:
    async def read(number: int) -> str:
        return await run.read("read", number)

    todo = {asyncio.create_task(read(number)) for number in range(5)}
    while todo:
        done, todo = await asyncio.wait(todo, return_when=asyncio.FIRST_COMPLETED)
        await run.pay("batch", ",".join(sorted(task.result() for task in done)))
    return "done"


async def queue(run: Run) -> str:
    todo: asyncio.Queue[int] = asyncio.Queue()
    out: list[str] = []
    for number in range(7):
        todo.put_nowait(number)

    async def work() -> None:
        while not todo.empty():
            number = todo.get_nowait()
            out.append(await run.read("read", number))
            await run.pay("pay", number)

    async with asyncio.TaskGroup() as group:
        for _ in range(3):
            group.create_task(work())
    return await run.pay("end", ",".join(out))


async def semaphore(run: Run) -> str:
    room, total = asyncio.Semaphore(2), 0

    async def work(number: int) -> None:
        nonlocal total
        async with room:
            await run.read("read", number)
            total = total * 3 + number
            await run.pay("pay", total)

    async with asyncio.TaskGroup() as group:
        for number in range(5):
            group.create_task(work(number))
    return str(total)


async def hedge(run: Run) -> str:
    async def read(number: int, copy: int) -> str:
        return await run.read("read", (number, copy))

    for number in range(3):
        tasks = [asyncio.create_task(read(number, copy)) for copy in range(2)]
        done, rest = await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
        for task in rest:
            task.cancel()
        await asyncio.gather(*rest, return_exceptions=True)
        await run.pay("pay", ",".join(sorted(task.result() for task in done)))
    return "done"


async def chain(run: Run) -> str:
    """One task sees the outcome of another through a chain of tasks that make no call."""
    events = [asyncio.Event() for _ in range(4)]
    seen: list[int] = []

    async def hop(number: int) -> None:
        await events[number].wait()
        seen.append(number)
        if number < 3:
            events[number + 1].set()

    hops = [asyncio.create_task(hop(number)) for number in range(4)]

    async def one() -> None:
        await run.read("a")
        events[0].set()

    async def two() -> None:
        await run.read("b")
        await run.pay("c", len(seen))

    await asyncio.gather(one(), two(), *hops)
    return await run.pay("end", len(seen))


async def time_outs(run: Run) -> str:
    async def limited() -> str:
        try:
            async with asyncio.timeout(0.0005):
                return await run.read("slow")
        except TimeoutError:
            return await run.read("other")

    async def read(number: int) -> str:
        return await run.read("read", number)

    out = await asyncio.gather(limited(), read(1), limited(), read(2))
    return await run.pay("pay", ",".join(out))


async def wait_for(run: Run) -> str:
    out: list[str] = []
    for number in range(3):
        try:
            out.append(await asyncio.wait_for(run.read("read", number), 0.0004))
        except TimeoutError:
            out.append(await run.read("other", number))
    return await run.pay("pay", ",".join(out))


async def aborted_group(run: Run) -> str:
    async def bad() -> None:
        await run.read("bad")
        raise ValueError

    async def two(number: int) -> None:
        await run.pay("one", number)
        await run.read("two", number)

    try:
        async with asyncio.TaskGroup() as group:
            group.create_task(two(1))
            group.create_task(bad())
            group.create_task(two(2))
    except* ValueError:
        await run.pay("refund")
    return await run.pay("end")


async def time_out_over_payment(run: Run) -> str:
    """The payment comes to its end; the next call of the task is stopped, if the time is up by then."""
    try:
        async with asyncio.timeout(0.002):
            await run.pay("pay", 1, 0.004)
            await run.pay("pay", 2, 0.004)
    except TimeoutError:
        return await run.pay("give up")
    return await run.pay("end")


async def taken_back(run: Run) -> str:
    """A time-out that strikes in the only payment of its block is taken back."""
    async with asyncio.timeout(0.001):
        await run.pay("pay", 1, 0.003)
    with suppress(ExceptionGroup):
        async with asyncio.TaskGroup() as group:
            group.create_task(_failing(run))
    return await run.pay("end")


async def _failing(run: Run) -> None:
    await run.read("bad")
    raise ValueError


async def stopped_worker(run: Run) -> str:
    ready: asyncio.Queue[int] = asyncio.Queue()

    async def work() -> None:
        while True:
            number = await ready.get()
            await run.pay("pay", number)
            ready.task_done()

    worker = asyncio.create_task(work())
    for number in range(3):
        await run.read("read", number)
        ready.put_nowait(number)
    await ready.join()
    worker.cancel()
    await asyncio.gather(worker, return_exceptions=True)
    return await run.pay("end")


async def nested(run: Run) -> str:
    async def order() -> str:
        async def read(number: int) -> str:
            return await run.read("read", number)

        prices = await asyncio.gather(read(1), read(2))
        return await run.pay("inner", ",".join(prices))

    async def outer() -> str:
        return await run.tool("order", order)

    async def beside() -> str:
        return await run.read("beside")

    out = await asyncio.gather(outer(), beside())
    return await run.pay("end", ",".join(out))


async def background(run: Run) -> str:
    seen: list[str] = []

    async def watch() -> None:
        number = 0
        while number < 3:
            seen.append(await run.read("watch", number))
            number += 1

    watcher = asyncio.create_task(watch())
    for number in range(2):
        await run.pay("pay", (number, len(seen)))
    await watcher
    return await run.pay("end", ",".join(seen))


async def helper_without_calls(run: Run) -> str:
    """A task that makes no call adds up what the only calling task hands it."""
    todo: asyncio.Queue[int] = asyncio.Queue()
    total = 0

    async def add_up() -> None:
        nonlocal total
        while True:
            total += await todo.get()

    helper = asyncio.create_task(add_up())
    for number in (1, 2, 3):
        await run.read("read", number)
        todo.put_nowait(number)
    await run.pay("sum so far", total)
    helper.cancel()
    await asyncio.gather(helper, return_exceptions=True)
    return await run.pay("end", total)


async def quick_calls(run: Run) -> str:
    seen: list[str] = []

    async def work(number: int) -> None:
        seen.append(await run.read("now", number, None))
        await run.read("slow", number)
        seen.append(await run.read("now", number + 10, None))
        await run.pay("pay", (number, len(seen)))

    await asyncio.gather(work(1), work(2), work(3))
    return ",".join(seen)


HONEST: list[Program] = [
    sequence,
    made_before_awaited,
    as_completed,
    first_completed,
    queue,
    semaphore,
    hedge,
    chain,
    time_outs,
    wait_for,
    aborted_group,
    time_out_over_payment,
    taken_back,
    stopped_worker,
    nested,
    background,
    quick_calls,
]


async def approvals(run: Run) -> str:
    async with asyncio.TaskGroup() as group:
        group.create_task(_approve(run, 1))
        group.create_task(_pay(run, 2))
        group.create_task(_approve(run, 3))
    return await run.pay("end")


async def _approve(run: Run, number: int) -> None:
    await run.approve("transfer", number)
    await run.pay("pay", number)


async def _pay(run: Run, number: int) -> None:
    await run.pay("pay", number, 0.002)
    await run.read("read", number)


async def parked_in_semaphore(run: Run) -> str:
    room = asyncio.Semaphore(1)

    async def work(number: int) -> None:
        async with room:
            await run.approve("transfer", number)

    async with asyncio.TaskGroup() as group:
        for number in range(3):
            group.create_task(work(number))
    return await run.pay("end")


async def wait_with_time_out(run: Run) -> str:
    """The time for a wait is up while a sibling works."""

    async def ask() -> str:
        try:
            async with asyncio.timeout(0.002):
                return await run.approve("transfer")
        except TimeoutError:
            return await run.pay("other way")

    async def work() -> str:
        return await run.pay("pay", 1, 0.01)

    out = await asyncio.gather(ask(), work())
    return ",".join(out)


async def effect_in_finally(run: Run) -> str:
    try:
        await run.approve("transfer")
    finally:
        await run.pay("clean up")
    return await run.pay("end")


async def swallows(run: Run) -> str:
    for _ in range(3):
        with suppress(BaseException):
            await run.approve("transfer")
    return await run.pay("end")


async def sleeps_outside(run: Run) -> str:
    async def late() -> str:
        await asyncio.sleep(0.005)
        return await run.pay("late")

    async def ask() -> str:
        return await run.approve("transfer")

    out = await asyncio.gather(late(), ask())
    return ",".join(out)


WAITING: list[Program] = [
    approvals,
    parked_in_semaphore,
    wait_with_time_out,
    effect_in_finally,
    swallows,
    sleeps_outside,
]


async def coin(run: Run) -> None:
    await run.read("read", 0)
    await run.pay("pay a" if CHANCE.random() < 0.5 else "pay b")
    await run.pay("ship")


async def random_arguments(run: Run) -> None:
    async with asyncio.TaskGroup() as group:
        for number in range(3):
            group.create_task(_pay_random(run, number))


async def _pay_random(run: Run, number: int) -> None:
    await run.pay("pay", (number, CHANCE.random()))


async def shuffled(run: Run) -> None:
    numbers = list(range(4))
    CHANCE.shuffle(numbers)
    for number in numbers:
        await run.pay("pay", number)
    await run.pay("end", numbers[0])


async def sometimes_less(run: Run) -> None:
    await run.read("read")
    if CHANCE.random() < 0.5:
        await run.pay("pay")


DISHONEST: list[Program] = [coin, random_arguments, shuffled, sometimes_less]

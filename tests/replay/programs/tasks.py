"""Programs of several tasks: gather, groups, queues, locks, events, background tasks."""

from __future__ import annotations

import asyncio
import random as chance
import time
from uuid import uuid4

from pilotage import IAgentModel
from tests.replay.kit import Shop, program

ITEMS = ("apple", "pear", "plum")


@program()
async def gather_payments(shop: Shop, model: IAgentModel) -> list[str]:
    return await asyncio.gather(*[shop.pay(item) for item in ITEMS])


@program()
async def gather_reads_then_pay(shop: Shop, model: IAgentModel) -> str:
    found = await asyncio.gather(shop.slow("apple", 2), shop.slow("pear", 1), shop.look("plum"))
    return await shop.pay("apple", note=",".join(found))


@program()
async def slow_read_beside_payment(shop: Shop, model: IAgentModel) -> str:
    found, paid = await asyncio.gather(shop.slow("apple", 5), shop.pay("pear"))
    return await shop.ship("pear") + found + paid


@program()
async def group_of_payments(shop: Shop, model: IAgentModel) -> list[str]:
    async with asyncio.TaskGroup() as group:
        tasks = [group.create_task(shop.pay(item)) for item in ITEMS]
    return [task.result() for task in tasks]


@program()
async def group_of_buyers(shop: Shop, model: IAgentModel) -> str:
    async def buy(item: str) -> None:
        await shop.slow(item, len(item))
        await shop.pay(item)
        await shop.ship(item)

    async with asyncio.TaskGroup() as group:
        for item in ITEMS:
            group.create_task(buy(item))
    return await shop.mark("end")


@program(may_diverge="tool:pay#1 tool:pay#2 tool:pay#3")
async def group_with_uuids(shop: Shop, model: IAgentModel) -> str:
    async with asyncio.TaskGroup() as group:
        for item in ITEMS:
            group.create_task(shop.pay(item, note=str(uuid4())))
    return await shop.mark("end")


@program(may_diverge="tool:pay#1")
async def tasks_in_order_of_chance(shop: Shop, model: IAgentModel) -> str:
    items = list(ITEMS)
    chance.shuffle(items)
    total: list[str] = []

    async def buy(item: str) -> None:
        await shop.look(item)
        total.append(item)
        await shop.pay(item, note=str(len(total)))

    await asyncio.gather(*[buy(item) for item in items])
    return ",".join(sorted(total))


@program()
async def as_completed_payments(shop: Shop, model: IAgentModel) -> str:
    reads = [asyncio.ensure_future(shop.slow(item, 6 - len(item))) for item in ITEMS]
    for coming in asyncio.as_completed(reads):
        await shop.pay(await coming)
    return "done"


@program()
async def first_completed_batches(shop: Shop, model: IAgentModel) -> str:
    todo = {asyncio.create_task(shop.slow(item, 6 - len(item))) for item in ITEMS}
    while todo:
        done, todo = await asyncio.wait(todo, return_when=asyncio.FIRST_COMPLETED)
        for found in sorted(task.result() for task in done):
            await shop.pay(found)
    return "done"


@program()
async def first_exception(shop: Shop, model: IAgentModel) -> str:
    tasks = [asyncio.create_task(shop.refuses("apple")), asyncio.create_task(shop.slow("pear", 3))]
    done, todo = await asyncio.wait(tasks, return_when=asyncio.FIRST_EXCEPTION)
    await asyncio.wait(todo or done)
    return await shop.pay("plum", note=str(len(done)))


@program()
async def queue_of_workers(shop: Shop, model: IAgentModel) -> str:
    todo: asyncio.Queue[int] = asyncio.Queue()
    for number in range(5):
        todo.put_nowait(number)
    found: list[str] = []

    async def work() -> None:
        while not todo.empty():
            number = todo.get_nowait()
            found.append(await shop.slow(str(number), 1 + number % 2))
            await shop.pay(str(number))

    async with asyncio.TaskGroup() as group:
        for _ in range(2):
            group.create_task(work())
    return await shop.mark(",".join(sorted(found)))


@program()
async def producer_and_consumer(shop: Shop, model: IAgentModel) -> str:
    ready: asyncio.Queue[str] = asyncio.Queue(1)

    async def consume() -> None:
        while True:
            await shop.pay(await ready.get())
            ready.task_done()

    consumer = asyncio.create_task(consume())
    for item in ITEMS:
        await ready.put(await shop.look(item))
    await ready.join()
    consumer.cancel()
    await asyncio.gather(consumer, return_exceptions=True)
    return await shop.mark("end")


@program()
async def semaphore_and_total(shop: Shop, model: IAgentModel) -> str:
    room, total = asyncio.Semaphore(2), 0

    async def buy(number: int) -> None:
        nonlocal total
        async with room:
            await shop.slow(str(number), 3 - number % 2)
            total = total * 3 + number
            await shop.pay(str(number), note=str(total))

    await asyncio.gather(*[buy(number) for number in range(4)])
    return "done"


@program()
async def lock_around_payments(shop: Shop, model: IAgentModel) -> str:
    lock, bought = asyncio.Lock(), 0

    async def buy(item: str) -> None:
        nonlocal bought
        await shop.look(item)
        async with lock:
            bought += 1
            await shop.pay(item, note=str(bought))

    await asyncio.gather(*[buy(item) for item in ITEMS])
    return str(bought)


@program()
async def chain_of_events(shop: Shop, model: IAgentModel) -> str:
    events = [asyncio.Event() for _ in range(3)]
    seen: list[int] = []

    async def hop(number: int) -> None:
        await events[number].wait()
        seen.append(number)
        if number < 2:
            events[number + 1].set()

    async def one() -> None:
        await shop.slow("apple", 1)
        events[0].set()

    async def two() -> None:
        await shop.slow("pear", 25)
        await shop.pay("pear", note=str(len(seen)))

    await asyncio.gather(one(), two(), *[hop(number) for number in range(3)])
    return await shop.mark("end")


@program(may_diverge="tool:pay#1")
async def helper_without_calls(shop: Shop, model: IAgentModel) -> str:
    """A task that makes no call adds up what the only calling task hands it; it gets other turns of the loop in replay."""
    todo: asyncio.Queue[int] = asyncio.Queue()
    total = 0

    async def add_up() -> None:
        nonlocal total
        while True:
            total += await todo.get()
            todo.task_done()

    helper = asyncio.create_task(add_up())
    for number in (1, 2, 3):
        await shop.slow(str(number), 1)
        todo.put_nowait(number)
    await shop.pay("sum so far", note=str(total))
    await todo.join()
    helper.cancel()
    await asyncio.gather(helper, return_exceptions=True)
    return await shop.mark(str(total))


@program()
async def watcher_beside_payments(shop: Shop, model: IAgentModel) -> str:
    seen: list[str] = []

    async def watch() -> None:
        for number in range(3):
            found = await shop.slow(str(number), 1)
            seen.append(found)

    watcher = asyncio.create_task(watch())
    await shop.pay("apple", note=str(len(seen)))
    await shop.pay("pear", note=str(len(seen)))
    await watcher
    return await shop.mark(",".join(seen))


@program()
async def task_awaited_late(shop: Shop, model: IAgentModel) -> str:
    early = asyncio.create_task(shop.slow("apple", 2))
    await shop.pay("pear")
    await shop.ship("pear")
    return await shop.pay("apple", note=await early)


@program()
async def calls_made_before_they_are_awaited(shop: Shop, model: IAgentModel) -> str:
    calls = [shop.look("apple"), shop.look("pear")]
    paid = await shop.pay("plum")
    found = [await call for call in reversed(calls)]
    return await shop.mark(f"{paid} {found}")


@program()
async def reads_that_return_at_once(shop: Shop, model: IAgentModel) -> str:
    seen: list[str] = []

    async def work(item: str) -> None:
        seen.append(f"{item} {await shop.price(item)}")
        await shop.slow(item, 6 - len(item))
        seen.append(f"{item} {await shop.price(item)}")
        await shop.pay(item, note=str(len(seen)))

    await asyncio.gather(*[work(item) for item in ITEMS])
    return ",".join(sorted(seen))


@program()
async def tasks_with_equal_first_calls(shop: Shop, model: IAgentModel) -> str:
    async def work(item: str) -> str:
        price = await shop.price("same")
        return await shop.pay(item, note=str(price))

    return ",".join(await asyncio.gather(*[work(item) for item in ITEMS]))


@program()
async def tasks_in_tasks(shop: Shop, model: IAgentModel) -> str:
    async def buy(item: str) -> str:
        found, paid = await asyncio.gather(shop.look(item), shop.pay(item))
        return f"{found} {paid}"

    return ",".join(await asyncio.gather(*[buy(item) for item in ITEMS]))


@program()
async def failures_as_values(shop: Shop, model: IAgentModel) -> str:
    ends = await asyncio.gather(shop.refuses("apple"), shop.pay("pear"), return_exceptions=True)
    return await shop.mark(",".join(str(end) for end in ends))


@program(depends_on_time=True, at_most=4)
async def aborted_group(shop: Shop, model: IAgentModel) -> str:
    async def bad() -> None:
        await shop.look("apple")
        raise ValueError("bad")

    async def good(item: str) -> None:
        await shop.slow(item, 20)
        await shop.pay(item)

    try:
        async with asyncio.TaskGroup() as group:
            group.create_task(good("pear"))
            group.create_task(bad())
    except* ValueError:
        await shop.mark("aborted")
    return await shop.pay("plum")


@program()
async def tools_that_call_tools_side_by_side(shop: Shop, model: IAgentModel) -> str:
    return ";".join(await asyncio.gather(shop.order("apple"), shop.order("pear")))


@program()
async def callback_of_a_task(shop: Shop, model: IAgentModel) -> str:
    ended: list[str] = []
    task = asyncio.create_task(shop.slow("apple", 1))
    task.add_done_callback(lambda done: ended.append(done.result()))
    await shop.pay("pear")
    await task
    await asyncio.sleep(0)
    return await shop.pay("apple", note=",".join(ended))


@program(may_diverge="tool:pay#1")
async def tasks_that_begin_with_uuids(shop: Shop, model: IAgentModel) -> str:
    """Tasks are named by their first call: in replay these are others."""

    async def buy(item: str) -> str:
        return await shop.pay(item, note=str(uuid4()))

    return ",".join(await asyncio.gather(buy("apple"), buy("pear")))


@program(may_diverge="tool:pay#1")
async def background_payment_with_a_uuid(shop: Shop, model: IAgentModel) -> str:
    async def buy() -> str:
        return await shop.pay("pear", note=str(uuid4()))

    paying = asyncio.create_task(buy())
    seen = await shop.slow("apple")
    return f"{await paying}; {seen}; {await shop.pay('apple')}"


@program(may_diverge="tool:pay#1")
async def tasks_that_begin_with_the_clock(shop: Shop, model: IAgentModel) -> str:
    async def buy(item: str) -> str:
        return await shop.pay(item, note=str(time.perf_counter_ns()))

    async with asyncio.TaskGroup() as group:
        tasks = [group.create_task(buy(item)) for item in ("apple", "pear")]
    return ",".join(task.result() for task in tasks)

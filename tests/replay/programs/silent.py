"""Programs with waits and tasks of their own: the runtime sees only calls, and must not accuse what it does not see."""

from __future__ import annotations

import asyncio

from pilotage import IAgentModel
from tests.replay.kit import Shop, program


@program()
async def payment_behind_a_sleep_of_its_own(shop: Shop, model: IAgentModel) -> str:
    """The sleep is longer than anything that the call behind it takes."""

    async def later() -> str:
        await asyncio.sleep(1.2)
        return await shop.pay("apple")

    paid, sent = await asyncio.gather(later(), shop.transfer("pear"))
    return f"{paid}; {sent}"


@program()
async def event_of_a_task_without_calls(shop: Shop, model: IAgentModel) -> str:
    ready = asyncio.Event()

    async def helper() -> None:
        await asyncio.sleep(0.003)
        ready.set()

    task = asyncio.create_task(helper())
    first = await shop.pay("apple")
    await ready.wait()
    second = await shop.transfer("pear")
    await task
    return f"{first}; {second}"


@program()
async def sums_by_a_task_without_calls(shop: Shop, model: IAgentModel) -> str:
    """The helper works off a queue; the caller waits for it with `join`."""
    queue: asyncio.Queue[str] = asyncio.Queue()
    seen: list[str] = []

    async def helper() -> None:
        while True:
            seen.append(await queue.get())
            await asyncio.sleep(0)
            queue.task_done()

    task = asyncio.create_task(helper())
    for item in ("apple", "pear", "plum"):
        queue.put_nowait(await shop.pay(item))
    await queue.join()
    task.cancel()
    return f"{seen}; {await shop.transfer('all')}"


@program()
async def lock_shared_with_a_task_without_calls(shop: Shop, model: IAgentModel) -> str:
    lock, log = asyncio.Lock(), list[str]()

    async def helper() -> None:
        for number in range(3):
            async with lock:
                await asyncio.sleep(0.001)
                log.append(f"{number}")

    task = asyncio.create_task(helper())
    for item in ("apple", "pear"):
        async with lock:
            await shop.pay(item)
    await task
    return f"{log}; {await shop.transfer('all')}"


@program(may_diverge="tool:pay#1", at_most=2)
async def progress_of_a_task_without_calls(shop: Shop, model: IAgentModel) -> str:
    """How far the helper has got is in no record: in replay the read returns at once, and the helper has not begun."""
    seen: list[str] = []

    async def helper() -> None:
        seen.append("begun")
        await asyncio.sleep(0.001)
        seen.append("ended")

    task = asyncio.create_task(helper())
    await shop.slow("apple")
    paid = await shop.pay(f"for {seen}")
    await task
    return f"{paid}; {await shop.pay('pear')}"


@program()
async def task_without_calls_that_is_awaited(shop: Shop, model: IAgentModel) -> str:
    """The same, mended: the program waits for what it uses."""
    seen: list[str] = []

    async def helper() -> None:
        seen.append("begun")
        await asyncio.sleep(0.001)
        seen.append("ended")

    task = asyncio.create_task(helper())
    await shop.slow("apple")
    await task
    return f"{await shop.pay(f'for {seen}')}; {await shop.pay('pear')}"


@program()
async def future_set_by_a_timer(shop: Shop, model: IAgentModel) -> str:
    loop = asyncio.get_running_loop()
    rung: asyncio.Future[str] = loop.create_future()
    loop.call_later(0.003, rung.set_result, "rung")
    paid, heard = await asyncio.gather(shop.pay_slowly("apple"), rung)
    return f"{paid}; {heard}; {await shop.transfer('pear')}"


@program()
async def thread_of_its_own(shop: Shop, model: IAgentModel) -> str:
    await shop.pay("apple")
    number = await asyncio.to_thread(sum, range(1000))
    sent, number = await asyncio.gather(shop.transfer("pear"), asyncio.to_thread(sum, range(number)))
    return f"{sent}; {number}"


@program()
async def watchdog_without_calls(shop: Shop, model: IAgentModel) -> str:
    """The watchdog never bites: it is cancelled when the work is done."""

    async def watch(work: asyncio.Task[str]) -> None:
        await asyncio.sleep(30)
        work.cancel()

    work = asyncio.create_task(shop.transfer("apple"))
    watching = asyncio.create_task(watch(work))
    try:
        return f"{await work}; {await shop.pay('pear')}"
    finally:
        watching.cancel()

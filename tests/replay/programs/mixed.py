"""Programs that mix what the others try alone: as people write them when nothing about replay is on their mind."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, aclosing, asynccontextmanager, suppress
from functools import partial

from pilotage import IAgentModel, ModelMessage, ModelRequest
from pilotage.errors import ToolError
from pilotage.runtime import sleep, step, timeout, uid
from tests.replay.kit import Shop, SoldOut, program

DONE = None
"""The sentinel of queues."""


def question(words: str) -> ModelRequest:
    return ModelRequest([ModelMessage.user(words)])


@program()
async def queue_with_a_sentinel(shop: Shop, model: IAgentModel) -> str:
    queue: asyncio.Queue[str | None] = asyncio.Queue(maxsize=1)
    paid: list[str] = []

    async def producer() -> None:
        for item in ("apple", "pear", "plum"):
            await queue.put(f"{item} {await shop.price(item)}")
        await queue.put(DONE)

    async def consumer() -> None:
        while (item := await queue.get()) is not DONE:
            paid.append(await shop.pay_slowly(item, milliseconds=1))

    async with asyncio.TaskGroup() as group:
        group.create_task(producer())
        group.create_task(consumer())
    return ";".join(paid)


@program(depends_on_time=True, at_least=1)
async def first_exception_of_several(shop: Shop, model: IAgentModel) -> str:
    tasks = [
        asyncio.create_task(shop.pay_slowly("apple", milliseconds=1)),
        asyncio.create_task(shop.offer("pear")),
        asyncio.create_task(shop.slow("plum", 60)),
    ]
    _, pending = await asyncio.wait(tasks, return_when=asyncio.FIRST_EXCEPTION)
    for task in pending:
        task.cancel()
    ended = await asyncio.gather(*tasks, return_exceptions=True)
    failed = [each for each in ended if isinstance(each, SoldOut)]
    return f"{len(failed)}; {await shop.transfer('pear')}"


@program()
async def shielded_payment_in_a_time_out(shop: Shop, model: IAgentModel) -> str:
    work = asyncio.ensure_future(shop.pay_slowly("apple", milliseconds=8))
    try:
        async with asyncio.timeout(0.002):
            await asyncio.shield(work)
    except TimeoutError:
        note = "late"
    else:
        note = "in time"
    paid = await work
    return f"{paid and note and 'paid'}; {await shop.transfer('pear')}"


@program()
async def stack_of_contexts(shop: Shop, model: IAgentModel) -> str:
    @asynccontextmanager
    async def reserved(item: str) -> AsyncIterator[str]:
        marked = await shop.mark(f"reserve {item}")
        try:
            yield marked
        finally:
            await shop.mark(f"free {item}")

    async with AsyncExitStack() as stack:
        for item in ("apple", "pear"):
            await stack.enter_async_context(reserved(item))
        stack.push_async_callback(shop.pay, "callback")
        return await shop.transfer("both")


@program()
async def generator_left_early(shop: Shop, model: IAgentModel) -> str:
    async def offers() -> AsyncIterator[str]:
        try:
            for item in ("apple", "pear", "plum"):
                yield f"{item} {await shop.price(item)}"
        finally:
            await shop.mark("closed")

    async with aclosing(offers()) as items:
        async for item in items:
            await shop.pay(item)
            if item.startswith("pear"):
                break
    return await shop.transfer("all")


@program()
async def tools_as_partials(shop: Shop, model: IAgentModel) -> str:
    todo = {"pay": partial(shop.pay, "apple", note="gift"), "mark": partial(shop.mark, item="pear")}
    results = {name: await act() for name, act in todo.items()}
    sent, shipped = await asyncio.gather(
        *map(asyncio.ensure_future, (shop.transfer("plum"), shop.ship("fig")))
    )
    return f"{sorted(results)}; {sent}; {shipped}"


@program()
async def retries_with_an_exception_of_its_own(shop: Shop, model: IAgentModel) -> str:
    class NotYet(Exception):  # noqa: N818 - as people name them
        pass

    async def attempt(number: int) -> str:
        try:
            await shop.offer("pear" if number < 2 else "apple")
        except SoldOut as error:
            raise NotYet(str(error.instead)) from error
        return await shop.pay(f"offer {number}")

    log: list[str] = []
    for number in range(4):
        try:
            async with asyncio.timeout(60):
                return f"{await attempt(number)}; {log}; {await shop.transfer('apple')}"
        except NotYet as error:
            log.append(f"{error}")
            await sleep(0.001)
    return "never"


@program()
async def group_of_groups(shop: Shop, model: IAgentModel) -> str:
    async def pair(one: str, other: str) -> str:
        async with asyncio.TaskGroup() as group:
            first = group.create_task(shop.pay_slowly(one, milliseconds=2))
            second = group.create_task(shop.look(other))
        return f"{first.result()}, {second.result()}"

    async with asyncio.TaskGroup() as group:
        pairs = [group.create_task(pair(f"{n} left", f"{n} right")) for n in "ab"]
        sent = group.create_task(shop.transfer("c"))
    return f"{[each.result() for each in pairs]}; {sent.result()}"


@program(depends_on_time=True, at_least=1)
async def group_that_fails_beside_an_approval(shop: Shop, model: IAgentModel) -> str:
    async def failing() -> None:
        await shop.slow("pear")
        await shop.refuses("pear")

    try:
        async with asyncio.TaskGroup() as group:
            group.create_task(failing())
            group.create_task(shop.pay_slowly("apple", milliseconds=1))
    except* ToolError as errors:
        count = len(errors.exceptions)
    return f"{count}; {await shop.transfer('apple')}"


@program(replies=("one two three", "yes"))
async def stream_left_early_beside_payments(shop: Shop, model: IAgentModel) -> str:
    async def read() -> str:
        text = ""
        async with aclosing(model.stream(question("Count"))) as events:
            async for event in events:
                text += event.token_delta or ""
                if text:
                    break
        return text[:3]

    paid, text = await asyncio.gather(shop.pay_slowly("apple", milliseconds=1), read())
    return f"{paid}; {text}; {await shop.transfer('pear')}"


@program()
async def nested_tools_in_a_time_out_of_the_runtime(shop: Shop, model: IAgentModel) -> str:
    async with timeout(30):
        bought = await shop.buy_arranged("apple")
        async with timeout(20):
            sent = await shop.order_with_approval("pear")
    return f"{bought}; {sent}"


@program()
async def semaphore_around_orders_and_an_approval(shop: Shop, model: IAgentModel) -> str:
    room = asyncio.Semaphore(2)

    async def act(item: str) -> str:
        async with room:
            return await (shop.transfer(item) if item == "b" else shop.order(item))

    return ";".join(await asyncio.gather(*map(act, "abc")))


@program()
async def condition_between_tasks(shop: Shop, model: IAgentModel) -> str:
    changed, stock = asyncio.Condition(), list[str]()

    async def seller() -> None:
        for item in ("apple", "pear"):
            found = await shop.slow(item, 1)
            async with changed:
                stock.append(found)
                changed.notify_all()

    async def buyer(number: int) -> str:
        async with changed:
            await changed.wait_for(lambda: len(stock) > number)
        return await shop.pay(f"{number} {stock[number]}")

    _, *paid = await asyncio.gather(seller(), buyer(0), buyer(1))
    return f"{paid}; {await shop.transfer('all')}"


@program()
async def results_as_they_come_with_a_limit(shop: Shop, model: IAgentModel) -> str:
    looks = [shop.slow("apple", 1), shop.slow("pear", 2), shop.slow("plum", 3)]
    paid = [await shop.pay(await each) for each in asyncio.as_completed(looks, timeout=20)]
    return f"{sorted(paid)}; {await shop.transfer('all')}"


@program()
async def step_that_calls_tools_and_cleans_up(shop: Shop, model: IAgentModel) -> str:
    async def act() -> str:
        try:
            return f"{await shop.mark('draft')}; {await shop.look('draft')}"
        finally:
            await shop.mark("draft closed")

    number = await uid()
    drafted = await step("draft", act)
    return f"{drafted}; {await shop.transfer('draft')}; {len(number)}"


@program(depends_on_time=True, at_least=2)
async def worker_that_is_told_to_stop(shop: Shop, model: IAgentModel) -> str:
    stop, seen = asyncio.Event(), list[str]()

    async def worker() -> None:
        number = 0
        while not stop.is_set():
            number += 1
            seen.append(await shop.look(f"{number}"))
            if number == 3:
                await stop.wait()

    working = asyncio.create_task(worker())
    paid = await shop.pay_slowly("apple")
    sent = await shop.transfer("pear")
    stop.set()
    await working
    return f"{paid}; {sent}; {len(seen)}"


@program()
async def cancelled_worker_that_settles_its_account(shop: Shop, model: IAgentModel) -> str:
    began = asyncio.Event()

    async def worker() -> None:
        try:
            await shop.pay("deposit")
            began.set()
            await sleep(3600)
        finally:
            await shop.mark("account settled")

    working = asyncio.create_task(worker())
    await began.wait()
    sent = await shop.transfer("apple")
    working.cancel()
    with suppress(asyncio.CancelledError):
        await working
    return sent

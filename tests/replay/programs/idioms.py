"""Idioms of asyncio that the other programs leave out: actors, barriers, limiters, shared calls, tasks kept in sets."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterable
from contextlib import suppress
from contextvars import ContextVar, copy_context
from typing import TypeVar

from pilotage import IAgentModel
from pilotage.errors import ToolError
from pilotage.runtime import uid
from tests.replay.kit import LONG, Shop, program

T = TypeVar("T")
buyer = ContextVar("buyer", default="none")


async def one_by_one(items: Iterable[T]) -> AsyncIterator[T]:
    for each in items:
        yield each


@program()
async def context_variables_of_tasks(shop: Shop, model: IAgentModel) -> str:
    async def buy(name: str) -> str:
        buyer.set(name)
        await shop.look(name)
        return await shop.pay(buyer.get())

    got = await asyncio.gather(*[asyncio.create_task(buy(n), context=copy_context()) for n in "abc"])
    return f"{got}; {await shop.transfer(buyer.get())}"


@program()
async def call_shared_by_tasks(shop: Shop, model: IAgentModel) -> str:
    cache: dict[str, asyncio.Future[str]] = {}

    def once(item: str) -> asyncio.Future[str]:
        if item not in cache:
            cache[item] = asyncio.ensure_future(shop.pay_slowly(item, milliseconds=2))
        return cache[item]

    async def worker(n: int) -> str:
        await shop.slow(f"{n}", n)
        return await once("apple")

    got = await asyncio.gather(*[worker(n) for n in range(3)])
    return f"{got}; {await shop.transfer('pear')}"


@program()
async def barrier_between_tasks(shop: Shop, model: IAgentModel) -> str:
    barrier = asyncio.Barrier(3)

    async def party(n: int) -> str:
        first = await shop.slow(f"{n}", 3 - n)
        await barrier.wait()
        paid = await shop.pay(f"{n}")
        await barrier.wait()
        return f"{first} {paid}"

    got = await asyncio.gather(*[party(n) for n in range(3)])
    return f"{got}; {await shop.transfer('pear')}"


@program()
async def generator_left_to_the_collector(shop: Shop, model: IAgentModel) -> str:
    async def items() -> AsyncIterator[str]:
        for name in ("a", "b", "c"):
            yield await shop.pay(name)

    async for paid in items():
        if "b" in paid:
            break
    return f"{await shop.transfer('pear')}"


@program()
async def actor_with_futures(shop: Shop, model: IAgentModel) -> str:
    box: asyncio.Queue[tuple[str, asyncio.Future[str]] | None] = asyncio.Queue()

    async def actor() -> None:
        while (mail := await box.get()) is not None:
            item, reply = mail
            try:
                reply.set_result(await shop.pay_slowly(item, milliseconds=1))
            except ToolError as error:
                reply.set_exception(error)

    async def ask(item: str) -> str:
        reply: asyncio.Future[str] = asyncio.get_running_loop().create_future()
        await box.put((item, reply))
        return await reply

    running = asyncio.create_task(actor())
    got = await asyncio.gather(ask("a"), ask("b"), shop.transfer("c"), ask("d"))
    await box.put(None)
    await running
    return f"{got}"


@program()
async def polls_a_task(shop: Shop, model: IAgentModel) -> str:
    task = asyncio.create_task(shop.pay_slowly("apple", milliseconds=4))
    while not task.done():  # noqa: ASYNC110 - as people write it
        await asyncio.sleep(0.001)
    return f"{task.result()}; {await shop.transfer('pear')}"


@program()
async def timer_that_begins_a_task(shop: Shop, model: IAgentModel) -> str:
    loop, made = asyncio.get_running_loop(), asyncio.Event()
    tasks: list[asyncio.Task[str]] = []

    def begin() -> None:
        tasks.append(loop.create_task(shop.pay("later")))
        made.set()

    loop.call_later(0.002, begin)
    first = await shop.pay("first")
    await made.wait()
    return f"{first}; {await tasks[0]}; {await shop.transfer('pear')}"


@program(depends_on_time=True, at_least=2)
async def cancelled_gather_that_undoes(shop: Shop, model: IAgentModel) -> str:
    async def inner(n: int) -> str:
        try:
            return await shop.slow(f"{n}", 50)
        except asyncio.CancelledError:
            await shop.mark(f"undo {n}")
            raise

    outer = asyncio.gather(inner(1), inner(2))
    await shop.pay("before")
    note = "too late"
    if outer.cancel():
        with suppress(asyncio.CancelledError):
            await outer
        note = "stopped"
    return f"{note}; {await shop.transfer('pear')}"


@program()
async def tasks_kept_in_a_set(shop: Shop, model: IAgentModel) -> str:
    done: list[str] = []

    async def background(n: int) -> None:
        done.append(await shop.pay(f"{n}"))

    keep = {asyncio.create_task(background(n)) for n in range(3)}
    for task in list(keep):
        task.add_done_callback(keep.discard)
    got = await shop.transfer("pear")
    while keep:  # noqa: ASYNC110 - as people write it
        await asyncio.sleep(0)
    return f"{got}; {sorted(done)}"


@program()
async def threads_between_calls(shop: Shop, model: IAgentModel) -> str:
    async def worker(n: int) -> str:
        seen = await shop.look(f"{n}")
        digest = await asyncio.to_thread(seen.upper)
        return await shop.pay(digest)

    got = await asyncio.gather(*[worker(n) for n in range(3)])
    return f"{got}; {await shop.transfer('pear')}"


@program()
async def task_awaited_twice(shop: Shop, model: IAgentModel) -> str:
    task = asyncio.ensure_future(shop.pay_slowly("apple", milliseconds=1))

    async def wait() -> str:
        return await task + await shop.look("x")

    got = await asyncio.gather(wait(), wait(), task)
    return f"{got}; {await shop.transfer('pear')}"


@program()
async def rate_limited_payments(shop: Shop, model: IAgentModel) -> str:
    loop, room = asyncio.get_running_loop(), asyncio.Semaphore(2)

    async def limited(n: int) -> str:
        await room.acquire()
        try:
            return await shop.pay(f"{n}")
        finally:
            loop.call_later(0.001, room.release)

    got = await asyncio.gather(*[limited(n) for n in range(5)])
    return f"{got}; {await shop.transfer('pear')}"


@program()
async def fees_of_cancelled_siblings(shop: Shop, model: IAgentModel) -> str:
    async def careful(n: int) -> str:
        try:
            await shop.slow(f"{n}", LONG)
            return "never"
        finally:
            await shop.pay(f"fee {n}")

    try:
        async with asyncio.TaskGroup() as group:
            for n in range(2):
                group.create_task(careful(n))
            await shop.pay("first")
            raise RuntimeError("stop")
    except* RuntimeError:
        pass
    return await shop.transfer("pear")


@program()
async def comprehensions(shop: Shop, model: IAgentModel) -> str:
    prices = {item: await shop.price(item) for item in ("a", "b")}
    ids = [await uid() for _ in range(2)]
    paid = [await shop.pay(f"{item} {price * 2}") async for item, price in one_by_one(prices.items())]
    return f"{paid}; {len(ids)}; {await shop.transfer('pear')}"

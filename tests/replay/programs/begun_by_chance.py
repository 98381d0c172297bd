"""Tasks that begin in another order in every attempt: `asyncio.as_completed` puts coroutines into a set.

The first call of most of them has no arguments: only what their coroutines were given says which is which.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import dataclass

from pilotage import IAgentModel, ModelMessage, ModelRequest
from pilotage.runtime import changed, sleep, step, timeout, uid
from tests.replay.kit import Shop, program

Working = Callable[[int], Awaitable[str]]


async def in_any_order(work: Working) -> str:
    """Let four tasks work, and return what they say by their numbers."""
    return ", ".join(sorted([await each for each in asyncio.as_completed([work(n) for n in range(4)])]))


@program()
async def any_order_of_steps(shop: Shop, model: IAgentModel) -> str:
    """A step has no arguments: another task's result would be paid for."""

    async def work(number: int) -> str:
        return f"{number}: {await step('fetch', lambda: number, returns=int)}"

    fetched = await in_any_order(work)
    return f"{await shop.pay(fetched)}; {await shop.transfer('all')}"


@program(replies=tuple("abcdefghijkl"), depends_on_time=True)
async def any_order_of_questions(shop: Shop, model: IAgentModel) -> str:
    async def work(number: int) -> str:
        reply = await model.complete(ModelRequest([ModelMessage.user(f"question {number}")]))
        return f"{number}: {reply.content}"

    answers = await in_any_order(work)
    return f"{await shop.pay(answers)}; {await shop.transfer('all')}"


@program()
async def any_order_of_sleeps(shop: Shop, model: IAgentModel) -> str:
    async def work(number: int) -> str:
        await sleep(0.001 * (number + 1))
        return await shop.pay(f"{number}")

    return f"{await in_any_order(work)}; {await shop.transfer('all')}"


@program()
async def any_order_of_time_limits(shop: Shop, model: IAgentModel) -> str:
    async def work(number: int) -> str:
        async with timeout(60):
            return await shop.pay(f"{number}")

    return f"{await in_any_order(work)}; {await shop.transfer('all')}"


@program()
async def any_order_of_ids(shop: Shop, model: IAgentModel) -> str:
    async def work(number: int) -> str:
        await uid()
        return await shop.pay(f"{number}")

    return f"{await in_any_order(work)}; {await shop.transfer('all')}"


@program()
async def any_order_of_gates(shop: Shop, model: IAgentModel) -> str:
    async def work(number: int) -> str:
        if await changed("look first"):
            await shop.look("shop")
        return await shop.pay(f"{number}")

    return f"{await in_any_order(work)}; {await shop.transfer('all')}"


@program()
async def any_order_of_equal_calls(shop: Shop, model: IAgentModel) -> str:
    async def work(number: int) -> str:
        await shop.look("shop")
        return await shop.pay(f"{await step('fetch', lambda: number, returns=int)}")

    return f"{await in_any_order(work)}; {await shop.transfer('all')}"


@dataclass(frozen=True)
class Order:
    number: int
    items: tuple[str, ...]


@program()
async def any_order_of_orders(shop: Shop, model: IAgentModel) -> str:
    """What a coroutine waits for is known as well, and a value object by its fields."""

    async def work(order: Order) -> str:
        return await shop.pay(f"{order.items} {await step('fetch', lambda: order.number, returns=int)}")

    async def patient(number: int, working: Awaitable[str]) -> str:
        return f"{number}: {await working}"

    orders = [Order(number, ("apple", f"pear {number}")) for number in range(3)]
    waiting = [patient(len(order.items), work(order)) for order in orders]
    done = sorted([await each for each in asyncio.as_completed(waiting)])
    return f"{done}; {await shop.transfer('all')}"

"""Changes that people make without thinking of replay: wrapping calls, cleaning up, retrying, returning early."""

from __future__ import annotations

import asyncio
from contextlib import AsyncExitStack
from functools import partial

from pilotage import IAgentModel
from pilotage.errors import ToolError
from tests.replay.kit import Shop
from tests.replay.releases import Diverges, GoesOn, change, written

EFFECTS = "mark begin, pay apple, ship apple"
SENT = GoesOn("pay apple done; ship apple done", EFFECTS)
ANSWERED = Diverges("run/result#1")


async def first(shop: Shop, model: IAgentModel) -> str:
    await shop.mark("begin")
    paid = await shop.pay("apple")
    return f"{paid}; {await shop.ship('apple')}"


FIRST = written(first)


async def in_a_time_out(shop: Shop, model: IAgentModel) -> str:
    async with asyncio.timeout(30):
        return await first(shop, model)


async def shielded(shop: Shop, model: IAgentModel) -> str:
    await shop.mark("begin")
    paid = await asyncio.shield(shop.pay("apple"))
    return f"{paid}; {await shop.ship('apple')}"


async def in_a_gather(shop: Shop, model: IAgentModel) -> str:
    await shop.mark("begin")
    (paid,) = await asyncio.gather(shop.pay("apple"))
    return f"{paid}; {await shop.ship('apple')}"


async def as_a_partial(shop: Shop, model: IAgentModel) -> str:
    await shop.mark("begin")
    pay = partial(shop.pay, item="apple")
    return f"{await pay()}; {await shop.ship(item='apple')}"


async def in_a_retry_loop(shop: Shop, model: IAgentModel) -> str:
    await shop.mark("begin")
    for _ in range(3):
        try:
            paid = await shop.pay("apple")
            break
        except ToolError:
            await asyncio.sleep(0.001)
    return f"{paid}; {await shop.ship('apple')}"


async def in_a_group(shop: Shop, model: IAgentModel) -> str:
    try:
        async with asyncio.TaskGroup() as group:
            task = group.create_task(first(shop, model))
    except* ToolError as errors:
        raise errors.exceptions[0] from None
    return task.result()


async def beside_a_helper(shop: Shop, model: IAgentModel) -> str:
    helper = asyncio.create_task(asyncio.sleep(0))
    answer = await first(shop, model)
    await helper
    return answer


async def with_clean_up(shop: Shop, model: IAgentModel) -> str:
    async with AsyncExitStack() as stack:
        stack.push_async_callback(shop.mark, "end")
        return await first(shop, model)


async def with_preparation(shop: Shop, model: IAgentModel) -> str:
    await shop.mark("begin")
    await shop.mark("prepared")
    paid = await shop.pay("apple")
    return f"{paid}; {await shop.ship('apple')}"


async def in_other_words(shop: Shop, model: IAgentModel) -> str:
    return f"done: {await first(shop, model)}"


async def with_a_last_look(shop: Shop, model: IAgentModel) -> str:
    answer = await first(shop, model)
    await shop.look("apple")
    return answer


async def by_another_tool(shop: Shop, model: IAgentModel) -> str:
    await shop.mark("begin")
    ordered = await shop.order("apple")
    return ordered.replace(", ", "; ")


async def returns_early(shop: Shop, model: IAgentModel) -> str:
    await shop.mark("begin")
    return await shop.pay("apple")


for name, body in {
    "a program gets a time-out of asyncio": in_a_time_out,
    "a call is shielded": shielded,
    "a call is put into a gather of one": in_a_gather,
    "a call becomes a partial with keywords": as_a_partial,
    "a call is put into a loop of retries": in_a_retry_loop,
    "a helper without calls is added": beside_a_helper,
}.items():
    change(name, FIRST, written(body), *[SENT] * 4)

NO_BRANCH = Diverges("run/tool:mark#1")
change("a program is put into a group of tasks", FIRST, written(in_a_group), *[NO_BRANCH] * 4)
WITH_END = GoesOn(SENT.output, f"{EFFECTS}, mark end")
change("clean-up is added", FIRST, written(with_clean_up), *[WITH_END] * 3, ANSWERED)
PREPARED = Diverges("run/tool:mark#2")
change(
    "a preparation is added",
    FIRST,
    written(with_preparation),
    GoesOn(SENT.output, "mark begin, mark prepared, pay apple, ship apple"),
    *[PREPARED] * 3,
)
change(
    "an answer gets other words",
    FIRST,
    written(in_other_words),
    *[GoesOn(f"done: {SENT.output}", EFFECTS)] * 3,
    Diverges("run/result#1/approval"),
)
change("a last look is added", FIRST, written(with_a_last_look), *[SENT] * 3, ANSWERED)
ORDER = Diverges("run/tool:order#1")
change("a payment is left to another tool", FIRST, written(by_another_tool), SENT, *[ORDER] * 3)
SHIP = Diverges("run/tool:ship#1")
PAID = GoesOn("pay apple done", "mark begin, pay apple")
change("a program returns early", FIRST, written(returns_early), PAID, PAID, SHIP, SHIP)

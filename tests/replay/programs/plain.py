"""Programs of one task: sequences, branches, errors, recursion, tools that call tools."""

from __future__ import annotations

import asyncio
import random as chance
import time
from decimal import Decimal
from uuid import uuid4

from pilotage import IAgentModel
from pilotage.errors import ToolError
from pilotage.runtime import now, random, step, uid
from tests.replay.kit import OutOfStock, Shop, SoldOut, program


@program()
async def in_order(shop: Shop, model: IAgentModel) -> str:
    price = await shop.price("apple")
    await shop.pay("apple", note=str(price))
    return await shop.ship("apple")


@program()
async def loop_of_payments(shop: Shop, model: IAgentModel) -> list[str]:
    return [await shop.pay(item) for item in ("apple", "pear", "plum")]


@program()
async def reads_only(shop: Shop, model: IAgentModel) -> str:
    return f"{await shop.price('apple')} {await shop.look('apple')} {await shop.slow('apple')}"


@program()
async def branch_on_a_result(shop: Shop, model: IAgentModel) -> str:
    if await shop.price("apple") > 10:
        return await shop.pay("apple")
    return await shop.ship("apple")


@program()
async def branch_on_recorded_chance(shop: Shop, model: IAgentModel) -> str:
    if await random() < 0.5:
        await shop.pay("apple")
    else:
        await shop.pay("apple", note="the other way")
    return await shop.mark("end")


@program()
async def recorded_id_as_argument(shop: Shop, model: IAgentModel) -> str:
    return await shop.pay("apple", note=await uid())


@program()
async def recorded_time_as_argument(shop: Shop, model: IAgentModel) -> str:
    return await shop.pay("apple", note=(await now()).isoformat())


@program(may_diverge="tool:pay#1 tool:ship#1")
async def branch_on_chance(shop: Shop, model: IAgentModel) -> str:
    await shop.price("apple")
    if chance.random() < 0.5:  # noqa: S311 - on purpose
        await shop.pay("apple")
    else:
        await shop.ship("apple")
    return await shop.mark("end")


@program(may_diverge="tool:pay#1")
async def uuid_as_argument(shop: Shop, model: IAgentModel) -> str:
    await shop.price("apple")
    return await shop.pay("apple", note=str(uuid4()))


@program(may_diverge="tool:pay#1")
async def clock_as_argument(shop: Shop, model: IAgentModel) -> str:
    await shop.pay("apple", note=str(time.time_ns()))
    return await shop.ship("apple")


@program(may_diverge="tool:pay#2 tool:pay#3 result#1", at_most=3)
async def number_of_calls_by_chance(shop: Shop, model: IAgentModel) -> str:
    for item in ("apple", "pear", "plum"):
        await shop.pay(item)
        if chance.random() < 0.3:  # noqa: S311 - on purpose
            break
    return "done"


@program(may_diverge="tool:pay#1 tool:pay#2")
async def order_by_chance(shop: Shop, model: IAgentModel) -> str:
    items = ["apple", "pear", "plum"]
    chance.shuffle(items)
    for item in items:
        await shop.pay(item)
    return "done"


@program()
async def catches_a_failure(shop: Shop, model: IAgentModel) -> str:
    try:
        await shop.refuses("apple")
    except ToolError as error:
        return await shop.pay("pear", note=str(error))
    return "never"


@program()
async def catches_an_error_of_python(shop: Shop, model: IAgentModel) -> str:
    try:
        await shop.breaks("apple")
    except ToolError as error:
        return await shop.pay("pear", note=str(error))
    return "never"


@program()
async def catches_an_error_by_its_class(shop: Shop, model: IAgentModel) -> str:
    try:
        await shop.stock("pear")
    except OutOfStock:
        await shop.pay("apple")
    except ToolError:
        await shop.pay("plum")
    return await shop.ship("apple")


@program()
async def looks_for_the_cause_of_an_error(shop: Shop, model: IAgentModel) -> str:
    try:
        await shop.breaks("apple")
    except ToolError as error:
        if isinstance(error.__cause__ or error.__context__, ValueError):
            return await shop.pay("pear")
    return await shop.ship("pear")


@program()
async def catches_a_declared_error(shop: Shop, model: IAgentModel) -> str:
    try:
        await shop.offer("pear")
    except SoldOut as error:
        await shop.pay("apple", note=str(error.instead * 2))
    return await shop.ship("apple")


def _sold_out() -> str:
    raise SoldOut("plum", Decimal("1.50"))


@program()
async def catches_a_declared_error_of_a_step(shop: Shop, model: IAgentModel) -> str:
    try:
        await step("offer", _sold_out, errors=[SoldOut])
    except SoldOut as error:
        await shop.pay("apple", note=str(error.instead * 2))
    return await shop.ship("apple")


class _TooDearError(Exception):
    pass


@program()
async def error_of_its_own(shop: Shop, model: IAgentModel) -> str:
    async def buy(item: str) -> str:
        if await shop.price(item) > 10:
            raise _TooDearError(item)
        return await shop.pay(item)

    try:
        return await buy("apple")
    except _TooDearError:
        return await shop.mark("too dear")
    finally:
        await shop.ship("bill")


@program()
async def tries_again(shop: Shop, model: IAgentModel) -> str:
    for attempt in range(3):
        try:
            await shop.refuses("apple")
        except ToolError:
            await shop.mark(f"attempt {attempt}")
    return await shop.pay("apple")


@program()
async def steps(shop: Shop, model: IAgentModel) -> str:
    sent = await step("mail", lambda: shop.process.act("mail", "step:mail#1"))
    return await shop.pay("apple", note=sent)


@program()
async def steps_of_equal_names(shop: Shop, model: IAgentModel) -> str:
    for number in range(3):
        await step("mail", lambda: shop.process.act(f"mail {number}", f"step:mail#{number + 1}"))  # noqa: B023
    return await shop.pay("apple")


@program()
async def recursion(shop: Shop, model: IAgentModel) -> int:
    async def count(depth: int) -> int:
        await shop.look(f"level {depth}")
        if depth == 0:
            await shop.pay("leaf")
            return 1
        return 1 + await count(depth - 1)

    return await count(3)


@program()
async def tool_that_calls_tools(shop: Shop, model: IAgentModel) -> str:
    return await shop.order("apple")


@program()
async def tools_that_call_tools_twice(shop: Shop, model: IAgentModel) -> str:
    first = await shop.order("apple")
    return f"{first}; {await shop.order('pear')}"


@program()
async def every_kind_of_tool(shop: Shop, model: IAgentModel) -> str:
    price = await shop.price("apple")
    await shop.mark("apple")
    await shop.pay("apple", note=str(price))
    await shop.ship("apple")
    await step("mail", lambda: shop.process.act("mail", "step:mail#1"))
    return await shop.transfer("apple")


@program()
async def effect_in_finally(shop: Shop, model: IAgentModel) -> str:
    try:
        return await shop.pay("apple")
    finally:
        await shop.mark("end")


@program(may_diverge="tool:pay#1")
async def two_payments_in_order_of_chance(shop: Shop, model: IAgentModel) -> str:
    first, second = chance.sample(["apple", "pear"], 2)
    await shop.pay(first)
    await shop.pay(second)
    return await shop.mark("end")


@program(may_diverge="tool:ship#1 tool:ship#2")
async def shipping_of_a_shuffled_basket(shop: Shop, model: IAgentModel) -> str:
    basket = ["apple", "pear", "plum"]
    chance.shuffle(basket)
    shipped = [await shop.ship(item) for item in basket]
    return await shop.pay("all", note=str(len(shipped)))


@program(may_diverge="tool:pay#1", at_least=2)
async def returns_early_if_it_sees_its_own_effect(shop: Shop, model: IAgentModel) -> str:
    """Looks at the outside without a call: in replay its payment is already there."""
    if shop.process.world.done["pay apple"]:
        return "already paid"
    await shop.pay("apple")
    return await shop.ship("apple")


@program(may_diverge="tool:pay#1")
async def refuses_if_it_sees_its_own_effect(shop: Shop, model: IAgentModel) -> str:
    if shop.process.world.done["pay apple"]:
        raise ValueError("somebody has paid")
    await shop.pay("apple")
    return await shop.ship("apple")


@program(may_diverge="tool:pay#1", at_least=2)
async def task_that_returns_early_if_it_sees_its_own_effect(shop: Shop, model: IAgentModel) -> str:
    async def buy() -> None:
        if not shop.process.world.done["pay apple"]:
            await shop.pay("apple")
            await shop.ship("apple")

    async with asyncio.TaskGroup() as group:
        group.create_task(buy())
    return "bought"

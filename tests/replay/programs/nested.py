"""Programs whose tools call tools: a crash inside of them leads to one question, and a pause to none."""

from __future__ import annotations

import asyncio

from pilotage import IAgentModel
from tests.replay.kit import Shop, program


@program()
async def tools_three_deep(shop: Shop, model: IAgentModel) -> str:
    return await shop.buy(["apple", "pear"])


@program()
async def tools_three_deep_between_others(shop: Shop, model: IAgentModel) -> str:
    await shop.pay("stamp")
    bought = await shop.buy(["apple"])
    return f"{bought}; {await shop.transfer('stamp')}"


@program()
async def payments_at_once_inside_a_tool(shop: Shop, model: IAgentModel) -> str:
    return await shop.buy_at_once(["apple", "pear", "plum"])


@program()
async def orders_at_once_inside_a_tool(shop: Shop, model: IAgentModel) -> str:
    return await shop.order_at_once(["apple", "pear"])


@program()
async def repeatable_tool_around_others(shop: Shop, model: IAgentModel) -> str:
    return await shop.arrange("apple")


@program()
async def repeatable_tool_between_others(shop: Shop, model: IAgentModel) -> str:
    return await shop.buy_arranged("apple")


@program()
async def approval_beside_a_payment_inside_a_tool(shop: Shop, model: IAgentModel) -> str:
    return await shop.pay_and_ask("apple")


@program()
async def step_inside_a_tool(shop: Shop, model: IAgentModel) -> str:
    return await shop.steps("apple")


@program()
async def nested_tools_at_once(shop: Shop, model: IAgentModel) -> str:
    bought, arranged = await asyncio.gather(shop.buy(["apple"]), shop.buy_arranged("pear"))
    return f"{bought}; {arranged}"


@program()
async def tools_of_different_depth_at_once(shop: Shop, model: IAgentModel) -> str:
    """The deeper one is entered while the other one waits for its answer: a crash leads to one round of questions."""
    arranged, more = await asyncio.gather(shop.arrange("apple"), shop.arrange_all(["pear"]))
    return f"{arranged}; {more}"


@program()
async def approvals_inside_of_tools_at_once(shop: Shop, model: IAgentModel) -> str:
    """A tool that has called nothing is asked about while the other one waits."""
    paid, sent = await asyncio.gather(shop.pay_and_ask("apple"), shop.order_with_approval("pear"))
    return f"{paid}; {sent}"


@program()
async def payment_beside_a_tool_in_a_tool(shop: Shop, model: IAgentModel) -> str:
    """The payment waits for the end of the record, which is out of reach while the order waits for its answer."""
    paid, arranged = await asyncio.gather(shop.pay_slowly("stamp"), shop.arrange_all(["apple"]))
    return f"{paid}; {arranged}"


@program()
async def tools_of_four_depths_in_a_group(shop: Shop, model: IAgentModel) -> str:
    async with asyncio.TaskGroup() as group:
        tasks = [
            group.create_task(shop.pay_slowly("stamp")),
            group.create_task(shop.order("apple")),
            group.create_task(shop.arrange_all(["pear"])),
            group.create_task(shop.buy_at_once(["plum", "fig"])),
        ]
    return "; ".join(task.result() for task in tasks)


@program()
async def shipment_beside_a_tool_in_a_tool(shop: Shop, model: IAgentModel) -> str:
    """The carrier knows what became of the shipment; nothing is shipped while the order waits for its answer."""
    sent, arranged, marked = await asyncio.gather(
        shop.ship("stamp"), shop.arrange_all(["apple"]), shop.mark("pear")
    )
    return f"{sent}; {arranged}; {marked}"


@program(depends_on_time=True, at_least=1, at_most=7)
async def time_out_around_tools_in_a_tool(shop: Shop, model: IAgentModel) -> str:
    """The time is up while the tool is entered again, over what it did before a pause."""
    try:
        async with asyncio.timeout(0.004):
            await shop.order_at_once(["apple", "pear"])
            await shop.mark("in time")
    except TimeoutError:
        await shop.mark("late")
    return await shop.transfer("plum")


@program(depends_on_time=True, at_least=1, at_most=10)
async def time_out_around_a_repeatable_tool_with_others_inside(shop: Shop, model: IAgentModel) -> str:
    try:
        async with asyncio.timeout(0.006):
            await shop.arrange_all(["apple", "pear"])
            await shop.mark("in time")
    except TimeoutError:
        await shop.mark("late")
    return await shop.transfer("plum")

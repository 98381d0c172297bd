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


@program(rounds=2)
async def tools_of_different_depth_at_once(shop: Shop, model: IAgentModel) -> str:
    """The deeper one is entered when the other one is through, so a crash may lead to two questions in a row."""
    arranged, more = await asyncio.gather(shop.arrange("apple"), shop.arrange_all(["pear"]))
    return f"{arranged}; {more}"


@program(rounds=2)
async def approvals_inside_of_tools_at_once(shop: Shop, model: IAgentModel) -> str:
    """A tool that has called nothing is asked about when the other one is through."""
    paid, sent = await asyncio.gather(shop.pay_and_ask("apple"), shop.order_with_approval("pear"))
    return f"{paid}; {sent}"

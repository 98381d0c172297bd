"""Programs whose application has a recovery handler: it decides about unknown outcomes, in the attempt that meets them.

An outer tool that is tried again in the same attempt is entered over what is recorded inside of it, as after a crash.
"""

from __future__ import annotations

import asyncio

from pilotage import IAgentModel
from pilotage.runtime import step
from tests.replay.kit import Recovery, Shop, program


@program(recovery=Recovery.TELLS)
async def handler_retries_a_payment(shop: Shop, model: IAgentModel) -> str:
    return f"{await shop.pay('apple')}; {await shop.pay('pear')}"


@program(recovery=Recovery.TELLS)
async def handler_retries_what_never_began(shop: Shop, model: IAgentModel) -> str:
    return f"{await shop.post('apple')}; {await shop.post('pear')}"


@program(recovery=Recovery.TELLS)
async def handler_retries_a_step(shop: Shop, model: IAgentModel) -> str:
    def mail() -> str:
        shop.process.world.fail("mail")
        return shop.process.act("mail", "step:mail#1")

    return f"{await step('mail', mail)}; {await shop.pay('apple')}"


@program(recovery=Recovery.TELLS)
async def handler_retries_a_tool_with_calls_inside(shop: Shop, model: IAgentModel) -> str:
    return f"{await shop.order_by_post('apple')}; {await shop.pay('pear')}"


@program(recovery=Recovery.TELLS)
async def handler_retries_the_same_tool_thrice(shop: Shop, model: IAgentModel) -> str:
    return f"{await shop.order_by_post('apple', 3)}; {await shop.transfer('pear')}"


@program(recovery=Recovery.TELLS)
async def handler_retries_tools_in_a_tool(shop: Shop, model: IAgentModel) -> str:
    return await shop.order_all_by_post(["apple", "pear"])


@program(recovery=Recovery.TELLS)
async def handler_retries_tools_side_by_side(shop: Shop, model: IAgentModel) -> str:
    one, other, sent = await asyncio.gather(
        shop.order_by_post("apple"), shop.order_by_post("pear", 2), shop.transfer("plum")
    )
    return f"{one}; {other}; {sent}"


@program(recovery=Recovery.TELLS)
async def handler_retries_a_tool_with_an_approval_inside(shop: Shop, model: IAgentModel) -> str:
    return await shop.order_with_approval_by_post("apple")


@program(recovery=Recovery.TELLS)
async def handler_and_tools_three_deep(shop: Shop, model: IAgentModel) -> str:
    return f"{await shop.buy(['apple', 'pear'])}; {await shop.arrange('plum')}"


@program(recovery=Recovery.ALTERNATES)
async def handler_that_alternates(shop: Shop, model: IAgentModel) -> str:
    return f"{await shop.order_by_post('apple', 2)}; {await shop.post('pear')}; {await shop.buy(['plum'])}"


@program(recovery=Recovery.ALTERNATES)
async def handler_that_alternates_side_by_side(shop: Shop, model: IAgentModel) -> str:
    return f"{await asyncio.gather(shop.order_by_post('apple'), shop.order_by_post('pear'))}"

"""Programs that wait for people."""

from __future__ import annotations

import asyncio
from contextlib import suppress

from pilotage import IAgentModel
from tests.replay.kit import Shop, program


@program()
async def one_approval(shop: Shop, model: IAgentModel) -> str:
    await shop.pay("apple")
    return await shop.transfer("apple")


@program()
async def approvals_in_a_row(shop: Shop, model: IAgentModel) -> list[str]:
    return [await shop.transfer(item) for item in ("apple", "pear", "plum")]


@program()
async def approvals_side_by_side(shop: Shop, model: IAgentModel) -> str:
    async with asyncio.TaskGroup() as group:
        tasks = [group.create_task(shop.transfer(item)) for item in ("apple", "pear", "plum")]
    return await shop.mark(",".join(task.result() for task in tasks))


@program()
async def approval_beside_a_payment(shop: Shop, model: IAgentModel) -> str:
    async with asyncio.TaskGroup() as group:
        group.create_task(shop.transfer("apple"))
        group.create_task(shop.pay_slowly("pear", milliseconds=10))
    return await shop.mark("end")


@program()
async def approval_beside_many_calls(shop: Shop, model: IAgentModel) -> str:
    async def work() -> None:
        for number in range(4):
            await shop.slow(str(number), 2)
            await shop.pay(str(number))

    await asyncio.gather(work(), shop.transfer("apple"))
    return await shop.mark("end")


@program()
async def approvals_in_a_semaphore(shop: Shop, model: IAgentModel) -> str:
    room = asyncio.Semaphore(1)

    async def buy(item: str) -> None:
        async with room:
            await shop.transfer(item)

    async with asyncio.TaskGroup() as group:
        for item in ("apple", "pear"):
            group.create_task(buy(item))
    return await shop.mark("end")


@program()
async def approval_inside_a_tool(shop: Shop, model: IAgentModel) -> str:
    return await shop.order_with_approval("apple")


@program()
async def approval_inside_a_tool_that_reads(shop: Shop, model: IAgentModel) -> str:
    return f"{await shop.check('apple')}, {await shop.pay('pear')}"


@program()
async def approvals_inside_tools_inside_a_tool(shop: Shop, model: IAgentModel) -> str:
    found = await shop.check_all(["apple", "pear"])
    return f"{found}, {await shop.mark('end')}"


@program()
async def approval_inside_a_tool_of_a_task(shop: Shop, model: IAgentModel) -> str:
    async def buy(item: str) -> str:
        return await shop.check(item)

    async with asyncio.TaskGroup() as group:
        tasks = [group.create_task(buy(item)) for item in ("apple", "pear")]
    return f"{[task.result() for task in tasks]}, {await shop.pay('plum')}"


@program(depends_on_time=True, at_most=2)
async def approval_with_too_little_time(shop: Shop, model: IAgentModel) -> str:
    """The time for the answer is up while a sibling pays."""

    async def ask() -> str:
        try:
            async with asyncio.timeout(0.005):
                return await shop.transfer("apple")
        except TimeoutError:
            return await shop.pay("pear")

    return ",".join(await asyncio.gather(ask(), shop.pay_slowly("plum", milliseconds=30)))


@program()
async def approval_and_finally(shop: Shop, model: IAgentModel) -> str:
    try:
        return await shop.transfer("apple")
    finally:
        await shop.pay("fee")


@program()
async def swallows_everything(shop: Shop, model: IAgentModel) -> str:
    with suppress(BaseException):
        await shop.transfer("apple")
    return await shop.pay("pear")


@program()
async def approval_beside_a_sleeper(shop: Shop, model: IAgentModel) -> str:
    async def late() -> str:
        await asyncio.sleep(0.01)
        return await shop.pay("pear")

    return ",".join(await asyncio.gather(late(), shop.transfer("apple")))

"""Programs that go on around their answer: a person may be asked about it while tasks of the program are under way."""

from __future__ import annotations

import asyncio
from contextlib import suppress

from pilotage import IAgentModel
from pilotage.runtime import changed, step
from tests.replay.kit import Shop, program

_KEPT: set[asyncio.Task[object]] = set()
"""As people keep tasks alive that nobody awaits."""


def kept(task: asyncio.Task[object]) -> None:
    _KEPT.add(task)
    task.add_done_callback(_KEPT.discard)


@program()
async def read_under_way_behind_the_answer(shop: Shop, model: IAgentModel) -> str:
    await shop.pay("apple")
    kept(asyncio.create_task(shop.slow("pear")))
    await asyncio.sleep(0)
    return "paid"


@program()
async def payment_under_way_behind_the_answer(shop: Shop, model: IAgentModel) -> str:
    kept(asyncio.create_task(shop.pay_slowly("apple")))
    await shop.look("pear")
    return "looked"


@program(depends_on_time=True, at_least=1, at_most=3)
async def task_that_goes_on_behind_the_answer(shop: Shop, model: IAgentModel) -> str:
    async def audit() -> None:
        await shop.look("apple")
        await shop.mark("apple")
        await shop.slow("pear")
        await shop.pay("audit")

    kept(asyncio.create_task(audit()))
    await shop.pay("apple")
    return "paid"


@program()
async def call_that_is_never_awaited(shop: Shop, model: IAgentModel) -> str:
    forgotten = shop.look("apple")
    paid = await shop.pay("apple")
    with suppress(AttributeError):
        forgotten.close()
    return paid


@program()
async def gate_in_front_of_the_answer(shop: Shop, model: IAgentModel) -> str:
    paid = await shop.pay("apple")
    if await changed("mail"):
        await step("mail", lambda: shop.process.act("mail", "step:mail#1"))
    return paid


@program(depends_on_time=True, at_least=1, at_most=2)
async def gate_in_a_task_behind_the_answer(shop: Shop, model: IAgentModel) -> str:
    async def audit() -> None:
        await shop.slow("pear")
        if await changed("mark"):
            await shop.mark("apple")

    kept(asyncio.create_task(audit()))
    return await shop.pay("apple")


@program()
async def answer_that_does_not_wait_for_its_task(shop: Shop, model: IAgentModel) -> str:
    look = asyncio.create_task(shop.slow("apple", 30))
    done, _ = await asyncio.wait({look}, timeout=0.001)
    return f"{len(done)}; {await shop.pay('apple')}"


@program()
async def clean_up_behind_the_answer(shop: Shop, model: IAgentModel) -> str:
    try:
        return await shop.pay("apple")
    finally:
        await shop.mark("cleaned up")

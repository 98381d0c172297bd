"""Programs with time-outs and cancelled tasks."""

from __future__ import annotations

import asyncio

import anyio

from pilotage import IAgentModel
from tests.replay.kit import LONG, Shop, program


@program()
async def hedged_read(shop: Shop, model: IAgentModel) -> str:
    tasks = [asyncio.create_task(shop.slow("a", 1)), asyncio.create_task(shop.slow("b", LONG))]
    done, rest = await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
    for task in rest:
        task.cancel()
    await asyncio.gather(*rest, return_exceptions=True)
    return await shop.pay("apple", note=",".join(sorted(task.result() for task in done)))


@program()
async def time_out_around_a_read(shop: Shop, model: IAgentModel) -> str:
    try:
        async with asyncio.timeout(0.004):
            await shop.slow("apple", LONG)
    except TimeoutError:
        return await shop.pay("pear")
    return await shop.pay("apple")


@program()
async def time_out_that_does_not_strike(shop: Shop, model: IAgentModel) -> str:
    async with asyncio.timeout(60):
        await shop.slow("apple", 1)
        await shop.pay("apple")
    return await shop.mark("end")


@program(depends_on_time=True, at_most=2)
async def time_out_around_a_payment(shop: Shop, model: IAgentModel) -> str:
    try:
        async with asyncio.timeout(0.02):
            await shop.pay_slowly("apple", milliseconds=40)
    except TimeoutError:
        return await shop.pay("pear")
    return await shop.mark("end")


@program(depends_on_time=True, at_most=3)
async def time_out_around_two_payments(shop: Shop, model: IAgentModel) -> str:
    try:
        async with asyncio.timeout(0.004):
            await shop.pay_slowly("apple", milliseconds=20)
            await shop.pay("pear")
    except TimeoutError:
        return await shop.mark("late")
    return await shop.mark("end")


@program()
async def wait_for_a_read(shop: Shop, model: IAgentModel) -> str:
    try:
        found = await asyncio.wait_for(shop.slow("apple", LONG), 0.004)
    except TimeoutError:
        found = await shop.look("pear")
    return await shop.pay("plum", note=found)


@program()
async def wait_for_that_does_not_strike(shop: Shop, model: IAgentModel) -> str:
    found = await asyncio.wait_for(shop.slow("apple", 1), 60)
    return await shop.pay("plum", note=found)


@program()
async def time_outs_side_by_side(shop: Shop, model: IAgentModel) -> str:
    async def limited(item: str, milliseconds: int, seconds: float) -> str:
        try:
            async with asyncio.timeout(seconds):
                return await shop.slow(item, milliseconds)
        except TimeoutError:
            return await shop.look(f"other {item}")

    found = await asyncio.gather(limited("a", LONG, 0.02), limited("b", 1, 60), limited("c", LONG, 0.02))
    return await shop.pay("apple", note=",".join(found))


@program()
async def cancelled_worker(shop: Shop, model: IAgentModel) -> str:
    async def work() -> None:
        number = 0
        while True:
            await shop.slow(str(number), LONG)
            number += 1

    worker = asyncio.create_task(work())
    await shop.pay("apple")
    worker.cancel()
    await asyncio.gather(worker, return_exceptions=True)
    return await shop.pay("pear")


@program(depends_on_time=True, at_most=3)
async def cancelled_payment(shop: Shop, model: IAgentModel) -> str:
    """The payment comes to its end; the task is stopped at its next call."""

    async def buy() -> None:
        await shop.pay_slowly("apple", milliseconds=10)
        await shop.pay("never")

    task = asyncio.create_task(buy())
    await shop.slow("pear", 3)
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)
    return await shop.mark("end")


@program(depends_on_time=True, at_most=3)
async def shielded_payment(shop: Shop, model: IAgentModel) -> str:
    task = asyncio.ensure_future(shop.pay_slowly("apple", milliseconds=10))
    try:
        async with asyncio.timeout(0.003):
            await asyncio.shield(task)
    except TimeoutError:
        await shop.mark("late")
    return await task


@program()
async def cancelled_before_it_begins(shop: Shop, model: IAgentModel) -> str:
    task = asyncio.create_task(shop.pay("never"))
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)
    return await shop.pay("apple")


@program(depends_on_time=True, at_least=2)
async def cancellation_that_says_why(shop: Shop, model: IAgentModel) -> str:
    why: list[object] = []

    async def work() -> None:
        try:
            await shop.slow("apple", LONG)
        except asyncio.CancelledError as cancelled:
            why.extend(cancelled.args)
            raise

    worker = asyncio.create_task(work())
    await shop.pay("pear")
    worker.cancel("enough")
    await asyncio.gather(worker, return_exceptions=True)
    return await shop.pay(f"{why}")


@program()
async def time_out_of_anyio_around_a_read(shop: Shop, model: IAgentModel) -> str:
    """anyio cancels a task in every turn of the loop until it ends, and knows its cancellations by what they say."""
    try:
        with anyio.fail_after(0.004):
            await shop.slow("apple", LONG)
    except TimeoutError:
        return f"{await shop.pay('pear')}; {await shop.transfer('plum')}"
    return await shop.pay("apple")


@program(depends_on_time=True, at_most=3)
async def time_out_of_anyio_around_two_payments(shop: Shop, model: IAgentModel) -> str:
    with anyio.move_on_after(0.004):
        await shop.pay_slowly("apple", milliseconds=20)
        await shop.pay("pear")
    return await shop.transfer("plum")


@program()
async def cancelled_group_of_anyio(shop: Shop, model: IAgentModel) -> str:
    async def work() -> None:
        try:
            await shop.slow("apple", LONG)
        finally:
            with anyio.CancelScope(shield=True):
                await shop.mark("undone")

    async with anyio.create_task_group() as group:
        group.start_soon(work)
        await shop.pay("pear")
        group.cancel_scope.cancel()
    return await shop.transfer("plum")

"""Pack, pay, ship: a workflow that survives kill -9. A step that is recorded is not done again."""

import asyncio
import sys

from outside import book_courier, pack, pay

from pilotage import Agent, AgentRuns, Application, Idempotency, LeaseSettings, WorkerSettings, step


@Agent(durable=True)
class Shipping:
    async def execute(self, order: str) -> str:
        parcel = await step("pack", lambda: pack(order), idempotency=Idempotency.IDEMPOTENT)
        receipt = await step("pay", lambda: pay(order))  # never repeated without a person's word
        courier = await step("ship", lambda: book_courier(parcel), idempotency=Idempotency.IDEMPOTENT)
        return f"{receipt}; {courier}"


async def main(order: str) -> None:
    async with Application("shop").add(Shipping, WorkerSettings(), LeaseSettings(1)).load_plugins() as app:
        runs = app.get(AgentRuns)
        run = await runs.start(Shipping, order, id=order)  # the same id is the same run
        _ = [event async for event in run.events()]  # until the run ends or asks a question
        result = await runs.result(run.id)
        print(f"{result.status}: {result.output or result.state.current_activity}")


if __name__ == "__main__":
    asyncio.run(main(sys.argv[1]))

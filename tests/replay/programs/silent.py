"""Programs with waits and tasks of their own: the runtime sees only calls, and must not accuse what it does not see."""

from __future__ import annotations

import asyncio

from pilotage import IAgentModel
from tests.replay.kit import Shop, program


@program()
async def payment_behind_a_sleep_of_its_own(shop: Shop, model: IAgentModel) -> str:
    """The sleep is longer than anything that the call behind it takes."""

    async def later() -> str:
        await asyncio.sleep(1.2)
        return await shop.pay("apple")

    paid, sent = await asyncio.gather(later(), shop.transfer("pear"))
    return f"{paid}; {sent}"

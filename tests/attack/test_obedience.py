"""The control of the injected instructions: by the user himself the same orders are carried out, so labels hold the rest."""

from __future__ import annotations

from pilotage import AgentStatus
from tests.attack.injection import ForeignChannels, ObedientModel
from tests.attack.test_injections_in_agents import House, orders


@orders
async def test_a_model_that_obeys_its_user_needs_nobody(order: str) -> None:
    house = House()
    result = await house.run(ObedientModel(), order)
    assert (result.status, sum(house.world.done.values())) == (AgentStatus.COMPLETED, 1)


@orders
async def test_a_server_whose_words_are_declared_needs_nobody(order: str) -> None:
    house = House()
    house.channels = type("Ours", (ForeignChannels,), {"says": order, "declares": {"reads_untrusted": False}})
    result = await house.run(ObedientModel())
    assert (result.status, sum(house.world.done.values())) == (AgentStatus.COMPLETED, 1)

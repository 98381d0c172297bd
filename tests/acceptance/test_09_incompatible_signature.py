"""Use case 9: a tool whose signature has no schema keeps the application from starting, and the parameter is named."""

from __future__ import annotations

import pytest

from pilotage import Agent, Application, Pod, agent_tool
from pilotage.errors import AgentDefinitionError, ApplicationStartError
from pilotage.models import OfflineModel


@Pod
class Shop:
    @agent_tool
    def order(self, options: dict, *rest: int) -> str:  # type: ignore[type-arg]
        """Order something."""
        return "ordered"


@Agent
class Buyer:
    """Buy things."""

    def __init__(self, shop: Shop) -> None:
        self.shop = shop


async def test_the_application_does_not_start_and_says_which_parameter() -> None:
    with pytest.raises(ApplicationStartError) as caught:
        async with Application("shop").add(Buyer, Shop, OfflineModel).load_plugins():
            pass
    report = str(caught.value)
    assert "Shop.order: parameter 'options' is untyped (dict)." in report
    assert "Shop.order: parameter 'rest' takes any number of arguments (*)." in report


def test_a_tool_of_the_agent_itself_is_refused_where_the_agent_is_defined() -> None:
    with pytest.raises(AgentDefinitionError, match="'what' is untyped"):

        @Agent
        class Seller:
            """Sell things."""

            @agent_tool
            def sell(self, what: list) -> str:  # type: ignore[type-arg]
                """Sell something."""
                return "sold"

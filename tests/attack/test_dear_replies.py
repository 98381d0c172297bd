"""Price lists with more than two prices: what a reply costs beyond its tokens keeps to the cap under fan-out, too."""

from __future__ import annotations

from dataclasses import replace
from decimal import Decimal

import pytest

from pilotage import AgentExecutionLimits, ModelMessage, ModelRequest, ModelResponse
from pilotage.agent import IAgentPricing, ModelCost, ModelUsage
from pilotage.agent.model_request import SamplingOptions
from tests.attack.fanning import Server
from tests.attack.test_held_limits import WIDTHS, program
from tests.behaviour.bureau import Bureau, hired, started

pytestmark = pytest.mark.attack("limits")

CAP = Decimal(100)
REQUEST = ModelRequest([ModelMessage.user("x " * 400)], sampling=SamplingOptions(max_tokens=100))


class Prices(IAgentPricing):
    """A cent per token, and more for what is written to a cache, for reasoning and for searches of the server."""

    def cost_of(self, model: str, usage: ModelUsage) -> ModelCost | None:
        cents = (usage.total_tokens or 0) + 3 * (usage.cache_written_tokens or 0)
        cents += 3 * (usage.reasoning_tokens or 0) + 2_000 * (usage.other_tokens or {}).get("searches", 0)
        return ModelCost(Decimal(cents) / 100, "EUR", "1")


class DearServer(Server):
    """Counts more than tokens."""

    def __init__(self, kind: str) -> None:
        super().__init__(100, turns=30)
        self.kind = kind

    async def complete(self, request: ModelRequest) -> ModelResponse:
        response = await super().complete(request)
        usage = response.usage
        match self.kind:
            case "written to a cache":
                usage = replace(usage, cache_written_tokens=usage.input_tokens)
            case "reasoning":
                usage = replace(usage, reasoning_tokens=usage.output_tokens)
            case _:
                usage = replace(usage, other_tokens={"searches": 1})
        return replace(response, usage=usage)


@pytest.mark.parametrize("width", WIDTHS)
@pytest.mark.parametrize("kind", ["written to a cache", "reasoning", "searches"])
async def test_no_fan_out_costs_more_than_its_cap_and_one_surprise(kind: str, width: int) -> None:
    bureau, agent, server = Bureau(), hired(limits=AgentExecutionLimits(max_cost=CAP)), DearServer(kind)
    async with bureau.process(agent, program("gather", REQUEST, width), Prices(), model=server) as runs:
        result = await started(runs, agent)
    surprise = 20 if kind == "searches" else 0
    assert result.spent.cost <= CAP + surprise
    assert server.calls == width or result.spent.cost > CAP / 2
    # Only what no price list can know before a call makes the calls wait for each other.
    assert server.widest == (1 if kind == "searches" or width == 1 else min(width - 1, server.widest))
    assert kind == "searches" or width < 7 or server.widest > 3

"""Choosing a loop: a supervisor with two workers and limits, from the spec alone."""

from __future__ import annotations

from decimal import Decimal

from pilotage import run
from pilotage.agent import IAgentPricing, ModelCost, ModelUsage
from pilotage.testing import ScriptedModel, calls, says, when
from tests.programs.program_07_choosing import ReportDesk

DELEGATED = [
    calls("delegate", worker="research", instructions="rain in May"),
    calls("delegate", worker="write", instructions="two pages: rain on 12 days"),
]


class Prices(IAgentPricing):
    """So much for a token."""

    def __init__(self, price: str) -> None:
        self.price = Decimal(price)

    def cost_of(self, model: str, usage: ModelUsage) -> ModelCost | None:
        return ModelCost(self.price * (usage.total_tokens or 0), "EUR", "1")


def model() -> ScriptedModel:
    return ScriptedModel(
        [
            when("Find facts.", says("Rain on 12 days.")),
            when("Write two pages.", says("Page one. Page two.")),
            when("Produce a two-page report.", *DELEGATED, calls("forward", worker="write")),
        ]
    )


async def test_the_report_is_what_the_writer_wrote() -> None:
    result = await run(ReportDesk, "May", model=model(), add=[Prices("0.000001")])
    assert (result.error, result.output) == (None, "Page one. Page two.")
    assert (result.turns, result.spent.steps) == (5, 5)


async def test_what_workers_cost_counts_against_the_limit_above() -> None:
    result = await run(ReportDesk, "May", model=model(), add=[Prices("0.01")])
    assert result.interruption_reason == "agent_max_cost_exceeded"

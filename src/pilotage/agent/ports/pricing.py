"""The pricing port: what a model call costs, by the application's own table."""

from __future__ import annotations

from abc import ABC, abstractmethod
from decimal import Decimal

from pilotage.agent.model_reply import ModelUsage
from pilotage.checks import reject_blank, reject_negative
from pilotage.values import value


@value
class ModelCost:
    """An amount of money and the version of the table it was computed by."""

    amount: Decimal
    currency: str
    pricing_version: str

    def __post_init__(self) -> None:
        reject_blank(self, currency=self.currency, pricing_version=self.pricing_version)
        reject_negative(self, amount=self.amount)


class IAgentPricing(ABC):
    """Knows what tokens cost. Pure: the same usage always costs the same under one version."""

    @abstractmethod
    def cost_of(self, model: str, usage: ModelUsage) -> ModelCost | None:
        """The cost of a call, or None for a model the table does not know."""

"""`GenaiPrices`: the pricing port on the table of genai-prices."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from importlib.metadata import version

try:
    from genai_prices import Usage, calc_price
    from genai_prices.types import PriceCalculation
except ImportError as error:
    raise ImportError('this adapter needs an extra: pip install "pilotage[prices]"') from error

from pilotage.adapters.prices.mapping import counts_of
from pilotage.agent.model_reply import ModelUsage
from pilotage.agent.ports.budget import IAgentPricing, ModelCost
from pilotage.checks import reject_blank
from pilotage.errors import AgentDefinitionError
from pilotage.ids import IClock, SystemClock

_NO_MODELS: Mapping[str, str] = {}


class GenaiPrices(IAgentPricing):
    """The published prices of the providers that are named, such as `GenaiPrices("openai", "anthropic")`, in USD.

    A model is looked up in their order. Providers that are not named are not asked: a model on a server of one's own
    may have the name of one that others sell. `models` says for names of one's own whose model they are, as
    `{"support": "azure/gpt-5"}`. Some providers are cheaper at certain hours: a reply has the price of the hour
    in which it ends.
    """

    currency: str | None = "USD"

    def __init__(
        self, *providers: str, models: Mapping[str, str] = _NO_MODELS, clock: IClock | None = None
    ) -> None:
        for name, meant in models.items():
            if not all(part.strip() for part in (name, *meant.partition("/")[::2])):
                raise AgentDefinitionError(
                    f"GenaiPrices.models[{name!r}] is {meant!r}. Write it as provider/model, such as 'azure/gpt-5'."
                )
        if not (providers or models):
            raise AgentDefinitionError(
                "GenaiPrices names no provider, so no model has a price. Name those that you pay, such as "
                'GenaiPrices("openai").'
            )
        for provider in providers:
            reject_blank(self, provider=provider)
        self._clock = clock or SystemClock()
        self._providers = providers
        self._models = dict(models)
        self._version = f"genai-prices {version('genai-prices')}"

    def cost_of(self, model: str, usage: ModelUsage) -> ModelCost | None:
        counts, now = counts_of(usage), self._clock.now()
        if counts is None:
            return None
        meant = self._models.get(model)
        if meant is not None:
            provider, _, name = meant.partition("/")
            found = _calculated(counts, name, provider, now)
        else:
            priced = (_calculated(counts, model, provider, now) for provider in self._providers)
            found = next((each for each in priced if each is not None), None)
        if found is None or found.model_price.input_mtok is None or found.model_price.output_mtok is None:
            return None
        return ModelCost(found.total_price, "USD", self._version)


def _calculated(
    counts: Mapping[str, int], model: str, provider: str, now: datetime
) -> PriceCalculation | None:
    """Return the price at a provider; None if it does not have the model, or the counts contradict each other."""
    try:
        return calc_price(Usage(**counts), model, provider_id=provider, genai_request_timestamp=now)
    except (LookupError, ValueError):
        return None

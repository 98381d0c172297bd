"""Prices of models: a table of one's own, over another table for the models that are not in it.

Pure. Every kind of token has its own rate. A usage that does not say how much was read and written has no price.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import field
from decimal import Decimal

from pilotage.agent.model_reply import ModelUsage
from pilotage.agent.ports.budget import IAgentPricing, ModelCost
from pilotage.checks import reject_blank
from pilotage.errors import AgentDefinitionError
from pilotage.values import value

_MILLION = -6
_INPUT, _OUTPUT, _WRITTEN = "input_", "output_", "cache_written_"


def _no_rates() -> Mapping[str, Decimal]:
    return {}


def _no_steps() -> Mapping[int, ModelPrice]:
    return {}


@value
class ModelPrice:
    """The rates of a model for a million tokens each; a rate that is None is that of `input` or `output`.

    `parts` are rates for counts that others have in them, by their names in `ModelUsage.other_tokens`:
    `input_audio_tokens` is a part of the input, `output_audio_tokens` of the output, `cache_written_1h_tokens` of what
    was written to a cache. `each` is the price of one unit of what is counted beside tokens, such as
    `web_search_requests`. `above` has the prices of requests that are longer than so many tokens.
    """

    input: Decimal
    output: Decimal
    cached: Decimal | None = None
    cache_written: Decimal | None = None
    reasoning: Decimal | None = None
    parts: Mapping[str, Decimal] = field(default_factory=_no_rates)
    each: Mapping[str, Decimal] = field(default_factory=_no_rates)
    above: Mapping[int, ModelPrice] = field(default_factory=_no_steps)

    def __post_init__(self) -> None:
        rates = {
            name: getattr(self, name) for name in ("input", "output", "cached", "cache_written", "reasoning")
        }
        named = {f"parts[{name!r}]": rate for name, rate in self.parts.items()}
        named |= {f"each[{name!r}]": rate for name, rate in self.each.items()}
        for name, rate in {**rates, **named}.items():
            _check_rate(name, rate)
        for name in self.parts:
            if not name.startswith((_INPUT, _OUTPUT, _WRITTEN)):
                raise AgentDefinitionError(
                    f"ModelPrice.parts has {name!r}. Names begin with {_INPUT!r}, {_OUTPUT!r} or {_WRITTEN!r}; what "
                    "is counted beside tokens belongs into `each`."
                )

    @classmethod
    def free(cls) -> ModelPrice:
        """Return the price of a model that costs nothing: that is known, and not the same as no price."""
        return cls(Decimal(0), Decimal(0))

    def of(self, usage: ModelUsage) -> Decimal | None:
        """Return the price of a usage; None if it is incomplete, or contradicts itself."""
        read, written = usage.input_tokens, usage.output_tokens
        if read is None or written is None:
            return None
        steps = [step for step in self.above if read > step]
        if steps:
            return self.above[max(steps)].of(usage)
        others = usage.other_tokens or {}
        cached, stored, thought = (
            usage.cached_tokens or 0,
            usage.cache_written_tokens or 0,
            usage.reasoning_tokens or 0,
        )
        of_input, of_output, of_stored = (
            self._parts(prefix, others) for prefix in (_INPUT, _OUTPUT, _WRITTEN)
        )
        plain = {
            _INPUT: read - cached - stored - sum(others[name] for name in of_input),
            _OUTPUT: written - thought - sum(others[name] for name in of_output),
            _WRITTEN: stored - sum(others[name] for name in of_stored),
        }
        if min(plain.values()) < 0:
            return None
        counted = [
            (plain[_INPUT], self.input),
            (plain[_OUTPUT], self.output),
            (plain[_WRITTEN], self.input if self.cache_written is None else self.cache_written),
            (cached, self.input if self.cached is None else self.cached),
            (thought, self.output if self.reasoning is None else self.reasoning),
            *((others[name], rate) for name, rate in self.parts.items() if name in others),
        ]
        tokens = sum((count * rate for count, rate in counted), Decimal(0)).scaleb(_MILLION)
        return tokens + sum(
            (others[name] * rate for name, rate in self.each.items() if name in others), Decimal(0)
        )

    def _parts(self, prefix: str, others: Mapping[str, int]) -> list[str]:
        return [name for name in self.parts if name.startswith(prefix) and name in others]


def _check_rate(name: str, rate: object) -> None:
    if rate is None and name in ("cached", "cache_written", "reasoning"):
        return
    if not isinstance(rate, Decimal) or not rate.is_finite() or rate < 0:
        raise AgentDefinitionError(
            f"ModelPrice.{name} is {rate!r}. Give a Decimal of 0 or more, such as Decimal('1.25') for a million tokens."
        )


class PriceList(IAgentPricing):
    """Prices by the name of the model, and, for a model that is not in it, those of another list `beneath`.

    `version` is recorded with every amount: raise it when a price changes. All prices are in one currency.
    """

    def __init__(
        self,
        prices: Mapping[str, ModelPrice],
        *,
        version: str,
        currency: str = "USD",
        beneath: IAgentPricing | None = None,
    ) -> None:
        reject_blank(self, version=version, currency=currency)
        if beneath is not None and beneath.currency not in (None, currency):
            raise AgentDefinitionError(
                f"PriceList has prices in {currency!r}, and {type(beneath).__name__} beneath it in "
                f"{beneath.currency!r}: amounts of two currencies cannot be added. Give all prices in one of them."
            )
        self._prices = dict(prices)
        self._version = version
        self.currency: str | None = currency
        self._unit = currency
        self._beneath = beneath

    def cost_of(self, model: str, usage: ModelUsage) -> ModelCost | None:
        price = self._prices.get(model)
        if price is not None:
            amount = price.of(usage)
            return None if amount is None else ModelCost(amount, self._unit, self._version)
        return None if self._beneath is None else self._beneath.cost_of(model, usage)

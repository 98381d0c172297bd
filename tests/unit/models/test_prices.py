"""Prices of one's own: each kind of token at its own rate, and no price where something is not known."""

from __future__ import annotations

from collections.abc import Callable
from decimal import Decimal

import pytest

from pilotage.agent.model_reply import ModelUsage
from pilotage.agent.ports.budget import IAgentPricing, ModelCost
from pilotage.errors import AgentDefinitionError
from pilotage.models.prices import ModelPrice, PriceList

D = Decimal
FULL = ModelPrice(
    D(8),
    D(20),
    D(1),
    D(10),
    D(30),
    parts={"input_audio_tokens": D(40), "output_audio_tokens": D(80), "cache_written_1h_tokens": D(16)},
    each={"searches": D("0.5")},
)


@pytest.mark.parametrize(
    ("usage", "price"),
    [
        (ModelUsage(1_000_000, 0, 1_000_000), "8"),
        (ModelUsage(0, 1_000_000, 1_000_000), "20"),
        (ModelUsage(1_000_000, 0, 1_000_000, cached_tokens=500_000), "4.5"),
        (ModelUsage(1_000_000, 0, 1_000_000, cache_written_tokens=500_000), "9"),
        (ModelUsage(0, 1_000_000, 1_000_000, reasoning_tokens=500_000), "25"),
        (ModelUsage(10, 0, 10, other_tokens={"input_audio_tokens": 5}), "0.00024"),
        (ModelUsage(0, 10, 10, other_tokens={"output_audio_tokens": 5}), "0.0005"),
        (
            ModelUsage(10, 0, 10, cache_written_tokens=10, other_tokens={"cache_written_1h_tokens": 5}),
            "0.00013",
        ),
        (ModelUsage(0, 0, 0, other_tokens={"searches": 3, "of_another_kind": 9}), "1.5"),
        (ModelUsage(0, 0, 0), "0"),
    ],
)
def test_each_count_has_its_own_rate(usage: ModelUsage, price: str) -> None:
    assert FULL.of(usage) == D(price)


@pytest.mark.parametrize(
    "usage",
    [
        ModelUsage(),
        ModelUsage(None, 5, 5),
        ModelUsage(5, None, 5),
        ModelUsage(None, None, 10),
        ModelUsage(10, 0, 10, cached_tokens=6, cache_written_tokens=6),
        ModelUsage(10, 5, 15, other_tokens={"input_audio_tokens": 11}),
        ModelUsage(10, 5, 15, cache_written_tokens=1, other_tokens={"cache_written_1h_tokens": 2}),
    ],
)
def test_what_is_not_known_has_no_price(usage: ModelUsage) -> None:
    assert FULL.of(usage) is None


def test_rates_that_are_left_out_are_those_of_input_and_output() -> None:
    plain = ModelPrice(D(8), D(20))
    detailed = ModelUsage(10, 10, 20, cached_tokens=5, cache_written_tokens=5, reasoning_tokens=9)
    assert plain.of(detailed) == plain.of(ModelUsage(10, 10, 20)) == D("0.00028")
    assert ModelPrice.free().of(detailed) == 0


def test_a_longer_request_has_the_prices_of_its_length() -> None:
    price = ModelPrice(D(1), D(1), above={100: ModelPrice(D(2), D(2)), 1_000: ModelPrice(D(3), D(3))})
    paid = [price.of(ModelUsage(read, 0, read)) for read in (100, 101, 1_000, 1_001)]
    assert paid == [D("0.0001"), D("0.000202"), D("0.002"), D("0.003003")]


class Elsewhere(IAgentPricing):
    def __init__(self, currency: str | None) -> None:
        self.currency = currency

    def cost_of(self, model: str, usage: ModelUsage) -> ModelCost | None:
        return ModelCost(D(7), "USD", "theirs") if model == "known" else None


def test_a_table_of_ones_own_comes_first() -> None:
    prices = PriceList({"mine": FULL}, version="1", beneath=Elsewhere("USD"))
    usage = ModelUsage(1_000_000, 0, 1_000_000)
    assert prices.cost_of("mine", usage) == ModelCost(D(8), "USD", "1")
    assert prices.cost_of("mine", ModelUsage()) is None
    assert prices.cost_of("known", usage) == ModelCost(D(7), "USD", "theirs")
    assert prices.cost_of("neither", usage) is None
    assert PriceList({}, version="1").cost_of("known", usage) is None


@pytest.mark.parametrize(
    ("make", "words"),
    [
        (lambda: ModelPrice(1.5, D(1)), "ModelPrice.input is 1.5. Give a Decimal"),  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]
        (lambda: ModelPrice(D(1), D(-1)), "ModelPrice.output is Decimal('-1')"),
        (lambda: ModelPrice(D(1), D(1), D("NaN")), "ModelPrice.cached is Decimal('NaN')"),
        (lambda: ModelPrice(D(1), D(1), each={"x": D("Infinity")}), "ModelPrice.each['x']"),
        (lambda: ModelPrice(D(1), D(1), parts={"audio": D(1)}), "ModelPrice.parts has 'audio'"),
        (lambda: PriceList({}, version=" "), "version"),
        (
            lambda: PriceList({}, version="1", currency="EUR", beneath=Elsewhere("USD")),
            "PriceList has prices in 'EUR', and Elsewhere beneath it in 'USD': amounts of two currencies cannot be added.",
        ),
    ],
)
def test_wrong_prices_are_refused(make: Callable[[], object], words: str) -> None:
    with pytest.raises(AgentDefinitionError) as caught:
        make()
    assert words in str(caught.value)

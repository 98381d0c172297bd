"""Sixty usages of four providers with prices that were computed by hand from the rates that the providers publish.

`usages.csv` has the amounts; the rates are those below. The table of genai-prices is a second opinion.
"""

from __future__ import annotations

import csv
from collections import Counter
from collections.abc import Mapping
from dataclasses import replace
from datetime import UTC, datetime
from decimal import Decimal
from pathlib import Path

import pytest

from pilotage.adapters.prices import GenaiPrices
from pilotage.agent.model_reply import ModelUsage
from pilotage.errors import AgentDefinitionError
from pilotage.models.prices import ModelPrice, PriceList
from pilotage.testing import VirtualClock

EXAMPLES = list(csv.DictReader((Path(__file__).parent / "usages.csv").read_text().splitlines()))
_SEARCHES = {"web_search_requests": Decimal("0.01")}


def price(given: str, cached: str, output: str) -> ModelPrice:
    return ModelPrice(Decimal(given), Decimal(output), Decimal(cached), each=_SEARCHES)


def claude(given: str, cached: str, written: str, written_1h: str, output: str) -> ModelPrice:
    hour = {"cache_written_1h_tokens": Decimal(written_1h)}
    return replace(price(given, cached, output), cache_written=Decimal(written), parts=hour)


RATES: Mapping[str, ModelPrice] = {
    "gpt-5": price("1.25", "0.125", "10"),
    "gpt-5-mini": price("0.25", "0.025", "2"),
    "gpt-4o": price("2.50", "1.25", "10"),
    "o3": price("2", "0.50", "8"),
    "claude-sonnet-4-5": replace(
        claude("3", "0.30", "3.75", "6", "15"),
        above={200_000: claude("6", "0.60", "7.50", "12", "22.50")},
    ),
    "claude-opus-4-1": claude("15", "1.50", "18.75", "30", "75"),
    "claude-haiku-4-5": claude("1", "0.10", "1.25", "2", "5"),
    "gemini-2.5-pro": replace(price("1.25", "0.125", "10"), above={200_000: price("2.50", "0.25", "15")}),
    "gemini-2.5-flash": price("0.30", "0.03", "2.50"),
    "gemini-2.5-flash-lite": price("0.10", "0.01", "0.40"),
    "deepseek-chat": price("0.27", "0.07", "1.10"),
    "deepseek-reasoner": price("0.55", "0.14", "2.19"),
}
OWN = PriceList(RATES, version="2026-11")
NOON = datetime(2026, 11, 19, 12, tzinfo=UTC)
PUBLISHED = GenaiPrices("openai", "anthropic", "google", "deepseek", clock=VirtualClock(NOON))


def usage_of(example: Mapping[str, str]) -> ModelUsage:
    counts = {name: int(count) for name, count in example.items() if name not in ("model", "price")}
    others = {"cache_written_1h_tokens": counts["written_1h"], "web_search_requests": counts["searches"]}
    return ModelUsage(
        counts["input"],
        counts["output"],
        counts["input"] + counts["output"],
        cached_tokens=counts["cached"] or None,
        cache_written_tokens=counts["written"] or None,
        reasoning_tokens=counts["reasoning"] or None,
        other_tokens={name: count for name, count in others.items() if count} or None,
    )


@pytest.mark.parametrize(
    "example", EXAMPLES, ids=lambda each: f"{each['model']}-{each['input']}-{each['output']}"
)
def test_a_usage_has_the_price_that_was_computed_by_hand(example: Mapping[str, str]) -> None:
    model, usage, expected = example["model"].split("/")[1], usage_of(example), Decimal(example["price"])
    own, published = OWN.cost_of(model, usage), PUBLISHED.cost_of(model, usage)
    assert own is not None
    assert published is not None
    assert (own.amount, own.currency, own.pricing_version) == (expected, "USD", "2026-11")
    assert published.amount == expected
    assert published.pricing_version.startswith("genai-prices ")


def test_there_are_sixty_examples_of_four_providers() -> None:
    counted = Counter(example["model"].split("/")[0] for example in EXAMPLES)
    assert counted == {"openai": 15, "anthropic": 15, "google": 15, "deepseek": 15}


def test_a_provider_that_is_cheaper_at_night_has_the_price_of_the_hour() -> None:
    usage = ModelUsage(1_000_000, 0, 1_000_000)
    night = GenaiPrices("deepseek", clock=VirtualClock(NOON.replace(hour=20)))
    by_day, by_night = PUBLISHED.cost_of("deepseek-chat", usage), night.cost_of("deepseek-chat", usage)
    assert by_day is not None
    assert by_night is not None
    assert (by_day.amount, by_night.amount) == (Decimal("0.27"), Decimal("0.135"))


def test_a_model_of_a_provider_that_is_not_named_has_no_price() -> None:
    usage = ModelUsage(10, 10, 20)
    assert GenaiPrices("anthropic").cost_of("gpt-5", usage) is None
    assert PUBLISHED.cost_of("a-model-of-ours", usage) is None


def test_a_name_of_ones_own_is_looked_up_as_what_it_means() -> None:
    prices = GenaiPrices(models={"support": "openai/gpt-5"})
    found = prices.cost_of("support", ModelUsage(1_000_000, 0, 1_000_000))
    assert found is not None
    assert found.amount == Decimal("1.25")
    assert prices.cost_of("gpt-5", ModelUsage(1, 1, 2)) is None


def test_a_usage_that_is_incomplete_or_contradicts_itself_has_no_price() -> None:
    for usage in (
        ModelUsage(),
        ModelUsage(None, None, 20),
        ModelUsage(10, 5, 15, cached_tokens=8, cache_written_tokens=8),
    ):
        assert PUBLISHED.cost_of("claude-haiku-4-5", usage) is None
        assert OWN.cost_of("claude-haiku-4-5", usage) is None


@pytest.mark.parametrize(
    ("providers", "models", "words"),
    [
        ((), {}, "GenaiPrices names no provider, so no model has a price."),
        ((), {"support": "gpt-5"}, "GenaiPrices.models['support'] is 'gpt-5'. Write it as provider/model"),
        ((" ",), {}, "provider"),
    ],
)
def test_wrong_settings_are_refused(
    providers: tuple[str, ...], models: Mapping[str, str], words: str
) -> None:
    with pytest.raises(AgentDefinitionError) as caught:
        GenaiPrices(*providers, models=models)
    assert words in str(caught.value)

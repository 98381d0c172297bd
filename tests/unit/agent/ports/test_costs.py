"""Charges as rows store them, and sums that are the same by every grouping."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from decimal import Decimal

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pilotage.agent.model_reply import ModelUsage
from pilotage.agent.ports.budget import ModelCost
from pilotage.agent.ports.costs import (
    CostEntry,
    CostField,
    CostRole,
    CostSum,
    ModelCharge,
    amount_text,
    charges_in,
    charges_text,
    cost_sums,
)

counts = st.none() | st.integers(0, 10**9)
names = st.text(st.characters(min_codepoint=32, max_codepoint=126), min_size=1, max_size=8).filter(str.strip)
prices = st.builds(
    ModelCost,
    st.decimals(0, 10**6, places=12),
    st.sampled_from(["USD", "EUR"]),
    st.sampled_from(["2026-10", "2026-11"]),
)
charges = st.builds(
    ModelCharge,
    names,
    st.sampled_from(CostRole),
    st.builds(
        ModelUsage,
        counts,
        counts,
        counts,
        cached_tokens=counts,
        cache_written_tokens=counts,
        reasoning_tokens=counts,
    ),
    st.none() | prices,
    st.booleans(),
    st.none() | names,
    st.integers(1, 3),
)
entries = st.builds(
    CostEntry,
    st.sampled_from(["acme", "default"]),
    st.sampled_from(["r1", "r2", "r3"]),
    st.sampled_from(["r1", "r3"]),
    st.sampled_from(["Clerk", "Reader"]),
    st.integers(0, 10**6).map(lambda seconds: datetime(2026, 11, 1, tzinfo=UTC) + timedelta(seconds=seconds)),
    charges,
    st.none() | st.sampled_from(["c1", "c2"]),
)
fields = st.lists(st.sampled_from(CostField), max_size=4, unique=True)


@given(st.lists(charges, max_size=4))
def test_charges_are_read_as_they_were_stored(given: Sequence[ModelCharge]) -> None:
    assert charges_in(charges_text(given)) == tuple(given)


@given(st.lists(entries, max_size=30), fields)
def test_the_sums_of_every_grouping_are_the_sum_of_the_entries(
    given: Sequence[CostEntry], by: Sequence[CostField]
) -> None:
    sums = cost_sums(given, by)
    for currency in ("USD", "EUR"):
        costs = [entry.charge.cost for entry in given]
        expected = sum(
            (cost.amount for cost in costs if cost is not None and cost.currency == currency), Decimal(0)
        )
        assert sum((each.amounts.get(currency, Decimal(0)) for each in sums), Decimal(0)) == expected
    assert sum(each.charges for each in sums) == len(given)
    assert sum(each.unpriced for each in sums) == sum(entry.charge.cost is None for entry in given)
    for name in ("input", "output", "total", "cached", "cache_written", "reasoning"):
        counted = sum(getattr(entry.charge.usage, f"{name}_tokens") or 0 for entry in given)
        assert sum(getattr(each, f"{name}_tokens") for each in sums) == counted
    assert len({tuple(each.group.items()) for each in sums}) == len(sums)


def test_a_charge_takes_little_room_and_no_character_that_a_database_refuses() -> None:
    plain = ModelCharge("tiny", CostRole.REPLY, ModelUsage(3, 2, 5))
    assert charges_text([plain]) == '[["tiny","reply",5,3,2]]'
    assert charges_text([]) == ""
    odd = ModelCharge("a\x00b\ud800", CostRole.RETRY, ModelUsage())
    assert charges_in(charges_text([odd]))[0].model == "a?b?"


def test_the_day_is_that_of_the_calendar_in_utc() -> None:
    late = datetime.fromisoformat("2026-11-19T23:30:00-02:00")
    entry = CostEntry("acme", "r1", "r1", "Clerk", late, ModelCharge("m", CostRole.REPLY, ModelUsage()))
    assert [each.group for each in cost_sums([entry], [CostField.DAY])] == [{"day": "2026-11-20"}]


def test_a_sum_as_json_has_exact_amounts() -> None:
    cost = ModelCost(Decimal("0.10"), "EUR", "1")
    charge = ModelCharge("m", CostRole.REPLY, ModelUsage(3, 2, 5), cost, is_estimated=True)
    (whole,) = cost_sums([CostEntry("t", "r", "r", "a", datetime.now(UTC), charge)] * 3)
    assert isinstance(whole, CostSum)
    payload = whole.to_payload()
    assert payload["amounts"] == {"EUR": "0.3"}
    assert (payload["charges"], payload["estimated"], payload["total_tokens"]) == (3, 3, 15)


@pytest.mark.parametrize(
    ("amount", "text"),
    [
        ("0", "0"),
        ("100", "100"),
        ("0.10", "0.1"),
        ("1E+2", "100"),
        ("1E-12", "0.000000000001"),
        ("5.00", "5"),
    ],
)
def test_an_amount_keeps_its_digits(amount: str, text: str) -> None:
    assert amount_text(Decimal(amount)) == text


@pytest.mark.parametrize(
    "text",
    [
        "nothing",
        "{}",
        "[1]",
        "[[]]",
        '[["m"]]',
        '[["m","bribe"]]',
        '[["m","reply","5"]]',
        '[["m","reply",true]]',
        '[["m","reply",1,1,1,1,1,1,1,"x","USD","1"]]',
        '[["m","reply",1,1,1,1,1,1,1,"1",null,null]]',
        '[["m","reply",1,1,1,1,1,1,1,"1","USD","1",null,1,"more"]]',
    ],
)
def test_damaged_costs_are_refused(text: str) -> None:
    with pytest.raises(ValueError, match="says nothing about costs"):
        charges_in(text)

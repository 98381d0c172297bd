"""Names on the wire: allowed, readable, and reversible whatever they are."""

from __future__ import annotations

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pilotage.adapters.model_http.names import WireNames

ALLOWED = re.compile(r"[A-Za-z0-9_-]{1,64}")


@pytest.mark.parametrize(
    ("name", "wire"),
    [
        ("search", "search"),
        ("docs.search", "docs__search"),
        ("get weather!", "get_weather_"),
        ("a-b_c9", "a-b_c9"),
    ],
)
def test_a_name_is_kept_or_made_readable(name: str, wire: str) -> None:
    assert WireNames([name]).wire(name) == wire


def test_two_names_never_become_one() -> None:
    names = WireNames(["docs.search", "docs__search", "docs..search", "docs____search"])
    assert names.wire("docs__search") == "docs__search"
    assert re.fullmatch(r"docs__search_[0-9a-f]{8}", names.wire("docs.search"))


def test_a_tool_of_the_past_does_not_change_the_name_of_one_on_offer() -> None:
    assert WireNames(["docs.search"], ["docs__search"]).wire("docs.search") == "docs__search"


def test_the_order_of_tools_does_not_matter() -> None:
    tools = ["a.b", "a__b", "a b", "a_b", "x" * 70]
    forth, back = WireNames(tools), WireNames(reversed(tools))
    assert [forth.wire(tool) for tool in tools] == [back.wire(tool) for tool in tools]


names = st.text(st.sampled_from("ab._- é"), min_size=1, max_size=80)


@given(st.sets(names, min_size=1), st.sets(names))
def test_every_name_has_an_allowed_one_that_leads_back_to_it(offered: set[str], mentioned: set[str]) -> None:
    wire = WireNames(offered, mentioned)
    for name in offered | mentioned:
        assert ALLOWED.fullmatch(wire.wire(name))
        assert wire.own(wire.wire(name)) == name

"""The prefilter never skips a place at which a match begins."""

from __future__ import annotations

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pilotage.safety.redaction.prefilter import Prefilter
from pilotage.safety.redaction.syntax import parse

PATTERNS = [
    "abc",
    "(?i:aBc)d",
    r"\bab{2,3}c",
    r"(?<!a)b?c",
    "(?:ab)*c",
    "(?:a|bc)d",
    "a{0,3}b",
    r"(?:a[ -]?){2,3}\b",
    "a{2}.",
    r"\B(?:b|\bc)",
    "(?=[ab])[b-d]+",
]


@pytest.mark.parametrize("source", PATTERNS)
@given(text=st.text(alphabet="abcd -A", max_size=30), position=st.integers(1, 30))
def test_every_match_is_found(source: str, text: str, position: int) -> None:
    prefilter = Prefilter([parse(source), parse("dd")], [0, 0])
    starts = [i for i in range(position, len(text)) if re.compile(f"{source}|dd").match(text, i)]
    start = prefilter.next_start(text, position)
    assert position <= start
    assert not starts or start <= starts[0]


def test_plain_text_is_skipped_up_to_what_may_still_become_a_beginning() -> None:
    prefilter = Prefilter([parse(r"sk-\w{20}"), parse("AKIA[0-9A-Z]{16}")], [0, 0])
    text = "the quick brown fox skips over it. " * 50
    assert prefilter.next_start(text, 1) >= len(text) - 25


def test_the_beginning_of_a_match_is_where_the_search_stops() -> None:
    prefilter = Prefilter([parse(r"\bsk-\w{2,}"), parse(r"\b\w{1,64}@\w")], [0, 0])
    text = "nothing here, but sk-abc is a key" + " " * 99
    assert prefilter.next_start(text, 1) == text.index("sk-")


@pytest.mark.parametrize(("limit", "start"), [(0, 95), (1, 2), (3, 2), (5, 95)])
def test_a_candidate_that_counts_as_a_match_is_no_longer_than_its_beginning(limit: int, start: int) -> None:
    prefilter = Prefilter([parse("abbbc")], [limit])
    assert prefilter.next_start("  abb" + "-" * 94, 1) == start


@pytest.mark.parametrize("source", ["a?b", "a{1,3}b", "(?:a|b)c", "(?:ab)*c", r"\ba+b"])
def test_of_a_candidate_that_counts_at_once_only_the_first_character_is_asked_for(source: str) -> None:
    assert Prefilter([parse(source)], [1]).next_start("- a" + "-" * 20, 1) == 2


def test_a_beginning_that_the_end_cuts_off_is_not_skipped_for_a_later_one() -> None:
    assert Prefilter([parse("abcd"), parse("b")], [0, 0]).next_start("-" * 20 + "ab", 1) <= 20

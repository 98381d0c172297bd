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
    prefilter = Prefilter([parse(source), parse("dd")])
    starts = [i for i in range(position, len(text)) if re.compile(f"{source}|dd").match(text, i)]
    start = prefilter.next_start(text, position)
    assert position <= start
    assert not starts or start <= starts[0]


def test_plain_text_is_skipped_up_to_what_may_still_become_a_beginning() -> None:
    prefilter = Prefilter([parse(r"sk-\w{20}"), parse("AKIA[0-9A-Z]{16}")])
    text = "the quick brown fox skips over it. " * 50
    assert prefilter.next_start(text, 1) >= len(text) - 25


def test_the_beginning_of_a_match_is_where_the_search_stops() -> None:
    prefilter = Prefilter([parse(r"\bsk-\w{2,}"), parse(r"\b\w{1,64}@\w")])
    text = "nothing here, but sk-abc is a key" + " " * 99
    assert prefilter.next_start(text, 1) == text.index("sk-")

"""A patch: one place, and the same text whether it is made once or twice."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from examples.code_assistant.patching import PatchError, patched

WORDS = st.text("ab ", max_size=12)


@pytest.mark.parametrize(
    ("text", "old", "new", "result"),
    [
        ("say helo", "helo", "hello", "say hello"),
        ("say hello", "helo", "hello", "say hello"),
        ("b a", "a", "aa", "b aa"),
        ("b aa", "a", "aa", "b aa"),
        ("drop this", " this", "", "drop"),
        ("drop", " this", "", "drop"),
        ("same", "same", "same", "same"),
    ],
)
def test_where_it_said_one_thing_it_says_the_other(text: str, old: str, new: str, result: str) -> None:
    assert patched(text, old, new) == result


@pytest.mark.parametrize(
    ("text", "old", "new", "why"),
    [
        ("a a", "a", "b", "several places"),
        ("aab", "ab", "b", "several places"),
        ("x", "a", "b", "not there"),
        ("x", "", "b", "say which"),
    ],
)
def test_what_is_not_clear_is_refused(text: str, old: str, new: str, why: str) -> None:
    with pytest.raises(PatchError, match=why):
        patched(text, old, new)


@given(WORDS, WORDS, WORDS)
def test_twice_is_once(text: str, old: str, new: str) -> None:
    try:
        once = patched(text, old, new)
    except PatchError:
        return
    assert patched(once, old, new) == once

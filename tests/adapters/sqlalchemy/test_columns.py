"""What goes into a column comes out of it, whatever it is."""

from __future__ import annotations

import json
from collections.abc import Callable
from datetime import UTC, datetime, timedelta, timezone
from functools import partial

import pytest
from hypothesis import given
from hypothesis import strategies as st
from sqlalchemy.dialects import sqlite

from pilotage.adapters.sqlalchemy.columns import (
    MomentColumn,
    as_moment,
    from_stored,
    is_stored_as_it_is,
    moment_text,
    to_stored,
)

ANY_TEXT = st.text(st.characters(min_codepoint=0, max_codepoint=0x10FFFF, exclude_categories=()))


@given(ANY_TEXT)
def test_every_text_comes_back_and_every_database_takes_it(text: str) -> None:
    stored = to_stored(text)
    assert from_stored(stored) == text
    assert "\x00" not in stored
    stored.encode()


@pytest.mark.parametrize(
    "text", ["", "plain", "Grüße 🚢", "~", "~a", "a\x00b", "\ud83d", "\ud83d\ude00", "\\u0000", "\n\\"]
)
def test_awkward_texts_come_back(text: str) -> None:
    assert from_stored(to_stored(text)) == text


@pytest.mark.parametrize("text", ["plain", "Grüße 🚢", '{"a":"\\u0000"}'])
def test_ordinary_text_is_stored_as_it_is(text: str) -> None:
    assert to_stored(text) == text


@given(st.lists(st.one_of(st.text(st.sampled_from("a~\x00é\ud83d")), ANY_TEXT), max_size=4))
@pytest.mark.parametrize("put_together", ["".join, partial(json.dumps, ensure_ascii=False)])
def test_texts_that_are_looked_at_together_are_stored_as_they_are(
    put_together: Callable[[list[str]], str], texts: list[str]
) -> None:
    if is_stored_as_it_is(put_together(texts)):
        assert all(to_stored(text) == text for text in texts)


@pytest.mark.parametrize("text", ["", 'plain{"a":"\\n"}', "Grüße 🚢"])
def test_ordinary_texts_need_not_be_looked_at_one_by_one(text: str) -> None:
    assert is_stored_as_it_is(text)


def stored(moment: datetime) -> int:
    """A moment as an SQLite file keeps it."""
    found: int = MomentColumn().bind_processor(sqlite.dialect())(moment)
    return found


@given(st.datetimes(timezones=st.just(UTC)))
def test_moments_are_kept_to_the_microsecond(moment: datetime) -> None:
    assert MomentColumn().result_processor(sqlite.dialect(), None)(stored(moment)) == moment


def test_a_moment_is_the_same_wherever_it_was_said() -> None:
    here = datetime(2026, 3, 29, 3, 30, tzinfo=timezone(timedelta(hours=2)))
    assert stored(here) == stored(here.astimezone(UTC))


@pytest.mark.parametrize(
    "stored", [0, 1, 999_999, 1_000_000, 1_000_001, 1_795_000_000_000_000, -1, -1_000_001]
)
def test_the_text_of_a_stored_moment_is_that_of_the_moment(stored: int) -> None:
    assert moment_text(stored) == as_moment(stored).isoformat()


@given(st.datetimes(timezones=st.just(UTC)))
def test_the_text_of_every_moment_is_the_same_as_number_and_as_time(moment: datetime) -> None:
    number = (moment - datetime(1970, 1, 1, tzinfo=UTC)) // timedelta(microseconds=1)
    assert moment_text(number) == moment_text(moment) == moment.isoformat()

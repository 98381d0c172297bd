"""A cursor is three numbers in words; everything else is refused."""

from __future__ import annotations

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pilotage.errors import CallerError
from pilotage.runtime.events.feed import START, EventCursor

NUMBERS = st.integers(min_value=0, max_value=10**15 - 1)


@given(NUMBERS, NUMBERS, NUMBERS)
def test_a_cursor_comes_back_from_its_words(epoch: int, number: int, offset: int) -> None:
    cursor = EventCursor(epoch, number, offset)
    assert EventCursor.parse(str(cursor)) == cursor


def test_a_reader_begins_before_everything() -> None:
    assert str(START) == "0.0.0"
    assert EventCursor.parse("0.0.0") == START


@given(st.text() | st.from_regex(r"[0-9.]{1,12}"))
def test_whatever_is_no_cursor_is_refused_in_words(text: str) -> None:
    if re.fullmatch(r"[0-9]{1,15}(\.[0-9]{1,15}){2}", text):
        cursor = EventCursor.parse(text)
        assert [int(part) for part in text.split(".")] == [cursor.epoch, cursor.number, cursor.offset]
    else:
        with pytest.raises(
            CallerError, match="Give the cursor of a subscription, or none to read from the start"
        ):
            EventCursor.parse(text)


def test_the_words_about_a_long_text_are_short() -> None:
    with pytest.raises(CallerError) as error:
        EventCursor.parse(f"1.{'9' * 100_000}.0")
    assert len(str(error.value)) < 200

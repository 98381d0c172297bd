"""Cursors of events: three numbers as text; any other text is refused."""

from __future__ import annotations

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pilotage.errors import CallerError
from pilotage.runtime.events.feed import START, EventCursor

NUMBERS = st.integers(min_value=0, max_value=10**15 - 1)


@given(NUMBERS, NUMBERS, NUMBERS)
def test_a_cursor_is_parsed_from_its_text(epoch: int, number: int, offset: int) -> None:
    cursor = EventCursor(epoch, number, offset)
    assert EventCursor.parse(str(cursor)) == cursor


def test_the_start_is_before_every_event() -> None:
    assert str(START) == "0.0.0"
    assert EventCursor.parse("0.0.0") == START


@given(st.text() | st.from_regex(r"[0-9.]{1,12}"))
def test_a_text_that_is_no_cursor_is_refused(text: str) -> None:
    if re.fullmatch(r"[0-9]{1,15}(\.[0-9]{1,15}){2}", text):
        cursor = EventCursor.parse(text)
        assert [int(part) for part in text.split(".")] == [cursor.epoch, cursor.number, cursor.offset]
    else:
        with pytest.raises(
            CallerError, match="Give the cursor of a subscription, or none to read from the start"
        ):
            EventCursor.parse(text)


def test_the_error_about_a_long_text_is_short() -> None:
    with pytest.raises(CallerError) as error:
        EventCursor.parse(f"1.{'9' * 100_000}.0")
    assert len(str(error.value)) < 200

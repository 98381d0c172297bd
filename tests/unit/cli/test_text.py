"""Text with tones: what may reach a terminal, and how wide it is there."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pilotage.cli.text import (
    StreamWrapper,
    TextSpan,
    Tone,
    cleaned,
    columns,
    cut,
    line,
    one_line,
    plain,
    width,
    wrapped,
)


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("plain", "plain"),
        ("two\nlines\tand a tab", "two\nlines\tand a tab"),
        ("\x1b[31mred\x1b[0m", "\\x1b[31mred\\x1b[0m"),
        ("over\rwritten", "over\\rwritten"),
        ("bell\x07 back\x08", "bell\\x07 back\\x08"),
        ("turned \u202earound", "turned \\u202earound"),
        ("hidden\u200bspace", "hidden\\u200bspace"),
        ("line\u2028end", "line\\u2028end"),
        ("csi \x9b2J", "csi \\x9b2J"),
        ("half \ud800 pair", "half \\ud800 pair"),
        ("Grüße, 世界 👩\u200d🚀", "Grüße, 世界 👩\u200d🚀"),
    ],
)
def test_what_a_terminal_would_obey_is_written_out(text: str, shown: str) -> None:
    assert cleaned(text) == shown


@given(st.text())
def test_nothing_that_is_cleaned_steers_anything(text: str) -> None:
    assert not set(cleaned(text)) & {"\x1b", "\x9b", "\r", "\x08", "\x07", "\u202e", "\u2066"}
    assert cleaned(cleaned(text)) == cleaned(text)


@given(st.text(), st.integers(1, 30))
def test_a_cut_text_fits(text: str, cells: int) -> None:
    assert width(cut(text, cells)) <= cells


def test_wide_letters_take_two_cells() -> None:
    assert width("世界") == 4
    assert width("e\u0301") == 1
    assert cut("世界世界", 5) == "世界…"


def test_one_line_stays_one_line() -> None:
    assert one_line("a\n  b\x1b[2J") == "a b\\x1b[2J"
    assert one_line("x" * 300) == "x" * 199 + "…"


def test_columns_line_up_and_the_last_one_gives_way() -> None:
    rows = [
        [TextSpan("a"), TextSpan("世"), TextSpan("a long tale")],
        [TextSpan("bb"), TextSpan("c"), TextSpan("short")],
    ]
    assert plain(columns(rows)) == "a   世  a long tale\nbb  c   short\n"
    assert plain(columns(rows, room=16)) == "a   世  a long …\nbb  c   short\n"
    assert columns([]) == []


def test_lines_are_joined_without_blanks_at_their_ends() -> None:
    assert plain([line("a", TextSpan(" b  ")), ()]) == "a b\n\n"


@pytest.mark.parametrize(
    ("long", "room", "shown"),
    [
        (line("short"), 10, "short\n"),
        (line("one two three"), 8, "one two\n  three\n"),
        (line("  one two three"), 9, "  one two\n    three\n"),
        (line("key ", TextSpan("one two", hangs=True)), 9, "key one\n    two\n"),
        (line("a long key ", TextSpan("one two", hangs=True)), 16, "a long key one\n    two\n"),
        (line("go: ", TextSpan("pilotage run x", Tone.COMMAND)), 15, "go: pilotage \\\n  run x\n"),
        (line("ab", "cd ef"), 6, "abcd\n  ef\n"),
        (line("no-blank-at-all"), 5, "no-blank-at-all\n"),
        (line(TextSpan(" aaa"), TextSpan(" "), TextSpan("   aaa")), 4, " aaa\n    aaa\n"),
    ],
)
def test_a_long_line_is_broken_between_words(long: tuple[TextSpan, ...], room: int, shown: str) -> None:
    assert plain(wrapped(long, room)) == shown


@given(st.lists(st.text("ab 世", max_size=12), max_size=6), st.integers(4, 20))
def test_wrapping_loses_nothing_but_blanks_and_fits_unless_a_word_is_too_long(
    texts: list[str], room: int
) -> None:
    whole = line(*map(TextSpan, texts))
    shown = plain(wrapped(whole, room))
    assert shown.replace(" ", "").replace("\n", "") == "".join(texts).replace(" ", "")
    longest = max((width(word) for word in "".join(texts).split(" ")), default=0)
    assert all(width(each) <= max(room, longest + 6) for each in shown.splitlines())


@given(st.lists(st.text("ab \n", max_size=9), max_size=12), st.integers(1, 12))
def test_streamed_text_is_broken_between_words_however_it_comes(pieces: list[str], room: int) -> None:
    wrapper = StreamWrapper(room)
    shown = "".join(map(wrapper.feed, pieces)) + wrapper.end()
    text = "".join(pieces)
    assert shown.split() == text.split()
    longest = max(map(len, text.split()), default=0)
    assert all(len(each) <= max(room, longest) or not each[0].strip() for each in shown.split("\n") if each)


def test_a_streamed_word_is_held_until_it_is_complete_unless_it_is_long() -> None:
    wrapper = StreamWrapper(10)
    assert [wrapper.feed(each) for each in ("Good d", "ay, Coun", "tess", ".\n")] == [
        "Good",
        " day,",
        "",
        "\nCountess.\n",
    ]
    assert wrapper.feed("世界") == "世界"
    assert wrapper.end() == ""
    assert wrapper.feed("x" * 40) == "x" * 40

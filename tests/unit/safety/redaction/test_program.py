"""How much text a pattern may have to hold back, as a table."""

from __future__ import annotations

import pytest

from pilotage.safety.redaction.program import ScanProgram, longest_hold
from pilotage.safety.redaction.syntax import UnsupportedPatternError, parse


@pytest.mark.parametrize(
    ("source", "hold"),
    [
        ("a", 0),
        ("abc", 2),
        ("a|bcd", 2),
        ("abc?", 1),
        ("a(?:bcd)?", 2),
        (r"sk-\w+", 3),
        (r"sk-\w{20,}", 22),
        (r"a\b", 1),
        (r"\d{16}(?!\d)", 16),
        (r"\w{1,64}@\w", 65),
        (r"a+?b*", 0),
        ("a+b", None),
        (r"\w+\b", None),
        ("a.*?b", None),
        ("a(?:b*c)?", None),
        (r"sk-\w+(?:-\w+)*", 3),
    ],
)
def test_text_is_held_until_a_match_is_certain(source: str, hold: int | None) -> None:
    assert longest_hold(ScanProgram([parse(source)])) == hold


def test_the_kinds_of_characters_are_those_of_re() -> None:
    program = ScanProgram([parse(r"(?i:k)|\d|[a-f]")])
    kinds = {character: program.kind_of(character) for character in "kK\u212aé7٣afz😀"}
    assert kinds["k"] == kinds["K"] == kinds["\u212a"] == 0b001
    assert kinds["7"] == kinds["٣"] == 0b010
    assert kinds["a"] == kinds["f"] == 0b100
    assert kinds["z"] == kinds["é"] == kinds["😀"] == 0


def test_counts_that_multiply_without_bounds_are_refused() -> None:
    with pytest.raises(UnsupportedPatternError, match="repeats too much"):
        ScanProgram([parse("(?:(?:a{100}){100}){100}")])

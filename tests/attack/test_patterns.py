"""Texts that make redaction slow, and patterns that let them: every character is read a bounded number of times."""

from __future__ import annotations

import re
from random import Random

import pytest

from pilotage.errors import AgentDefinitionError
from pilotage.safety.redaction.cost import MOST_READINGS, MOST_STATES, is_fixed, readings
from pilotage.safety.redaction.policy import StreamingSensitivePattern
from pilotage.safety.redaction.scanner import Scanner, scan

pytestmark = pytest.mark.attack("patterns")

LENGTH = 1_200
# The pattern, and its max_candidate_length where it needs one.
ACCEPTED: list[tuple[str, int | None]] = [
    (r"\w{1,16}@", None),
    (r"\w{1,64}@", None),
    (r"\w{1,500}@", None),
    (r"\w{1,1000}@", 500),
    (r"\b\w{1,1000}@", None),
    (r"\b\w{1,3000}@", None),
    (r"(?<!\w)\w{1,1000}@", None),
    (r"(?<![\w.])[\w.]{1,1000}@", None),
    (r"\b[\w.+-]{1,64}@[\w-]{1,63}(?:\.[\w-]{2,63})+", None),
    (r"a[ab]{400}c", None),
    (r"a[ab]{1,400}c", None),
    (r"[ab]+c", 3_000),
    (r"(?:[ab][ab])+c", 3_000),
    (r"(?:[ab]{50})+c", 3_000),
    (r"(?:a|b|ab)+c", 3_000),
    (r"(?:a+)+b", 3_000),
    (r"(?:a|a)+@", 3_000),
    (r"(?:a+b+)+c", 3_000),
    (r"(?:a*b)+c", 3_000),
    (r"a(?:[ab]{400}c)?", None),
    (r"a(?:[ab]*c)?", 3_000),
    (r"(?:a|ab)(?:c|bcd){1,50}@", None),
    (r"<key>(?s:.*?)</key>", 3_000),
    (r"a.*?b.*?c.*?@", 3_000),
    (r"a(?s:.)*?aa@", 3_000),
    (r"(?i)(?:ab){1,200}@", None),
    (r"(?:a?){1}b{1,300}@", None),
    (r"a{1,400}b{1,100}@", None),
    (r"\d{1,300}(?!\d)@", None),
    (r"\B\w{1,400}@", None),
    (r"(?=a)\w{1,400}@", None),
    (r"-----BEGIN [A-Z ]{0,20}KEY-----(?s:.*?)-----END [A-Z ]{0,20}KEY-----", 3_000),
    (r"[ab]{1,7}a[ab]{1,7}c", None),
]
REFUSED: list[tuple[str, int | None]] = [
    (r"\w{1,1000}@", None),
    (r"\w{1,1000}@", 1_000),
    (r".{1,5000}@", None),
    (r"\b[\w.]{1,1000}@", None),
    (r"\B\w{1,1000}@", None),
    (r"(?<=a)\w{1,1000}@", None),
    (r"a[ab]{1,1000}c", None),
    (r"a[ab]{1000}c", None),
    (r"a(?:[ab]{1000}c)?", None),
    (r"[ab]{1,30}a[ab]{1,30}c", None),
    (r"\b[ab]{1,200}a[ab]{1,200}c", None),
    (r"\b\w{1,400}a\w{1,400}@", None),
    (r"x[ab]*a[ab]{20}c", 100),
    (r"(?:a{1,40}){1,40}b", None),
    (r"(?:\w{1,100}\.){1,20}@", None),
    (r"(?:a|b|ab|ba){1,300}c", None),
]


def texts(pattern: str) -> list[str]:
    """Texts that keep candidates open: what a pattern names, in runs, by chance, and cut by what it does not name."""
    chance = Random(pattern)  # noqa: S311 - a repeatable draw
    named = "".join(dict.fromkeys(re.findall(r"[ab]|\d", pattern))) or "ab"
    whole = re.sub(r"\W+", "", pattern) or "a"
    return [
        "a" * LENGTH,
        "".join(chance.choices("ab", k=LENGTH)),
        "".join(chance.choices("ab.", k=LENGTH)),
        "".join(chance.choices(f"{named}@ ", [20] * len(named) + [1, 1], k=LENGTH)),
        ("ab" * 290 + "x") * (LENGTH // 581),
        ("a" * 299 + " ") * (LENGTH // 300),
        (whole * LENGTH)[:LENGTH],
        "-----BEGIN KEY-----" * (LENGTH // 19),
        "<key>" * (LENGTH // 5),
        "1" * LENGTH,
    ]


@pytest.mark.parametrize(("pattern", "limit"), ACCEPTED)
def test_a_character_is_read_a_bounded_number_of_times(pattern: str, limit: int | None) -> None:
    defined = StreamingSensitivePattern("p", pattern, max_candidate_length=limit)
    rules = defined._rules
    most = (
        readings(rules.program, rules.automaton, defined.longest_hold)
        if not is_fixed(rules.trees[0])
        else defined.longest_hold
    )
    assert most <= MOST_READINGS
    for text in texts(pattern):
        scanner = Scanner(rules)
        for at in range(0, len(text), 7):
            scanner.push(text[at : at + 7])
        scanner.finish()
        assert scanner.steps <= (most + 4) * len(text)
    assert len(rules.automaton._states) <= 2 * MOST_STATES


@pytest.mark.parametrize(("pattern", "limit"), REFUSED)
def test_a_pattern_without_a_bearable_bound_is_refused_with_the_way_out(
    pattern: str, limit: int | None
) -> None:
    with pytest.raises(AgentDefinitionError) as refused:
        StreamingSensitivePattern("emails", pattern, max_candidate_length=limit)
    words = str(refused.value)
    assert "'emails'" in words
    assert repr(pattern) in words
    assert "smaller counts" in words


@pytest.mark.parametrize(
    ("pattern", "limit"), [(source, limit) for source, limit in ACCEPTED if limit is None]
)
def test_what_is_bounded_is_exact(pattern: str, limit: int | None) -> None:
    rules = StreamingSensitivePattern("p", pattern, max_candidate_length=limit)._rules
    for text in texts(pattern):
        short = text[-300:] + "@c" + text[:50]
        found = [(span.start, span.end) for span in scan(rules, short)[1]]
        assert found == [match.span() for match in re.finditer(pattern, short)]


def test_the_way_out_that_the_error_names_is_accepted() -> None:
    for pattern, limit in ((r"(?<![\w.])[\w.]{1,1000}@", None), (r"\w{1,1000}@", MOST_READINGS - 1)):
        StreamingSensitivePattern("p", pattern, max_candidate_length=limit)

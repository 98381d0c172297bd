"""The parser reads what `re` reads, and refuses what cannot be decided while text streams."""

from __future__ import annotations

import re

import pytest

from pilotage.safety.redaction.syntax import (
    Alternation,
    Atom,
    Boundary,
    Look,
    Repetition,
    Sequence,
    Side,
    Tree,
    UnsupportedPatternError,
    parse,
)

NO = re.RegexFlag(0)
A, B, DIGIT, WORD = Atom("a", NO), Atom("b", NO), Atom(r"\d", NO), Atom(r"\w", NO)

TREES: list[tuple[str, Tree]] = [
    ("a", A),
    ("ab", Sequence((A, B))),
    ("a|b", Alternation((A, B))),
    ("(a)(?:b)", Sequence((A, B))),
    ("(?P<n>a)b", Sequence((A, B))),
    ("a(?#why)b", Sequence((A, B))),
    ("a+", Repetition(A, 1, None, lazy=False)),
    ("ba*?", Sequence((B, Repetition(A, 0, None, lazy=True)))),
    ("a{3}", Repetition(A, 3, 3, lazy=False)),
    ("a{2,}?", Repetition(A, 2, None, lazy=True)),
    ("ba{,4}", Sequence((B, Repetition(A, 0, 4, lazy=False)))),
    ("ba?", Sequence((B, Repetition(A, 0, 1, lazy=False)))),
    ("a{}", Sequence((A, Atom(r"\{", NO), Atom(r"\}", NO)))),
    ("a{x", Sequence((A, Atom(r"\{", NO), Atom("x", NO)))),
    ("[]a]", Atom("[]a]", NO)),
    ("[^]a]", Atom("[^]a]", NO)),
    (r"[\]a]", Atom(r"[\]a]", NO)),
    (r"\.", Atom(r"\.", NO)),
    (r"\x41", Atom(r"\x41", NO)),
    (r"\u00e9", Atom(r"\u00e9", NO)),
    (r"\U0001F600", Atom(r"\U0001F600", NO)),
    (r"\N{BULLET}", Atom(r"\N{BULLET}", NO)),
    (".", Atom(".", NO)),
    ("(?s).", Atom(".", re.DOTALL)),
    ("(?i)a", Atom("a", re.IGNORECASE)),
    ("(?i:a)b", Sequence((Atom("a", re.IGNORECASE), B))),
    ("(?i)(?-i:a)", A),
    (r"(?a)\d", Atom(r"\d", re.ASCII)),
    (r"(?a)(?u:\d)", DIGIT),
    (r"\ba", Sequence((Boundary(WORD, wanted=True), A))),
    (r"a\B", Sequence((A, Boundary(WORD, wanted=False)))),
    (r"(?<!\d)a(?=b)", Sequence((Look(Side.BEHIND, DIGIT, False), A, Look(Side.AHEAD, B, True)))),
    (r"(?<=b)a(?!\d)", Sequence((Look(Side.BEHIND, B, True), A, Look(Side.AHEAD, DIGIT, False)))),
]


@pytest.mark.parametrize(("source", "tree"), TREES, ids=[source for source, _ in TREES])
def test_a_pattern_is_read_as_its_structure(source: str, tree: Tree) -> None:
    re.compile(source)
    assert parse(source) == tree


@pytest.mark.parametrize(
    ("source", "construct"),
    [
        ("a*", "matches the empty text"),
        ("(?:a|)", "matches the empty text"),
        (r"\b", "matches the empty text"),
        ("(?:a*)+b", "repeats something that may be empty before position 7"),
        ("(?:a?){2}b", "repeats something that may be empty before position 9"),
        ("a*+b", "uses a possessive quantifier before position 3"),
        ("^a", "uses the anchor '^' at position 0"),
        ("a$", "uses the anchor '$' at position 1"),
        (r"\Aa", r"uses the anchor '\\A' at position 0"),
        (r"a\Z", r"uses the anchor '\\Z' at position 1"),
        (r"(a)\1", "uses a back-reference or an octal escape at position 3"),
        (r"\07", "uses a back-reference or an octal escape at position 0"),
        ("(?P<n>a)(?P=n)", "uses a back-reference at position 8"),
        ("(?>a)", "uses an atomic group at position 0"),
        ("(a)(?(1)b|c)", "uses a conditional group at position 3"),
        ("a(?=bc)", "looks at more than one neighbouring character at position 4"),
        ("(?<=b|c)a", "looks at more than one neighbouring character at position 4"),
        ("(?x) a", "uses the flag 'x' at position 4"),
    ],
)
def test_what_cannot_be_decided_is_refused(source: str, construct: str) -> None:
    re.compile(source)
    with pytest.raises(UnsupportedPatternError) as caught:
        parse(source)
    assert caught.value.construct == construct

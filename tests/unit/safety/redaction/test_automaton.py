"""The automaton stays exact and small when a text makes it learn more states than it keeps."""

from __future__ import annotations

import random
import re

import pytest

from pilotage.safety.redaction.automaton import Automaton
from pilotage.safety.redaction.program import ScanProgram
from pilotage.safety.redaction.scanner import Rule, Rules, Scanner, scan
from pilotage.safety.redaction.syntax import parse


@pytest.mark.slow
def test_what_is_remembered_does_not_grow_with_the_text() -> None:
    """Which of the last twenty letters were an `a` makes a million states; most are soon forgotten."""
    source = "x[ab]*a[ab]{20}c"
    letters = random.Random(7).choices("ab", k=20_000)  # noqa: S311 - no secret
    text = "x" + "".join(letters) + "c"
    rules = Rules([Rule(parse(source), "")])
    peak = 0
    scanner = Scanner(rules)
    for character in text:
        scanner.push(character)
        peak = max(peak, rules.automaton._remembered)
    scanner.finish()
    assert rules.automaton._remembered < peak <= 100_000 + len(rules.program.nodes)
    assert [(span.start, span.end) for span in scanner.spans] == [m.span() for m in re.finditer(source, text)]


@pytest.mark.slow
def test_a_state_that_somebody_still_holds_forgets_its_edges_too() -> None:
    rules = Rules([Rule(parse("x[ab]*a[ab]{20}c"), "")])
    parked = rules.automaton.start("")
    follows = parked["x"]
    letters = random.Random(7).choices("ab", k=20_000)  # noqa: S311 - no secret
    scan(rules, "x" + "".join(letters))
    assert (len(parked), len(parked.edges)) == (0, 0)
    assert type(parked["x"]) is type(follows)


def test_characters_of_one_kind_share_their_edges() -> None:
    automaton = Automaton(ScanProgram([parse("[a-z][a-z]?1")]), ("",), (0,))
    start = automaton.start("")
    assert start["a"] is start["b"]
    assert start["a"] is not start["1"]
    assert len(start.edges) == 2


def test_states_are_the_same_wherever_the_text_leads_to_them() -> None:
    automaton = Automaton(ScanProgram([parse(r"\bab")]), ("",), (0,))
    assert automaton.start("x") is automaton.start("7")
    assert automaton.start("") is automaton.start("-")
    assert automaton.start("x") is not automaton.start("-")

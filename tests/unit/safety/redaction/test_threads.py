"""Threads keep the order in which a backtracking matcher would try."""

from __future__ import annotations

import pytest

from pilotage.safety.redaction.program import ScanProgram
from pilotage.safety.redaction.syntax import parse
from pilotage.safety.redaction.threads import Arrival, Threads, ThreadStep


def step(program: ScanProgram, before: str, character: str) -> ThreadStep:
    """One attempt that begins behind a character, taken over another."""
    threads = Threads(program)
    settled, _ = threads.settle([threads.begin(program.kind_of(before))], program.kind_of(character))
    return ThreadStep(threads, settled, program.kind_of(character))


@pytest.mark.parametrize(
    ("patterns", "arrived", "living"),
    [
        (["a"], Arrival(0, 0), 0),
        (["ab"], None, 1),
        (["a+"], Arrival(0, 0), 1),
        (["a+?"], Arrival(0, 0), 0),
        (["ab|a"], Arrival(0, 0), 1),
        (["a|ab"], Arrival(0, 0), 0),
        (["ab", "a"], Arrival(0, 1), 1),
        (["a", "ab"], Arrival(0, 0), 0),
        ([r"a\b", "a"], Arrival(0, 1), 1),
        ([r"a\b"], None, 1),
        (["b"], None, 0),
        ([r"(?<=x)a"], Arrival(0, 0), 0),
        ([r"(?<!x)a"], None, 0),
    ],
)
def test_what_arrives_ends_all_that_is_less_wanted(
    patterns: list[str], arrived: Arrival | None, living: int
) -> None:
    taken = step(ScanProgram([parse(source) for source in patterns]), "x", "a")
    assert taken.arrived == arrived
    assert sum(map(len, taken.attempts)) == living


def test_a_condition_is_decided_by_the_next_character() -> None:
    program = ScanProgram([parse(r"a\b")])
    threads = Threads(program)
    taken = step(program, "", "a")
    assert threads.settle(taken.attempts, program.kind_of("-"))[1] == Arrival(0, 0)
    assert threads.settle(taken.attempts, program.kind_of("b"))[1] is None


def test_of_two_threads_at_one_node_the_earlier_start_lives() -> None:
    program = ScanProgram([parse("a+b")])
    threads = Threads(program)
    first = step(program, "", "a").attempts[0]
    kind = program.kind_of("a")
    taken = ThreadStep(threads, [first, threads.begin(kind)], kind)
    assert taken.living == [0]

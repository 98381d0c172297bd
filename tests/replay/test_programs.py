"""Every program of the kit: paused before every action, killed behind every effect and at half of the commits.

A deterministic program completes with the output of its undisturbed run, and no person is asked without a crash. Any
other one does no effect twice: it completes, or diverges before the second one, at a row that is written beside it.
`make torture` kills at every commit, and also the process that goes on after each pause.
"""

from __future__ import annotations

import pytest

import tests.replay.programs as _programs
from tests.replay.kit import PROGRAMS, Program
from tests.replay.story import try_everywhere

assert _programs.__all__


@pytest.mark.filterwarnings("ignore")
@pytest.mark.usefixtures("quiet")
@pytest.mark.parametrize("program", PROGRAMS.values(), ids=PROGRAMS)
def test_a_program_gets_in_replay_what_it_got_live(program: Program, request: pytest.FixtureRequest) -> None:
    is_exhaustive = request.config.getoption("--exhaustive")
    tried = try_everywhere(program, with_pairs=is_exhaustive, is_sample=not is_exhaustive)
    assert tried.is_as_it_should, tried.places[tried.worst]


def test_most_programs_of_the_kit_are_deterministic() -> None:
    assert sum(program.is_deterministic for program in PROGRAMS.values()) >= 45
    assert len(PROGRAMS) >= 60

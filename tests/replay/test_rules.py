"""Each of rules 11 to 18 is needed: without it at least three programs of the kit fail as it is written beside them."""

from __future__ import annotations

import random

import pytest

import tests.replay.programs as _programs
from tests.crash.planted import Planting
from tests.replay.kit import PROGRAMS
from tests.replay.rules import BUILDS, verdicts_without
from tests.replay.story import Verdict, try_losing

assert _programs.__all__


@pytest.mark.filterwarnings("ignore")
@pytest.mark.usefixtures("quiet")
@pytest.mark.parametrize("rule", BUILDS, ids=lambda rule: f"{rule} {BUILDS[rule].rule}")
def test_without_a_rule_programs_fail(rule: int, monkeypatch: pytest.MonkeyPatch) -> None:
    random.seed(rule)
    planting = Planting(monkeypatch)
    BUILDS[rule].plant(planting)
    assert verdicts_without(rule) == BUILDS[rule].fails
    assert planting.stumbles == []


@pytest.mark.usefixtures("quiet")
@pytest.mark.parametrize("name", BUILDS[18].lost)
def test_a_record_that_lost_rows_interrupts_a_program(name: str) -> None:
    assert try_losing(PROGRAMS[name], *BUILDS[18].lost[name]) is Verdict.DAMAGED


def test_each_of_the_rules_has_a_build_that_fails_three_programs() -> None:
    assert list(BUILDS) == list(range(11, 19))
    assert all(len(build.fails) >= 3 for build in BUILDS.values())

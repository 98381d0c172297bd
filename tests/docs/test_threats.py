"""The page of threats: its counts come from a run of `make attack`, and it names tests that exist."""

from __future__ import annotations

import re

import pytest
from tools import attacks

from tests.attack.tally import BROKEN, KIND, TRIED, Tally, tally_of
from tests.docs.blocks import ROOT

MODULES = sorted((ROOT / "tests" / "attack").glob("test_*.py"))


def test_the_table_has_the_counts_of_the_last_complete_run() -> None:
    expected = attacks.written(attacks.recorded())
    assert expected in attacks.PAGE.read_text(), "write the table again: python -m tools.attacks"


def test_every_kind_of_attack_has_a_row() -> None:
    marked = {
        kind for module in MODULES for kind in re.findall(r'mark\.attack\("([^"]+)"\)', module.read_text())
    }
    assert marked == attacks.KINDS.keys()
    results = attacks.recorded()
    assert results is None or marked == results["kinds"].keys()


def test_every_named_test_exists() -> None:
    named = set(re.findall(r"`(tests/[^`]+)`", attacks.PAGE.read_text()))
    assert named
    assert [each for each in sorted(named) if not (ROOT / each).exists()] == []


def _report(outcome: str, **properties: object) -> pytest.TestReport:
    report = pytest.TestReport("t", ("t", 0, "t"), {}, outcome, None, "call")  # type: ignore[arg-type]
    report.user_properties = list(properties.items())
    return report


@pytest.mark.parametrize(
    ("reports", "expected"),
    [
        ([_report("passed", **{KIND: "gate"})] * 2, Tally(2, 0)),
        ([_report("failed", **{KIND: "gate"})], Tally(1, 1)),
        ([_report("passed", **{KIND: "gate", TRIED: 200, BROKEN: 0})], Tally(200, 0)),
        ([_report("failed", **{KIND: "gate", TRIED: 200, BROKEN: 3})], Tally(200, 3)),
        (
            [_report("failed", **{KIND: "gate", TRIED: 200}), _report("passed", **{KIND: "gate"})],
            Tally(201, 1),
        ),
    ],
)
def test_attacks_are_counted(reports: list[pytest.TestReport], expected: Tally) -> None:
    assert tally_of([*reports, _report("failed")]) == {"gate": expected}
    assert expected.held == expected.tried - expected.broken

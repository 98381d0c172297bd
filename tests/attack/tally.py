"""Counts of attacks by kind: tried, held and broken.

A test is one attack, unless it records the property `attacks_tried`, and then `attacks_broken`, before it fails.
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

import pytest

KIND, TRIED, BROKEN = "attack", "attacks_tried", "attacks_broken"


@dataclass(frozen=True)
class Tally:
    tried: int = 0
    broken: int = 0

    @property
    def held(self) -> int:
        return self.tried - self.broken

    def __add__(self, other: Tally) -> Tally:
        return Tally(self.tried + other.tried, self.broken + other.broken)


def tally_of(reports: Iterable[pytest.TestReport | pytest.CollectReport]) -> dict[str, Tally]:
    """Return the attacks of the reports by kind; reports of other tests are left out."""
    found = dict[str, Tally]()
    for report in reports:
        properties = dict(getattr(report, "user_properties", ()))
        kind = properties.get(KIND)
        if isinstance(kind, str):
            found[kind] = found.get(kind, Tally()) + _one(properties, failed=report.failed)
    return dict(sorted(found.items()))


def write(file: Path, kinds: dict[str, Tally]) -> None:
    """Write the counts of a run that ends now."""
    counts = {
        kind: {"tried": each.tried, "held": each.held, "broken": each.broken} for kind, each in kinds.items()
    }
    file.write_text(json.dumps({"date": f"{datetime.now(UTC):%Y-%m-%d}", "kinds": counts}, indent=2) + "\n")


def _one(properties: dict[str, object], *, failed: bool) -> Tally:
    tried, broken = properties.get(TRIED, 1), properties.get(BROKEN, 0)
    assert isinstance(tried, int)
    assert isinstance(broken, int)
    return Tally(tried, max(broken, 1) if failed else 0)

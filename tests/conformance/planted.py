"""Running a kit against an adapter with a known bug: which of the kit's tests notice it."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from inspect import signature
from itertools import product
from typing import Any

import pytest

from pilotage.agent.ports.commit_rules import Receipt
from pilotage.agent.ports.journal import JournalCommit

Fixtures = Callable[[], Mapping[str, object]]


async def failing_tests(kit: type, fixtures: Fixtures) -> list[str]:
    """The names of the tests of a kit that fail; each gets fixtures of its own."""
    names = [name for name in dir(kit) if name.startswith("test_")]
    return [name for name in names if not await _passes(kit, name, fixtures)]


def receipt_of(commit: JournalCommit) -> Receipt | None:
    """What the double knows a commit by that it has written."""
    return (commit.token, commit.rows[-1].seq) if commit.rows else None


async def _passes(kit: type, name: str, fixtures: Fixtures) -> bool:
    test = getattr(kit(), name)
    for parameters in _parameters(test):
        given = {**fixtures(), **parameters}
        try:
            await test(**{name: given[name] for name in signature(test).parameters})
        except (Exception, pytest.fail.Exception):  # noqa: BLE001 - however the test fails, it noticed
            return False
    return True


def _parameters(test: Any) -> Iterator[Mapping[str, object]]:
    marks = [mark for mark in getattr(test, "pytestmark", []) if mark.name == "parametrize"]
    names, values = [mark.args[0] for mark in marks], [mark.args[1] for mark in marks]
    yield from (dict(zip(names, each, strict=True)) for each in product(*values))

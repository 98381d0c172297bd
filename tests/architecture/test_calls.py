"""A call with many arguments names them: no more than five are given by position."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

import pilotage

SOURCE = Path(pilotage.__file__).parent

MOST = 5

ANY_NUMBER = {"Table", "table", "create_table", "problem_responses"}
"""Functions of any number of like arguments: columns, statuses."""

EVERY_EFFECT = {"new_action", "add_row", "_new_row", "recorded_row"}
"""The makers of actions and of rows: called for every effect, where names would cost time."""


def long_calls() -> Iterator[tuple[str, str]]:
    """Yield the callee and the place of each call with more than five arguments by position."""
    for path in SOURCE.rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.Call) and len(node.args) > MOST:
                callee = ast.unparse(node.func).rpartition(".")[2]
                yield callee, f"{path.relative_to(SOURCE)}:{node.lineno}"


def test_no_call_has_more_than_five_arguments_by_position() -> None:
    exempt = ANY_NUMBER | EVERY_EFFECT
    assert [f"{place}: {callee}" for callee, place in long_calls() if callee not in exempt] == []


def test_each_exemption_is_in_use() -> None:
    assert {callee for callee, _ in long_calls()} == ANY_NUMBER | EVERY_EFFECT

"""Sizes that keep modules and functions readable, and what hides types rare."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

import pilotage

SOURCE = Path(pilotage.__file__).parent
RELEASED = "adapters/sqlalchemy/migrations/versions/"
"""Migrations: a released one never changes."""

MOST_LINES_OF_A_MODULE = 450
MOST_LINES_OF_A_FUNCTION = 60
MOST_CASTS = 120

TREES = {
    path.relative_to(SOURCE).as_posix(): ast.parse(path.read_text())
    for path in SOURCE.rglob("*.py")
    if not path.relative_to(SOURCE).as_posix().startswith(RELEASED)
}


def lines_of(node: ast.stmt) -> int:
    return (node.end_lineno or node.lineno) - node.lineno + 1


def test_a_module_can_be_read_in_one_sitting() -> None:
    ends = {module: tree.body[-1].end_lineno or 0 for module, tree in TREES.items() if tree.body}
    assert {module: end for module, end in ends.items() if end > MOST_LINES_OF_A_MODULE} == {}


def test_a_function_fits_a_screen() -> None:
    long = {
        f"{module}: {node.name}": lines_of(node)
        for module, tree in TREES.items()
        for node in ast.walk(tree)
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
    }
    assert {name: lines for name, lines in long.items() if lines > MOST_LINES_OF_A_FUNCTION} == {}


def test_casts_are_rare() -> None:
    calls = (node for tree in TREES.values() for node in ast.walk(tree) if isinstance(node, ast.Call))
    assert sum(getattr(call.func, "id", "") == "cast" for call in calls) < MOST_CASTS


@pytest.mark.parametrize("lines", [MOST_LINES_OF_A_FUNCTION, MOST_LINES_OF_A_FUNCTION + 1])
def test_all_lines_of_a_function_count(lines: int) -> None:
    (function,) = ast.parse("def f():\n" + "    pass\n" * (lines - 1)).body
    assert lines_of(function) == lines

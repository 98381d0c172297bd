"""There is one way to the world: what looks an effect up, records it or uses an approval up has one caller."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

import pilotage.runtime

RUNTIME = Path(pilotage.runtime.__file__).parent

ONE_CALLER = {
    ("replay", "take"): "door/door.py",
    ("ledger", "append"): "door/outcome.py",
    ("_questions", "use_up"): "people/questions.py",
    ("questions", "use_up"): "people/questions.py",
    ("effect", "act"): "door/door.py",
    ("admission", "stages"): "door/door.py",
}
"""Receiver and method or attribute, and the one module that may use it."""


def uses() -> dict[tuple[str, str], set[str]]:
    """The modules of the runtime that use each of them."""
    found: dict[tuple[str, str], set[str]] = {key: set() for key in ONE_CALLER}
    for path in RUNTIME.rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.Attribute):
                owner = node.value
                receiver = owner.attr if isinstance(owner, ast.Attribute) else getattr(owner, "id", "")
                for name in (receiver, receiver.removeprefix("_")):
                    if (name, node.attr) in found:
                        found[name, node.attr].add(str(path.relative_to(RUNTIME)))
    return found


@pytest.mark.parametrize("key", ONE_CALLER, ids=".".join)
def test_it_has_one_caller(key: tuple[str, str]) -> None:
    assert uses()[key] == {ONE_CALLER[key]}


def test_stages_are_made_by_the_admission_alone() -> None:
    makers = {
        str(path.relative_to(RUNTIME))
        for path in RUNTIME.rglob("*.py")
        for node in ast.walk(ast.parse(path.read_text()))
        if isinstance(node, ast.ClassDef) and any(getattr(base, "id", "") == "Stage" for base in node.bases)
    }
    assert makers == {"door/admission.py", "door/spending_stages.py"}

"""A class name is defined once in the project: searching for it finds one class."""

from __future__ import annotations

import ast
from collections import defaultdict
from pathlib import Path

import pilotage

SOURCE = Path(pilotage.__file__).parent

BOTH_PUBLIC = {"Transcript": {"context/transcript.py", "runtime/events/feed.py"}}
"""Names that two packages export; their users import them from either."""


def definitions() -> dict[str, set[str]]:
    """Return the modules that define each class at their top level."""
    found: dict[str, set[str]] = defaultdict(set)
    for path in SOURCE.rglob("*.py"):
        for node in ast.parse(path.read_text()).body:
            if isinstance(node, ast.ClassDef):
                found[node.name].add(str(path.relative_to(SOURCE)))
    return found


def test_a_class_name_is_defined_once() -> None:
    twice = {name: modules for name, modules in definitions().items() if len(modules) > 1}
    assert twice == BOTH_PUBLIC

"""Deciding which plugins and contributions are loaded."""

from __future__ import annotations

from importlib.metadata import EntryPoint

import pytest

from pilotage.container.plugins import Extension, Selection, select_contributions, select_plugins


def extension(name: str, feature: str | None = None) -> Extension:
    return Extension(name, name, feature or name, EntryPoint(name, f"{name}:initialize", "group"))


A, B, C = extension("a"), extension("b"), extension("c")


def chosen(selection: Selection) -> list[str]:
    return [extension.name for extension in selection.chosen]


@pytest.mark.parametrize(
    ("include", "exclude", "active", "reasons"),
    [
        (None, [], ["a", "b", "c"], []),
        (None, ["b"], ["a", "c"], ["excluded"]),
        (["b"], [], ["b"], ["not included", "not included"]),
        (["a", "b"], ["a"], ["b"], ["excluded", "not included"]),
        ([], [], [], ["not included"] * 3),
    ],
)
def test_plugins_are_active_if_included_and_not_excluded(
    include: list[str] | None, exclude: list[str], active: list[str], reasons: list[str]
) -> None:
    selection = select_plugins([A, B, C], include, exclude)
    assert chosen(selection) == active
    assert [skipped.reason for skipped in selection.skipped] == reasons


@pytest.mark.parametrize(
    ("active", "loaded", "reason"),
    [
        ({"a", "b"}, True, None),
        ({"a"}, False, "plugin 'b' not active"),
        ({"b"}, False, "plugin 'a' not active"),
        (set(), False, "plugins 'a' and 'b' not active"),
    ],
)
def test_a_contribution_needs_its_feature_and_its_provider(
    active: set[str], loaded: bool, reason: str | None
) -> None:
    selection = select_contributions([extension("b", feature="a")], active)
    assert bool(selection.chosen) is loaded
    assert [skipped.reason for skipped in selection.skipped] == ([reason] if reason else [])

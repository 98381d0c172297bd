"""Which loop an agent gets: a value, an installed one by name, the default."""

from __future__ import annotations

from importlib.metadata import EntryPoint
from pathlib import Path
from typing import cast

import pytest

from pilotage.agent.ports.architecture import Architecture
from pilotage.architectures.react import React
from pilotage.errors import AgentDefinitionError
from pilotage.runtime.architecture.registry import ARCHITECTURES, find_architecture, load_architecture


def entry(name: str, value: str) -> EntryPoint:
    return EntryPoint(name, value, ARCHITECTURES)


REACT = entry("react", "pilotage.architectures.react:React")
OTHER = entry("other", "nowhere.at_all:Other")


@pytest.fixture
def installed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A package on the path that registers React under its own name and another one."""
    info = tmp_path / "loops-1.0.dist-info"
    info.mkdir()
    info.joinpath("METADATA").write_text("Metadata-Version: 2.1\nName: loops\nVersion: 1.0\n")
    info.joinpath("entry_points.txt").write_text(
        f"[{ARCHITECTURES}]\nreact = {REACT.value}\nmy-loop = {REACT.value}\n"
    )
    monkeypatch.syspath_prepend(str(tmp_path))


def test_a_value_is_taken_as_it_is() -> None:
    wanted = React(max_turns=3)
    assert find_architecture(wanted) is wanted


@pytest.mark.usefixtures("installed")
@pytest.mark.parametrize("wanted", [None, "react", "my-loop"])
def test_a_name_is_looked_up_among_the_installed_and_nothing_means_react(wanted: str | None) -> None:
    assert find_architecture(wanted) == React()
    assert find_architecture(wanted) is find_architecture(wanted)


@pytest.mark.parametrize(
    ("name", "installed", "words"),
    [
        ("raect", [REACT, OTHER], "no architecture 'raect' is installed. Installed are: 'other', 'react'."),
        ("react", [], "Installed are: none."),
        ("react", [REACT, entry("react", "my.loops:Mine")], "installed twice: my.loops:Mine and pilotage"),
        ("other", [OTHER], r"'other' \(nowhere.at_all:Other\) failed: ModuleNotFoundError"),
        (
            "text",
            [entry("text", "builtins:str")],
            "what builtins:str makes for the architecture 'text' is no arch",
        ),
        (
            "of-class",
            [entry("of-class", "tests.unit.runtime.architecture.test_registry:a_class")],
            "is a class",
        ),
    ],
)
def test_what_cannot_be_had_is_said_with_the_way_out(
    name: str, installed: list[EntryPoint], words: str
) -> None:
    with pytest.raises(AgentDefinitionError, match=words):
        load_architecture(name, installed)


def a_class() -> type:
    return React


def test_a_package_that_is_found_twice_counts_once() -> None:
    assert load_architecture("react", [REACT, REACT]) == React()


def test_others_are_not_imported_by_the_way() -> None:
    assert load_architecture("react", [OTHER, REACT]) == React()


@pytest.mark.parametrize(
    ("wanted", "words"),
    [
        (React, r"is a class. Hand over a value of it: React\(\)."),
        (object(), "is no architecture. It needs name"),
    ],
)
def test_what_is_no_architecture_is_refused(wanted: object, words: str) -> None:
    with pytest.raises(AgentDefinitionError, match=words):
        find_architecture(cast(Architecture, wanted))


def test_an_architecture_that_needs_workers_cannot_be_had_by_name_alone() -> None:
    with pytest.raises(
        AgentDefinitionError, match="'router' needs routes, so its name is not enough"
    ) as caught:
        find_architecture("router")
    assert "Hand over a value: architecture=Router(routes=...)." in str(caught.value)


@pytest.mark.parametrize(
    "name", ["react", "plan_and_execute", "rewoo", "reflexion", "self_refine", "tree_of_thoughts"]
)
def test_those_that_need_nothing_are_found_by_name(name: str) -> None:
    assert find_architecture(name).name == name

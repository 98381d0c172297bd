"""What `make` installs is pinned by hash, all of it, and from nowhere in particular."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

ROOT = Path(__file__).parents[2]
LOCK = (ROOT / "constraints.txt").read_text()
DEMO = (ROOT / "constraints-demo.txt").read_text()
PAGE = (ROOT / "docs/explanation/threats.md").read_text()
ENTRY = re.compile(
    r"^(?P<pin>[^\s#].*?)(?: \\)?\n(?P<hashes>(?:    --hash=sha256:[0-9a-f]{64}(?: \\)?\n)*)", re.MULTILINE
)
PINS = [(Requirement(each["pin"]), each["hashes"].count("--hash")) for each in ENTRY.finditer(LOCK)]


def declared() -> list[str]:
    """Return what the project says it needs, to run, to be built and to be worked on."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())
    extras = project["project"]["optional-dependencies"].values()
    groups = [
        [each for each in group if isinstance(each, str)] for group in project["dependency-groups"].values()
    ]
    needed = [*project["project"]["dependencies"], *project["build-system"]["requires"]]
    return [*needed, "pip", "editables", *(each for group in (*extras, *groups) for each in group)]


def test_everything_is_pinned_and_has_hashes() -> None:
    assert len(PINS) > 50
    for requirement, hashes in PINS:
        assert hashes, requirement.name
        assert [each.operator for each in requirement.specifier] == ["=="], requirement.name


@pytest.mark.parametrize("needed", sorted(set(declared())))
def test_what_the_project_needs_is_there_in_a_version_that_fits(needed: str) -> None:
    wanted = Requirement(needed)
    name = canonicalize_name(wanted.name)
    pinned = [each for each, _ in PINS if canonicalize_name(each.name) == name]
    versions = [each.version for pin in pinned for each in pin.specifier]
    assert versions
    assert all(wanted.specifier.contains(version, prereleases=True) for version in versions)


def test_the_demo_installs_a_part_of_it_in_the_same_versions() -> None:
    everything = {each[0] for each in ENTRY.finditer(LOCK)}
    part = {each[0] for each in ENTRY.finditer(DEMO)}
    assert part < everything
    names = {Requirement(each["pin"]).name for each in ENTRY.finditer(DEMO)}
    assert {"pydantic", "sqlalchemy", "typer", "httpx", "hatchling"} <= names
    assert not {"mypy", "basedpyright", "zensical", "pytest"} & names


def test_there_is_no_address_in_it() -> None:
    assert "://" not in LOCK
    assert not re.search(r"^\s*--(?!hash)", LOCK, re.MULTILINE)


def test_make_checks_the_hashes_and_builds_nothing_that_it_fetches() -> None:
    makefile = (ROOT / "Makefile").read_text()
    assert "--only-binary :all: --require-hashes --requirement constraints.txt" in makefile
    assert "--only-binary :all: --require-hashes --requirement constraints-demo.txt" in makefile
    assert "--no-deps --no-build-isolation --editable ." in makefile


@pytest.mark.parametrize("path", sorted(set(re.findall(r"`(tests/[\w/.]+)`", PAGE))))
def test_the_page_of_threats_names_tests_that_there_are(path: str) -> None:
    assert (ROOT / path).exists()

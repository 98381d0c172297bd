"""Files for contributors name make targets that there are, and only what the project installs."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
MAKEFILE = (ROOT / "Makefile").read_text()
TARGETS = set(re.findall(r"^([a-z][a-z-]*):", MAKEFILE, re.MULTILINE))
PAGES = [".github/workflows/ci.yml", ".pre-commit-config.yaml", ".ci/run", "CONTRIBUTING.md", "README.md"]


def targets_of(text: str) -> set[str]:
    """Return the targets of all `make` commands, without their variables."""
    commands = re.findall(r"(?:^|[`$ ])make((?: [a-z][a-z-]*\b(?!=))+)", text, re.MULTILINE)
    return {target for words in commands for target in words.split()}


@pytest.mark.parametrize("page", PAGES)
def test_every_make_target_that_a_file_names_exists(page: str) -> None:
    named = {target for line in commands(page) for target in targets_of(line)}
    assert named <= TARGETS


def commands(page: str) -> list[str]:
    """Return the lines of a file that hold commands; in prose, what stands between backticks."""
    text = (ROOT / page).read_text()
    if page.endswith(".md"):
        return [*re.findall(r"`(make [^`]*)`", text), *re.findall(r"^\$ (make .*)$", text, re.MULTILINE)]
    return [line.split("#")[0] for line in text.splitlines() if "make " in line]


def test_the_pages_name_targets_at_all() -> None:
    assert {"check", "test", "demo", "release"} <= {
        target for page in PAGES for line in commands(page) for target in targets_of(line)
    }


def test_hooks_before_a_commit_use_the_pinned_tools() -> None:
    entries = re.findall(r"entry: (\S+)", (ROOT / ".pre-commit-config.yaml").read_text())
    assert entries
    assert all(each == "make" or each.startswith(".venv/bin/") for each in entries)


def test_the_version_stands_in_one_place() -> None:
    version = re.search(r'^version = "(.+)"$', (ROOT / "pyproject.toml").read_text(), re.MULTILINE)
    assert version
    sources = [*ROOT.glob("src/**/*.py"), ROOT / "README.md", ROOT / "mkdocs.yml"]
    assert not [path for path in sources if f'"{version[1]}"' in path.read_text()]

"""Every code block of the README and the docs is run, or checked as far as it can be."""

from __future__ import annotations

import re
import shlex
import sys
import tomllib
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from pilotage.cli.commands.root import command
from tests.docs.blocks import ROOT, Block, blocks, pages

PAGES = pages()
NOT_RUN = {"text", "mermaid"}
CHECKED = {"python", "toml", "console"}


def page_id(page: Path) -> str:
    return str(page.relative_to(ROOT))


@pytest.mark.parametrize("page", PAGES, ids=page_id)
def test_every_block_says_what_it_is(page: Path) -> None:
    unknown = [(b.line, b.language) for b in blocks(page) if b.language not in NOT_RUN | CHECKED]
    assert unknown == []


@pytest.mark.parametrize(
    "page", [page for page in PAGES if any(b.language == "python" for b in blocks(page))], ids=page_id
)
def test_the_python_blocks_of_a_page_run_in_order(
    page: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    module = ModuleType(f"docs_{re.sub(r'[^a-z0-9]', '_', page_id(page).lower())}")
    monkeypatch.setitem(sys.modules, module.__name__, module)
    for block in blocks(page):
        if block.language == "python" and not block.file:
            code = compile("\n" * (block.line - 1) + block.text, str(page), "exec", dont_inherit=True)
            exec(code, vars(module))  # noqa: S102 - running them is the point


@pytest.mark.parametrize(
    "block", [b for p in PAGES for b in blocks(p) if b.language == "toml"], ids=lambda b: b.line
)
def test_toml_blocks_parse(block: Block) -> None:
    assert tomllib.loads(block.text)


@pytest.mark.parametrize("page", PAGES, ids=page_id)
def test_console_blocks_only_use_commands_that_exist(page: Path) -> None:
    lines = [line for b in blocks(page) if b.language == "console" for line in b.text.splitlines()]
    commands = [line.removeprefix("$ ") for line in lines if line.startswith("$ ")]
    assert [command for command in commands if not _exists(shlex.split(command, comments=True))] == []


def _exists(words: list[str]) -> bool:
    match words:
        case ["python" | "touch" | "rm" | "cat", *_]:
            return True
        case ["make", *targets]:
            declared = re.findall(r"^([a-z-]+):", (ROOT / "Makefile").read_text(), re.MULTILINE)
            return all(target in declared or "=" in target for target in targets)
        case ["pip", "install", *packages]:
            return all(_is_ours(package) for package in packages)
        case ["pilotage", *rest]:
            return _is_declared(rest)
        case ["echo", _, "|", *rest]:
            return _exists(rest)
        case ["git", "clone", *_] | ["cd", *_] | ["echo", "$?"]:
            return True
        case _:
            return False


def _is_declared(words: list[str]) -> bool:
    """Whether there is such a command, with such options."""
    found: Any = command()
    while words and words[0] in getattr(found, "commands", {}):
        found, words = found.commands[words[0]], words[1:]
    known = {option for each in found.params for option in each.opts}
    asked = {word for word in words if word.startswith("--")}
    is_whole = bool(asked) or not hasattr(found, "commands")
    return is_whole and asked <= known


def _is_ours(package: str) -> bool:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    extras = project.get("optional-dependencies", {})
    found = re.fullmatch(r"pilotage(?:\[([\w,]+)\])?", package)
    return found is not None and all(extra in extras for extra in (found[1] or "").split(",") if extra)

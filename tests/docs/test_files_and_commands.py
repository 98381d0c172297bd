"""A page that has its reader save files is read as a reader would: files are saved, commands typed, answers compared."""

from __future__ import annotations

import re
import shlex
import subprocess
import sys
from pathlib import Path

import pytest

from tests.docs.blocks import Block, blocks, pages
from tests.docs.test_code_blocks import page_id

PAGES = [page for page in pages() if any(block.file for block in blocks(page))]


@pytest.mark.slow
@pytest.mark.parametrize("page", PAGES, ids=page_id)
def test_what_is_typed_answers_as_the_page_says(page: Path, tmp_path: Path) -> None:
    for block in blocks(page):
        if block.file:
            (tmp_path / block.file).write_text(block.text)
        elif block.language == "console":
            for command, answer in commands_of(block):
                assert typed(command, tmp_path) == answer, f"line {block.line}: {command}"


def commands_of(block: Block) -> list[tuple[str, str]]:
    """Each command of a block, with what stands below it; what a reader has done already is left out."""
    found = re.findall(r"^\$ (.*)\n((?:(?!\$ ).*\n)*)", block.text, re.MULTILINE)
    return [(command, answer) for command, answer in found if not command.startswith(("pip ", "make "))]


def typed(command: str, folder: Path) -> str:
    """What a command answers."""
    program, *words = shlex.split(command)
    line = [sys.executable if program == "python" else program, *words]
    done = subprocess.run(line, cwd=folder, capture_output=True, text=True, timeout=240, check=False)  # noqa: S603
    assert done.stderr == ""
    return done.stdout

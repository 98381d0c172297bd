"""The pages about the command line: the session is run as it stands, the tables are what there is."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest

from pilotage.cli.commands.root import command
from pilotage.cli.exit_codes import ExitCode
from tests.docs.blocks import ROOT, blocks
from tests.docs.sessions import Session, steps

HOW_TO = ROOT / "docs" / "how-to" / "use-the-command-line.md"
REFERENCE = (ROOT / "docs" / "reference" / "command-line.md").read_text()
NOT_RUN = ("pip ", "pilotage serve", "pilotage --install-completion")


@pytest.mark.slow
def test_the_session_of_the_page_shows_what_the_page_shows(tmp_path: Path) -> None:
    session = Session(tmp_path)
    ran = 0
    for block in blocks(HOW_TO):
        if block.language == "python":
            (session.folder / "help_desk" / "refunds.py").write_text(block.text)
        for typed, shown in steps(block.text) if block.language == "console" else []:
            if not typed.startswith(NOT_RUN):
                got, expected = session.run(typed, shown)
                assert got == expected, f"line {block.line}: {typed}"
                ran += 1
    assert ran > 10


def test_the_reference_names_every_command_once() -> None:
    declared: list[str] = []
    root: Any = command()
    for name, each in root.commands.items():
        inner = getattr(each, "commands", None)
        declared += [name] if inner is None else [f"{name} {one}" for one in inner]
    shown = re.findall(r"^\| `pilotage ([a-z-]+(?: [a-z]+)?)", REFERENCE, re.MULTILINE)
    assert sorted(shown) == sorted(declared)


def test_the_reference_has_every_exit_code() -> None:
    shown = re.findall(r"^\| (\d+) \|", REFERENCE, re.MULTILINE)
    assert [int(each) for each in shown] == [code.value for code in ExitCode]

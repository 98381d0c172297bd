"""The command line before it does anything: what it loads, without its extra, completion, wrong calls."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
from tests.behaviour.till import Till

DEAR = ["pilotage.runtime.runs", "sqlalchemy", "httpx", "fastapi", "ag_ui", "asyncio.base_events"]


def printed(program: str, folder: Path, **environ: str) -> str:
    """What a program prints in an interpreter of its own."""
    done = subprocess.run(  # noqa: S603 - our own program
        [sys.executable, "-c", program],
        cwd=folder,
        env={"PATH": "", **environ},
        capture_output=True,
        text=True,
        check=True,
    )
    return done.stdout


@pytest.mark.parametrize(
    "words", [["--help"], ["run", "--help"], ["runs", "answer", "--help"], ["--version"]]
)
def test_help_loads_nothing_dear(words: list[str], tmp_path: Path) -> None:
    program = (
        "import sys, io, contextlib\nfrom pilotage.cli.main import main\n"
        f"with contextlib.redirect_stdout(io.StringIO()): assert main({words!r}) == 0\n"
        f"print([each for each in {DEAR!r} if each in sys.modules])"
    )
    assert printed(program, tmp_path) == "[]\n"


def test_without_the_extra_the_command_says_which_one_to_install(tmp_path: Path) -> None:
    program = (
        "import sys, io, contextlib\n"
        "sys.modules['typer'] = None\n"
        "from pilotage.cli.main import main\n"
        "with contextlib.redirect_stderr(io.StringIO()) as err: print(main(['--help']))\n"
        "print(err.getvalue(), end='')"
    )
    told = 'the command line needs an extra: pip install "pilotage[cli]"'
    assert printed(program, tmp_path).splitlines() == ["2", told]


@pytest.mark.parametrize(
    ("typed", "offered"),
    [
        ("pilotage ru", {"run", "runs"}),
        ("pilotage runs re", {"resume", "reject", "retry", "resolve"}),
        ("pilotage runs answer 221e re", {"reject", "retry"}),
        ("pilotage runs list --st", {"--status"}),
        ("pilotage runs list --status c", {"created", "cancelling", "completed", "cancelled"}),
        ("pilotage db ", {"upgrade", "current", "check"}),
    ],
)
def test_a_shell_completes_commands_options_and_values(typed: str, offered: set[str], tmp_path: Path) -> None:
    program = "import sys\nfrom pilotage.cli.main import main\nsys.argv = ['pilotage']\nmain()"
    words = typed.split(" ")
    completed = printed(
        program,
        tmp_path,
        _PILOTAGE_COMPLETE="complete_bash",
        COMP_WORDS=typed,
        COMP_CWORD=str(len(words) - 1),
    )
    assert set(completed.split()) == offered


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("rum",), "No such command 'rum'"),
        (("runs", "list", "--status", "done"), "'done'"),
        (
            ("runs", "list", "--since", "yesterday"),
            "'yesterday' is no time. Write 15m, 2h, 7d or 2026-11-15T08:00.",
        ),
        (("run",), "AGENT"),
        (
            ("check", "till"),
            "'till' names no application. Write MODULE:NAME, for example shop.main:app, or FILE.py:NAME.",
        ),
    ],
)
def test_a_wrong_call_is_named(words: tuple[str, ...], message: str, tmp_path: Path) -> None:
    called = Till(tmp_path).call(*words)
    assert called.code == 2
    assert message in called.err


def test_no_words_at_all_show_the_help(tmp_path: Path) -> None:
    called = Till(tmp_path).call()
    assert called.code == 2
    assert "Commands:" in called.out + called.err

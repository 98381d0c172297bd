"""The command `pilotage`, called as a user calls it."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from pilotage.adapters.sqlalchemy.store import VERSION
from pilotage.cli.main import main

GOOD = """
from pilotage import Application, Pod

@Pod
class Bank: ...

@Pod
class Payments:
    def __init__(self, bank: Bank) -> None: ...

app = Application("shop").add(Bank, Payments)
broken = Application("shop").add(Payments)
number = 3
"""


@pytest.fixture(autouse=True)
def shop(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "my_shop.py").write_text(GOOD)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", list(sys.path))
    monkeypatch.delitem(sys.modules, "my_shop", raising=False)


def test_a_good_application_passes_the_check(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["check", "my_shop:app"]) == 0
    assert capsys.readouterr().out == "application 'shop': no problems\n"


def test_a_broken_application_is_told_everything(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["check", "my_shop:broken"]) == 1
    assert "Payments -> Bank: nothing provides Bank." in capsys.readouterr().err


def test_the_graph_is_described_as_text_and_as_mermaid(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["describe", "my_shop:app"]) == 0
    assert "Payments" in capsys.readouterr().out
    assert main(["describe", "my_shop:app", "--mermaid"]) == 0
    assert capsys.readouterr().out.startswith("flowchart")


@pytest.mark.parametrize(
    ("target", "message"),
    [
        (
            "my_shop",
            "'my_shop' names no application. Write MODULE:NAME, for example shop.main:app, or FILE.py:NAME.",
        ),
        (
            "no_shop:app",
            "'no_shop:app': No module named 'no_shop'. Run this where 'no_shop' can be imported.",
        ),
        ("my_shop:other", "'my_shop:other': module 'my_shop' has no 'other'."),
        ("my_shop:number", "'my_shop:number' is of type int: neither an Application nor an agent."),
    ],
)
def test_a_wrong_target_is_named_with_the_way_out(
    target: str, message: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["check", target]) == 2
    assert capsys.readouterr().err == f"{message}\n"


def test_the_version_is_told(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--version"]) == 0
    assert capsys.readouterr().out.startswith("pilotage 0.")


def test_the_tables_are_made_once_and_looked_at(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PILOTAGE_DATABASE_URL", "sqlite:///runs.db")
    Path("runs.db").touch()
    assert main(["db", "check"]) == 1
    assert main(["db", "current"]) == 0
    assert main(["db", "upgrade"]) == 0
    assert main(["db", "upgrade"]) == 0
    assert main(["db", "check"]) == 0
    said = capsys.readouterr()
    assert said.err == (
        f"sqlite:///runs.db has no tables of Pilotage, and {VERSION} is needed. Run: pilotage db upgrade.\n"
        "An application upgrades older tables by itself when it starts (serve, worker, run), unless "
        "PILOTAGE_DATABASE_UPGRADES_AT_START is no.\n"
    )
    assert said.out.splitlines() == [
        "sqlite:///runs.db: no tables",
        f"sqlite:///runs.db: upgraded from nothing to version {VERSION}",
        f"sqlite:///runs.db: tables of version {VERSION}, nothing to do",
        f"sqlite:///runs.db: tables of version {VERSION}, durable",
    ]


def test_looking_at_a_missing_file_does_not_make_it(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PILOTAGE_DATABASE_URL", "sqlite:///not/here.db")
    monkeypatch.setenv("PILOTAGE_DATABASE_UPGRADES_AT_START", "no")
    assert main(["db", "current"]) == 1
    assert main(["db", "check", "--url", "sqlite:///gone.db"]) == 1
    assert main(["doctor"]) == 1
    assert [each.name for each in Path.cwd().iterdir()] == ["my_shop.py"]
    said = capsys.readouterr()
    assert [line.partition(" An ")[0] for line in said.err.splitlines()] == [
        "sqlite:///not/here.db does not exist. Run: pilotage db upgrade.",
        "sqlite:///gone.db does not exist. Run: pilotage db upgrade.",
    ]
    assert "✗  database     sqlite:///not/here.db does not exist. Run: pilotage db upgrade." in said.out


@pytest.mark.parametrize(
    ("url", "words"),
    [
        ("nonsense", "'nonsense' is no address of a database."),
        ("postgresql://ada:s3cret@127.0.0.1:1/shop", "postgresql://***@127.0.0.1:1/shop cannot be reached"),
    ],
)
def test_a_database_that_cannot_be_used_is_named(
    url: str, words: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["db", "current", "--url", url]) == 1
    assert words in capsys.readouterr().err

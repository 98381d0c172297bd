"""Heads of journals that were exported: a rolled-back database and a deleted run are noticed."""

from __future__ import annotations

import shutil
import sqlite3
from contextlib import closing
from pathlib import Path

import pytest
from tests.behaviour.till import Till

DATABASE = "pilotage.db"


@pytest.fixture
def till(tmp_path: Path, sqlite_template: Path) -> Till:
    return Till(tmp_path, sqlite_template)


def exported(till: Till, tmp_path: Path) -> Path:
    file = tmp_path / "heads.jsonl"
    file.write_text(till.call("audit", "heads").out)
    return file


def database_in(tmp_path: Path) -> Path:
    (found,) = tmp_path.rglob("*.db")
    return found


def test_runs_that_went_on_continue_from_their_heads(till: Till, tmp_path: Path) -> None:
    run_id = till.waiting_run()
    file = exported(till, tmp_path)
    assert f'"run": "{run_id}"' in file.read_text()
    till.call("runs", "cancel", run_id, "--reason", "enough")
    assert till.call("audit", "check", str(file), "--json").json == {"heads": 1, "problems": []}


def test_a_database_that_was_rolled_back_is_noticed(till: Till, tmp_path: Path) -> None:
    run_id = till.waiting_run()
    database, backup = database_in(tmp_path), tmp_path / "backup"
    with closing(sqlite3.connect(database)) as connection:
        connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")
    shutil.copy(database, backup)
    till.call("runs", "cancel", run_id, "--reason", "enough")
    file = exported(till, tmp_path)
    with closing(sqlite3.connect(database)) as connection:
        connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")
    shutil.copy(backup, database)
    assert till.call("runs", "verify", run_id, "--json").json["verified"] is True
    checked = till.call("audit", "check", str(file))
    assert checked.code == 1
    assert run_id in checked.err
    assert "rolled back" in checked.err


def test_a_run_that_was_deleted_is_noticed(till: Till, tmp_path: Path) -> None:
    run_id = till.waiting_run()
    file = exported(till, tmp_path)
    with closing(sqlite3.connect(database_in(tmp_path))) as connection, connection:
        connection.execute("DELETE FROM pilotage_runs")
    checked = till.call("audit", "check", str(file))
    assert checked.code == 1
    assert run_id in checked.err
    assert "gone" in checked.err


@pytest.mark.parametrize(
    "text", ["no json", '{"run": "x"}', "[]", '{"run":"","tenant":"t","seq":1,"digest":"d"}']
)
def test_a_file_without_heads_is_refused(till: Till, tmp_path: Path, text: str) -> None:
    till.waiting_run()
    (tmp_path / "heads.jsonl").write_text(text)
    assert till.call("audit", "check", str(tmp_path / "heads.jsonl")).code == 2


def test_a_count_of_entries_that_was_deleted_is_noticed(till: Till, tmp_path: Path) -> None:
    till.waiting_run()
    file = exported(till, tmp_path)
    assert '"entries": "switches"' in file.read_text()
    with closing(sqlite3.connect(database_in(tmp_path))) as connection, connection:
        connection.execute("DELETE FROM pilotage_counts WHERE entries = 'switches'")
    checked = till.call("audit", "check", str(file))
    assert checked.code == 2
    assert "the count of switches is not stored as it was written" in checked.err

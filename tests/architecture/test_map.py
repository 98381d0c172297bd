"""The map of the code names modules that exist."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
RUNTIME = ROOT / "src" / "pilotage" / "runtime"


def test_every_module_of_a_room_that_the_map_names_exists() -> None:
    rooms = "|".join(path.name for path in RUNTIME.iterdir() if path.is_dir() and path.name != "__pycache__")
    named = re.findall(rf"`((?:{rooms})/[a-z_]+)`", (ROOT / "ARCHITECTURE.md").read_text())
    assert named
    assert [each for each in named if not (RUNTIME / f"{each}.py").is_file()] == []


def rows_of_rooms() -> dict[str, str]:
    text = (
        (ROOT / "ARCHITECTURE.md")
        .read_text()
        .partition("## The rooms of `runtime/`")[2]
        .partition("\n## ")[0]
    )
    return dict(re.findall(r"^\| `([a-z]+)/` \| (.*) \|$", text, re.MULTILINE))


@pytest.mark.parametrize(
    "room", [path.name for path in RUNTIME.iterdir() if (path / "__init__.py").is_file()]
)
def test_the_row_of_a_room_names_its_modules(room: str) -> None:
    row = rows_of_rooms()[room]
    named = set(re.findall(r"`([a-z_]+)`", row)) - {"perform"}
    assert named == {path.stem for path in (RUNTIME / room).glob("*.py")} - {"__init__"}


def test_modules_of_the_sql_adapter_that_the_map_names_exist() -> None:
    named = re.findall(r"in the SQL adapter ((?:`[a-z_]+`(?:, )?)+)", (ROOT / "ARCHITECTURE.md").read_text())
    modules = [module for each in named for module in re.findall(r"`([a-z_]+)`", each)]
    assert modules
    assert [
        each for each in modules if not (ROOT / "src/pilotage/adapters/sqlalchemy" / f"{each}.py").is_file()
    ] == []

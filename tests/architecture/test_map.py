"""The map of the code names modules that exist."""

from __future__ import annotations

import re
from pathlib import Path

ROOT = Path(__file__).parents[2]
RUNTIME = ROOT / "src" / "pilotage" / "runtime"


def test_every_module_of_a_room_that_the_map_names_exists() -> None:
    rooms = "|".join(path.name for path in RUNTIME.iterdir() if path.is_dir() and path.name != "__pycache__")
    named = re.findall(rf"`((?:{rooms})/[a-z_]+)`", (ROOT / "ARCHITECTURE.md").read_text())
    assert named
    assert [each for each in named if not (RUNTIME / f"{each}.py").is_file()] == []

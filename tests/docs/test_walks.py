"""The page of walks names modules that there are; the tool that writes it follows a request."""

from __future__ import annotations

import re
from importlib.util import find_spec
from pathlib import Path

from tools import walk

ROOT = Path(__file__).parents[2]


def test_every_module_that_the_page_names_exists() -> None:
    names = re.findall(
        r"^\| `(pilotage[.\w]*)` \|", (ROOT / "docs/explanation/walks.md").read_text(), re.MULTILINE
    )
    assert names
    gone = [name for name in dict.fromkeys(names) if find_spec(name) is None]
    assert not gone, f"write the page again, python tools/walk.py --write: {gone}"


async def test_a_tool_call_is_followed_from_the_architecture_to_the_database(tmp_path: Path) -> None:
    found = await walk.tool_call(tmp_path)
    names = list(found.modules)
    assert names[0].startswith("pilotage.runtime.")
    assert any(name.startswith("pilotage.adapters.sqlalchemy.") for name in names)
    assert not any(name.startswith(walk.NOT_COUNTED) for name in names)
    assert len(names) <= found.functions <= found.calls

"""The recorded answers of real servers on three wires: one file for a wire and a server, with a case by its name."""

from __future__ import annotations

import json
from dataclasses import field
from functools import cache
from pathlib import Path
from typing import Any

from pilotage.values import value

FOLDER = Path(__file__).parent / "recorded"


@value
class Recording:
    """One answer as it was recorded."""

    server: str
    name: str
    path: str
    request: Any = field(repr=False)
    status: int
    body: bytes = field(repr=False)
    is_stream: bool
    is_complete: bool

    @property
    def id(self) -> str:
        return f"{self.server}-{self.name}"


@cache
def recordings(wire: str) -> list[Recording]:
    """The answers of all servers on a wire."""
    return [
        Recording(
            path.stem.removeprefix(f"{wire}-"),
            name,
            case["path"],
            case["request"],
            case["status"],
            case["body"].encode(),
            is_stream=case.get("is_stream", False),
            is_complete=case["outcome"] == "complete",
        )
        for path in sorted(FOLDER.glob(f"{wire}-*.json"))
        for name, case in json.loads(path.read_text()).items()
    ]


def recording(wire: str, server: str, name: str) -> Recording:
    """One of them."""
    return next(each for each in recordings(wire) if (each.server, each.name) == (server, name))

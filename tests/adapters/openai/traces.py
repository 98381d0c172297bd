"""The recorded answers of a real server."""

from __future__ import annotations

import json
from dataclasses import field
from functools import cache
from pathlib import Path
from typing import Any

from pilotage.values import value

FOLDER = Path(__file__).parent / "traces"


@value
class Trace:
    """One answer as it was recorded."""

    name: str
    path: str
    request: Any = field(repr=False)
    status: int
    headers: dict[str, str]
    body: bytes = field(repr=False)
    is_stream: bool
    broke_off: bool

    @property
    def is_chat(self) -> bool:
        return self.path == "/v1/chat/completions"


@cache
def trace(name: str) -> Trace:
    """A trace by its name."""
    recorded = json.loads((FOLDER / f"{name}.json").read_text())
    is_stream = recorded.get("stream", False)
    body = (FOLDER / f"{name}.sse").read_bytes() if is_stream else (recorded["body"] or "").encode()
    return Trace(
        name,
        recorded["path"],
        recorded["request"],
        recorded["status"],
        recorded["headers"],
        body,
        is_stream,
        recorded.get("broke_off", False),
    )


def all_traces() -> list[Trace]:
    """All of them, by name."""
    return [trace(path.stem) for path in sorted(FOLDER.glob("*.json"))]


CHATS = [each for each in all_traces() if each.is_chat]
STREAMS = [each for each in CHATS if each.is_stream]
WHOLE = [each for each in CHATS if not each.is_stream and each.status == 200]
REFUSALS = [each for each in CHATS if each.status != 200]

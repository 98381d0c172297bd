"""Reading the fenced blocks of a Markdown page."""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).parents[2]
_FENCE = re.compile(
    r'^(?P<indent> *)```(?P<language>[\w-]*)(?: title="(?P<title>[^"]*)")?[^\n]*\n(?P<body>.*?)^(?P=indent)```\s*$',
    re.MULTILINE | re.DOTALL,
)


@dataclass(frozen=True)
class Block:
    """One fenced block: its language, its text, the line its text begins on, and the file that it is to be saved as."""

    page: Path
    language: str
    text: str
    line: int
    file: str = ""


def pages() -> list[Path]:
    """Every Markdown page that a user reads."""
    top = [ROOT / name for name in ("README.md", "ARCHITECTURE.md", "CONTRIBUTING.md", "CHANGELOG.md")]
    return [*top, *sorted((ROOT / "docs").rglob("*.md"))]


def blocks(page: Path) -> list[Block]:
    """The fenced blocks of a page in order."""
    source = page.read_text()
    return [
        Block(
            page,
            m["language"],
            _dedent(m["body"], m["indent"]),
            source[: m.start("body")].count("\n") + 1,
            m["title"] or "",
        )
        for m in _FENCE.finditer(source)
    ]


def _dedent(body: str, indent: str) -> str:
    return "".join(line.removeprefix(indent) for line in body.splitlines(keepends=True))

"""Values as Markdown, for notebooks. Pure.

Texts of models and tools are put into fences, so that a notebook shows them and loads nothing that they link to.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable

from pilotage.jsonvalue import to_json_value


def summary(first: str, parts: Iterable[str | None]) -> str:
    """Return one line: the first word in bold, then the parts that are there."""
    return " · ".join((f"**{first}**", *(each for each in parts if each)))


def counted(number: int, thing: str) -> str | None:
    """Return "1 turn", "2 turns", or None for no turn."""
    return f"{number:,} {thing}{'' if number == 1 else 's'}" if number else None


def code(text: str) -> str:
    """Return a short text as inline code; backticks in it are left out."""
    return f"`{text.replace('`', '')}`"


def fenced(content: object) -> str:
    """Return a block with a text as it is, or with any other value as JSON; its repr where it has no JSON form."""
    language, text = "text", content
    if not isinstance(text, str):
        try:
            language, text = "json", json.dumps(to_json_value(content), indent=2, ensure_ascii=False)
        except TypeError:
            text = repr(content)
    runs_of_backticks = re.findall(r"`{3,}", text)
    fence = "`" * max(3, 1 + max(map(len, runs_of_backticks), default=0))
    return f"{fence}{language}\n{text}\n{fence}"

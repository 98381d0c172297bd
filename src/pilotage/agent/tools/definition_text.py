"""Definitions of tools as people read them: everything visible, and what differs between two of them. Pure.

What a server says about a tool may hide words from the person who accepts it: by letters that have no width, that turn
the direction of the text, or that move the cursor of a terminal. Here all of them are written out.
"""

from __future__ import annotations

import json
import unicodedata
from collections.abc import Iterator, Sequence
from difflib import SequenceMatcher
from itertools import takewhile

from pilotage.agent.tools.listed import ListedTool

_HIDDEN = frozenset({"Cc", "Cf", "Cs", "Co", "Cn", "Zl", "Zp", "Zs"})
# Letters, marks and symbols by their category, which are drawn as nothing; variation selectors can carry any bytes.
_BLANK = frozenset(
    {
        *"\u034f\u115f\u1160\u17b4\u17b5\u180b\u180c\u180d\u180f\u2800\u3164\uffa0",
        *map(chr, range(0xFE00, 0xFE10)),
        *map(chr, range(0xE0100, 0xE01F0)),
    }
)
_LONGEST_LINE = 100
_MOST_COMPARED = 500
"""How many lines of each side are compared line by line: the time grows with the product. The others all differ."""
MOST_LINES = 80
"""How many lines of a difference are shown unless more are asked for."""


def visible(text: str) -> str:
    """Return a text with every letter written out that is not seen, and every blank that is none."""
    if text.isascii() and text.isprintable():
        return text
    return "".join(each if _is_seen(each) else _written_out(each) for each in text)


def visible_lines(text: str) -> str:
    """Return a text with every letter written out that is not seen; its lines stay lines."""
    return "\n".join(map(visible, text.split("\n")))


def lines_of(tool: ListedTool | None) -> list[str]:
    """Return a definition as lines, of which none is longer than a terminal; none for no tool."""
    if tool is None:
        return []
    lines = [f"name: {visible(tool.name)}"]
    lines += [f"description: {each}" for each in _lines(tool.description)]
    for title, part in (
        ("hints", tool.hints or None),
        ("input", tool.input_schema),
        ("output", tool.output_schema),
    ):
        if part is not None:
            written = json.dumps(part, indent=2, sort_keys=True, ensure_ascii=False)
            lines += [f"{title}: {each}" for each in _lines(written)]
    return lines


def differences(
    old: ListedTool | None, new: ListedTool | None, *, most: int | None = MOST_LINES
) -> list[str]:
    """Return the lines that differ between two definitions, with `-` or `+` before each.

    Nothing that differs is left out without a word: the last line says how many more there are.
    """
    before, after = _without_common_ends(lines_of(old), lines_of(new))
    old_lines, new_lines = before[:_MOST_COMPARED], after[:_MOST_COMPARED]
    found: list[str] = []
    for kind, a, b, c, d in SequenceMatcher(None, old_lines, new_lines, autojunk=False).get_opcodes():
        if kind != "equal":
            found += [f"- {each}" for each in old_lines[a:b]] + [f"+ {each}" for each in new_lines[c:d]]
    found += [f"- {each}" for each in before[_MOST_COMPARED:]]
    found += [f"+ {each}" for each in after[_MOST_COMPARED:]]
    if most is None or len(found) <= most:
        return found
    return [*found[:most], f"... and {len(found) - most} more lines that differ"]


def _without_common_ends(one: list[str], other: list[str]) -> tuple[list[str], list[str]]:
    """Return two texts without the lines that both begin and end with."""
    begin = _common(one, other)
    one, other = one[begin:], other[begin:]
    end = _common(one[::-1], other[::-1])
    return one[: len(one) - end], other[: len(other) - end]


def _common(one: Sequence[str], other: Sequence[str]) -> int:
    return sum(1 for _ in takewhile(lambda pair: pair[0] == pair[1], zip(one, other, strict=False)))


def _lines(text: str) -> Iterator[str]:
    """Yield the lines of a text, made visible; a long one as several."""
    for line in text.split("\n"):
        seen = visible(line)
        indent = " " * min(len(seen) - len(seen.lstrip(" ")), _LONGEST_LINE // 2)
        yield seen[:_LONGEST_LINE]
        room = _LONGEST_LINE - len(indent)
        for at in range(_LONGEST_LINE, len(seen), room):
            yield f"{indent}{seen[at : at + room]}"


def _is_seen(letter: str) -> bool:
    return letter == " " or not (unicodedata.category(letter) in _HIDDEN or letter in _BLANK)


def _written_out(letter: str) -> str:
    return letter.encode("unicode_escape", "surrogatepass").decode("ascii")

"""Turns what a program prints into an SVG picture of a terminal, line by line as it was printed.

    FORCE_COLOR=1 python -m examples.code_assistant.demo | python tools/terminal_picture.py docs/images/demo.svg

The same text always makes the same picture. Where a viewer knows no animation, the first lines are shown.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator, Sequence
from html import escape
from pathlib import Path

ROWS, COLUMNS = 34, 82
LINE, CHARACTER, MARGIN, BAR = 19, 8.4, 18, 34
SECONDS_PER_LINE = 0.3
_STYLE = re.compile(r"\x1b\[([0-9;]*)m")
_CLASSES = {"1": "b", "2": "d", "31": "r", "32": "g", "33": "y", "34": "u", "36": "c"}
_SHEET = """
text { font: 14px ui-monospace, SFMono-Regular, Menlo, Consolas, "DejaVu Sans Mono", monospace; fill: #d5dbe3; }
.b { font-weight: 700; } .d { fill: #8b97a6; } .r { fill: #ff7b72; } .g { fill: #7ee787; } .y { fill: #e3b341; }
.u { fill: #79c0ff; } .c { fill: #56d4dd; }
@keyframes line { from { opacity: 0; } to { opacity: 1; } }
@media (prefers-reduced-motion: no-preference) { .l { animation: line 1ms both; } }
""".strip()


def picture(printed: str) -> str:
    """The picture of a text with colours."""
    lines = printed.rstrip("\n").split("\n")
    width = round(2 * MARGIN + COLUMNS * CHARACTER)
    height = BAR + ROWS * LINE + MARGIN
    shown = "\n".join(_line(number, line) for number, line in enumerate(lines) if line)
    size = f'viewBox="0 0 {width} {height}" width="{width}"'
    return "\n".join(
        [
            f'<svg xmlns="http://www.w3.org/2000/svg" {size} role="img" aria-label="The demo in a terminal">',
            f"<style>{_SHEET}\n{_scrolling(len(lines))}</style>",
            f'<rect width="{width}" height="{height}" rx="10" fill="#161b22"/>',
            *(
                f'<circle cx="{MARGIN + 18 * i}" cy="18" r="5.5" fill="{fill}"/>'
                for i, fill in enumerate(_LIGHTS)
            ),
            f'<svg x="{MARGIN}" y="{BAR}" width="{width - 2 * MARGIN}" height="{ROWS * LINE}"><g class="s">',
            shown,
            "</g></svg>",
            "</svg>",
            "",
        ]
    )


_LIGHTS = ("#ff5f57", "#febc2e", "#28c840")


def _line(number: int, line: str) -> str:
    delay = round(number * SECONDS_PER_LINE, 2)
    spans = "".join(_spans(line))
    return (
        f'<text class="l" style="animation-delay:{delay}s" x="0" y="{number * LINE + 14}" '
        f'xml:space="preserve">{spans}</text>'
    )


def _spans(line: str) -> Iterator[str]:
    """The pieces of a line, each in its colour."""
    classes: Sequence[str] = ()
    for position, piece in enumerate(_STYLE.split(line)):
        if position % 2:
            classes = [_CLASSES[code] for code in piece.split(";") if code in _CLASSES]
        elif piece and classes:
            yield f'<tspan class="{" ".join(classes)}">{escape(piece)}</tspan>'
        elif piece:
            yield escape(piece)


def _scrolling(count: int) -> str:
    """Once the window is full, every line moves the others up."""
    hidden = count - ROWS
    if hidden <= 0:
        return ""
    begin, last = round(ROWS * SECONDS_PER_LINE, 2), hidden * LINE
    seconds = round(hidden * SECONDS_PER_LINE, 2)
    return (
        f"@keyframes up {{ to {{ transform: translateY(-{last}px); }} }}\n"
        "@media (prefers-reduced-motion: no-preference) "
        f"{{ .s {{ animation: up {seconds}s steps({hidden}) {begin}s forwards; }} }}"
    )


if __name__ == "__main__":
    Path(sys.argv[1]).write_text(picture(sys.stdin.read()))

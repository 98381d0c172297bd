"""Tones as colours of a terminal. Imports Rich: only where there is a terminal is this module loaded."""

from __future__ import annotations

from typing import TextIO

from rich.console import Console
from rich.text import Text

from pilotage.cli.screen.screen import Paper
from pilotage.cli.screen.words import Line, Tone

_STYLES = {
    Tone.PLAIN: "",
    Tone.QUIET: "dim",
    Tone.STRONG: "bold",
    Tone.GOOD: "green",
    Tone.BAD: "red",
    Tone.ASKING: "yellow",
    Tone.NAME: "cyan",
}


class PaintedPaper(Paper):
    """A terminal; NO_COLOR and TERM=dumb are respected."""

    def __init__(self, stream: TextIO) -> None:
        self._console = Console(file=stream)

    def write(self, spans: Line) -> None:
        painted = Text.assemble(*((span.text, _STYLES[span.tone]) for span in spans))
        self._console.print(painted, end="", soft_wrap=True, highlight=False)

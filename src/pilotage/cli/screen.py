"""`Screen`: where a command says what it has to say: a terminal, a pipe, or both.

The answer to a command goes to standard output. What is told on the way goes there too on a terminal, else to standard
error, so that a pipe carries nothing but the answer.
"""

from __future__ import annotations

import json
import os
import sys
from abc import ABC, abstractmethod
from typing import TextIO

from pilotage.cli.words import Line, TextSpan, Tone, cleaned
from pilotage.jsonvalue import to_json_value

_END = TextSpan("\n")
_STYLES = {
    Tone.PLAIN: "",
    Tone.QUIET: "dim",
    Tone.STRONG: "bold",
    Tone.GOOD: "green",
    Tone.BAD: "red",
    Tone.ASKING: "yellow",
    Tone.NAME: "cyan",
}


class Paper(ABC):
    """Takes pieces of text in tones; where a line ends, a piece says so."""

    @abstractmethod
    def write(self, spans: Line) -> None:
        """Write the pieces now."""


class PlainPaper(Paper):
    """A pipe or a file: the words and nothing else."""

    def __init__(self, stream: TextIO) -> None:
        self._stream = stream

    def write(self, spans: Line) -> None:
        self._stream.write("".join(span.text for span in spans))
        self._stream.flush()


class PaintedPaper(Paper):
    """A terminal; NO_COLOR and TERM=dumb are respected."""

    def __init__(self, stream: TextIO) -> None:
        from rich import console, text  # noqa: PLC0415 - dear to load

        self._console = console.Console(file=stream)
        self._assembled = text.Text.assemble

    def write(self, spans: Line) -> None:
        painted = self._assembled(*((span.text, _STYLES[span.tone]) for span in spans))
        self._console.print(painted, end="", soft_wrap=True, highlight=False)


class Screen:
    """Writes lines and pieces of lines: the answer on one paper, everything else aside."""

    def __init__(self, paper: Paper, aside: Paper, *, width: int | None = None) -> None:
        self.width = width
        self._paper = paper
        self._aside = aside
        self._is_mid_line = False

    @classmethod
    def of_process(cls, *, telling_is_answer: bool = False) -> Screen:
        """The screen of this process; where what is told is what was asked for, all of it goes to standard output."""
        if not sys.stdout.isatty():
            aside = sys.stdout if telling_is_answer else sys.stderr
            return cls(PlainPaper(sys.stdout), PlainPaper(aside))
        paper = PaintedPaper(sys.stdout)
        return cls(paper, paper, width=os.get_terminal_size(sys.stdout.fileno()).columns or 80)

    @property
    def is_terminal(self) -> bool:
        """Whether somebody watches; text may be shown as it comes then, and lines are cut to fit."""
        return self.width is not None

    def say(self, *lines: Line) -> None:
        """Lines of the answer."""
        self._write(self._paper, lines)

    def tell(self, *lines: Line) -> None:
        """Lines beside the answer: what happens, what to do next."""
        self._write(self._aside, lines)

    def stream(self, piece: TextSpan) -> None:
        """A piece of text beside the answer that goes on where the last one ended."""
        if piece.text:
            self._aside.write(_safe((piece,)))
            self._is_mid_line = not piece.text.endswith("\n")

    def end_line(self) -> None:
        """Go to the beginning of a line, unless the screen is there."""
        if self._is_mid_line:
            self.stream(_END)

    def typed_over(self, *, is_ended: bool) -> None:
        """Somebody typed; the terminal has shown it, and the Enter that ended it, by itself."""
        if is_ended:
            self._is_mid_line = False
        self.end_line()

    def answer(self, value: object, *lines: Line, aside: Line | None = None, as_json: bool) -> None:
        """Write the answer: for programs the value as JSON, for people its lines, with one `aside` of them."""
        if as_json:
            self.say_json(value)
            return
        self.say(*lines)
        if aside is not None:
            self.tell(aside)

    def say_json(self, value: object) -> None:
        """A value as one line of JSON, for programs; all of it ASCII, so that no terminal obeys it either."""
        self._paper.write((TextSpan(json.dumps(to_json_value(value), allow_nan=False)), _END))

    def _write(self, paper: Paper, lines: tuple[Line, ...]) -> None:
        self.end_line()
        for each in lines:
            paper.write(_safe((*each, _END)))


def _safe(spans: Line) -> Line:
    return tuple(TextSpan(cleaned(span.text), span.tone) for span in spans)

"""`Screen`: the output of a command, on a terminal or through pipes.

The answer to a command goes to standard output. Everything else goes there too on a terminal, otherwise to standard
error, so that a pipe carries nothing but the answer.
"""

from __future__ import annotations

import json
import logging
import os
import sys
from abc import ABC, abstractmethod
from typing import TextIO

from pilotage.cli.text import Line, StreamWrapper, TextSpan, Tone, cleaned, cut, line, wrapped
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
    Tone.COMMAND: "cyan",
}
_ERASE_LINE = "\r\x1b[2K"


class Writer(ABC):
    """Writes spans to a stream; a span with a line end ends the line."""

    @abstractmethod
    def write(self, spans: Line) -> None:
        """Write the spans now."""

    @abstractmethod
    def show_status(self, text: str) -> None:
        """Replace the last line by a status, where the stream can; "" removes it."""


class PlainWriter(Writer):
    """Writes to a pipe or a file, without colours."""

    def __init__(self, stream: TextIO) -> None:
        self._stream = stream

    def write(self, spans: Line) -> None:
        self._stream.write("".join(span.text for span in spans))
        self._stream.flush()

    def show_status(self, text: str) -> None:
        """Do nothing: output through a pipe has no last line to replace."""


class TerminalWriter(Writer):
    """Writes to a terminal, with colours unless NO_COLOR or TERM=dumb is set."""

    def __init__(self, stream: TextIO) -> None:
        from rich import console, text  # noqa: PLC0415 - slow to load

        self._stream = stream
        self._console = console.Console(file=stream)
        self._assembled = text.Text.assemble

    def write(self, spans: Line) -> None:
        painted = self._assembled(*((span.text, _STYLES[span.tone]) for span in spans))
        self._console.print(painted, end="", soft_wrap=True, highlight=False)

    def show_status(self, text: str) -> None:
        if not self._console.is_dumb_terminal:
            self._stream.write(f"{_ERASE_LINE}{text}")
            self._stream.flush()


class Screen:
    """Writes lines and parts of lines: the answer to one writer, everything else to another."""

    def __init__(self, answers: Writer, messages: Writer, *, width: int | None = None) -> None:
        self.width = width
        self._answers = answers
        self._messages = messages
        self._is_mid_line = False
        self._status = ""
        self._wrapper = None if width is None else StreamWrapper(width)
        self._tone = Tone.PLAIN

    @classmethod
    def of_process(cls, *, messages_are_answer: bool = False) -> Screen:
        """Return the screen of this process; `messages_are_answer` sends messages to standard output too."""
        if not sys.stdout.isatty():
            messages = sys.stdout if messages_are_answer else sys.stderr
            return cls(PlainWriter(sys.stdout), PlainWriter(messages))
        writer = TerminalWriter(sys.stdout)
        return cls(writer, writer, width=terminal_width(sys.stdout))

    @property
    def is_terminal(self) -> bool:
        """Whether a person reads along: text is streamed, and lines fit the width."""
        return self.width is not None

    def print(self, *lines: Line) -> None:
        """Write lines of the answer."""
        self._write(self._answers, lines)

    def print_text(self, text: str) -> None:
        """Write the text of an answer as it is: the terminal wraps it."""
        self._write(self._answers, tuple(line(each) for each in text.splitlines()), is_wrapped=False)

    def message(self, *lines: Line) -> None:
        """Write lines beside the answer: what happens, what to do next."""
        self._write(self._messages, lines)

    def stream(self, piece: TextSpan) -> None:
        """Write text beside the answer that continues the current line; on a terminal it is wrapped at words."""
        if not piece.text:
            return
        self.show_status("")
        self._is_mid_line = not piece.text.endswith("\n")
        if self._wrapper is None:
            self._messages.write(_safe((piece,)))
            return
        if piece.tone is not self._tone:
            self._flush()
        self._tone = piece.tone
        self._messages.write(line(TextSpan(self._wrapper.feed(cleaned(piece.text)), piece.tone)))

    def ask(self, prompt: TextSpan) -> None:
        """Write a prompt, wrapped at words; the input continues its last line."""
        self.show_status("")
        self.end_line()
        *full, last = wrapped(_safe((prompt,)), self.width) if self.width else [_safe((prompt,))]
        for each in full:
            self._messages.write((*each, _END))
        self._messages.write(last)
        self._is_mid_line = True

    def end_line(self) -> None:
        """End the current line, if there is one."""
        if self._is_mid_line:
            self._flush()
            self._messages.write((_END,))
            self._is_mid_line = False

    def _flush(self) -> None:
        if self._wrapper is not None:
            self._messages.write(line(TextSpan(self._wrapper.end(), self._tone)))

    def input_ended(self, *, with_enter: bool) -> None:
        """Take note of typed input: the terminal has echoed it, and the line end if Enter was hit."""
        if with_enter:
            self._is_mid_line = False
        self.end_line()

    def answer(self, value: object, *lines: Line, aside: Line | None = None, as_json: bool) -> None:
        """Write the answer: as JSON for programs, as lines for people, with one line `aside`."""
        if as_json:
            self.print_json(value)
            return
        self.print(*lines)
        if aside is not None:
            self.message(aside)

    def print_json(self, value: object) -> None:
        """Write a value as one line of JSON, in ASCII, so that it cannot control a terminal."""
        self.show_status("")
        self._answers.write((TextSpan(json.dumps(to_json_value(value), allow_nan=False)), _END))

    def show_status(self, text: str) -> None:
        """Show a status in the last line until the next output; "" removes it. Pipes show none."""
        if self.width is None or self._is_mid_line or text == self._status:
            return
        self._status = text
        self._messages.show_status(cut(cleaned(text), self.width - 1))

    def _write(self, writer: Writer, lines: tuple[Line, ...], *, is_wrapped: bool = True) -> None:
        self.show_status("")
        self.end_line()
        for each in lines:
            safe = _safe(each)
            fitting = wrapped(safe, self.width) if is_wrapped and self.width else [safe]
            for one in fitting:
                writer.write((*one, _END))


class ScreenLogHandler(logging.Handler):
    """Writes warnings of the log as messages, so that they do not break a status line."""

    def __init__(self, screen: Screen) -> None:
        super().__init__(logging.WARNING)
        self._screen = screen

    def emit(self, record: logging.LogRecord) -> None:
        self._screen.message(line(TextSpan(record.getMessage(), Tone.QUIET)))


def print_error(text: str) -> None:
    """Write an error message to standard error; on a terminal it is wrapped."""
    for each in cleaned(text).splitlines():
        lines = wrapped(line(each), terminal_width(sys.stderr)) if sys.stderr.isatty() else [line(each)]
        sys.stderr.write("".join(f"{''.join(span.text for span in one).rstrip()}\n" for one in lines))


def terminal_width(stream: TextIO) -> int:
    """Return the columns of the terminal of a stream."""
    return os.get_terminal_size(stream.fileno()).columns or 80


def _safe(spans: Line) -> Line:
    return tuple(TextSpan(cleaned(span.text), span.tone, span.hangs) for span in spans)

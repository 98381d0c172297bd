"""Text that commands print: spans, lines, columns, wrapping, times, commands to copy. Pure.

The screen passes all text through `cleaned`: text of a model, a tool or a database cannot move the cursor, hide
characters or imitate a question of the command line.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterator, Sequence
from datetime import datetime, timedelta
from enum import StrEnum
from typing import TypeAlias

from pilotage.values import value

_PRINTED_CONTROLS = frozenset("\n\t")
# Format characters reverse or hide text; the joiners are part of scripts and emoji.
_JOINERS = frozenset("\u200c\u200d")
_UNSEEN = frozenset({"Cc", "Cf", "Cs", "Zl", "Zp"})
_ELLIPSIS = "…"
_CONTINUED = " \\"
_LEAST = 8
_WORD = re.compile(r" *[^ ]+| +$")
_STREAMED = re.compile(r"\n| +|[^ \n]+")
_LONGEST_HELD = 30


class Tone(StrEnum):
    """The role of a span; a terminal shows it as a colour. A span of COMMAND is a shell command to copy."""

    PLAIN = "plain"
    QUIET = "quiet"
    STRONG = "strong"
    GOOD = "good"
    BAD = "bad"
    ASKING = "asking"
    NAME = "name"
    COMMAND = "command"


@value
class TextSpan:
    """Text in one tone. With `hangs`, wrapped lines are indented to the place where the span begins."""

    text: str
    tone: Tone = Tone.PLAIN
    hangs: bool = False


Line: TypeAlias = tuple[TextSpan, ...]


def line(*parts: str | TextSpan) -> Line:
    """Return a line of plain texts and spans."""
    return tuple(TextSpan(part) if isinstance(part, str) else part for part in parts)


def plain(lines: Sequence[Line]) -> str:
    """Return the lines as text without tones, each with a line end."""
    return "".join(f"{''.join(span.text for span in each).rstrip()}\n" for each in lines)


def cleaned(text: str) -> str:
    """Return the text with control characters and invisible characters escaped."""
    if text.isascii() and text.isprintable():
        return text
    return "".join(each if _is_seen(each) else _written_out(each) for each in text)


def one_line(text: str, limit: int = 200) -> str:
    """Return the beginning of a text on one line."""
    return cleaned(cut(" ".join(text.split()), limit))


def cut(text: str, cells: int) -> str:
    """Return as much of a text as fits into this many cells of a terminal."""
    if width(text) <= cells:
        return text
    taken, room = "", cells - 1
    for each in text:
        room -= width(each)
        if room < 0:
            break
        taken += each
    return f"{taken}{_ELLIPSIS}" if cells > 0 else ""


def width(text: str) -> int:
    """Return the number of terminal cells of a text."""
    return len(text) if text.isascii() else sum(map(_cells, text))


def columns(rows: Sequence[Sequence[TextSpan]], room: int | None = None) -> list[Line]:
    """Return rows as aligned columns; the last column is cut to the room that is left, if there is a limit."""
    if not rows:
        return []
    widths = [max(width(row[at].text) for row in rows) for at in range(len(rows[0]))]
    rest = None if room is None else max(room - sum(widths[:-1]) - 2 * (len(widths) - 1), _LEAST)
    return [_row(row, widths, rest) for row in rows]


def fits_columns(rows: Sequence[Sequence[TextSpan]], room: int, least: int) -> bool:
    """Return whether the room of a terminal leaves this much for the last column of a table."""
    widths = [max(width(row[at].text) for row in rows) for at in range(len(rows[0]) - 1)]
    return sum(widths) + 2 * len(widths) + least <= room


def _row(row: Sequence[TextSpan], widths: Sequence[int], rest: int | None) -> Line:
    *before, last = row
    padded = [
        TextSpan(f"{span.text}{' ' * (widths[at] - width(span.text) + 2)}", span.tone)
        for at, span in enumerate(before)
    ]
    return (*padded, TextSpan(last.text if rest is None else cut(last.text, rest), last.tone, hangs=True))


def wrapped(long: Line, room: int) -> list[Line]:
    """Return a line as lines that fit the room, broken between words; a word that is too long stays whole.

    Continuation lines are indented to the last span that hangs, else by two more than the line. A command to copy is
    continued with a backslash.
    """
    if width("".join(span.text for span in long)) <= room:
        return [long]
    lines: list[list[TextSpan]] = [[]]
    indent, column = _hanging_indent(long, room), 0
    for span, word in _words_of(long):
        reserved = len(_CONTINUED) if span.tone is Tone.COMMAND else 0
        is_blank = not "".join(each.text for each in lines[-1]).strip()
        if is_blank and len(lines) > 1:
            word = word.lstrip(" ")  # noqa: PLW2901 - a continuation begins at its indent
        elif column + width(word) + reserved > room and not is_blank:
            if reserved and word[:1] == " ":
                lines[-1].append(TextSpan(_CONTINUED, span.tone))
            lines.append([TextSpan(" " * indent)])
            word, column = word.lstrip(" "), indent  # noqa: PLW2901 - the blank became the break
        lines[-1].append(TextSpan(word, span.tone))
        column += width(word)
    return [tuple(each) for each in lines]


class StreamWrapper:
    """Breaks streamed text between words. The last word is held until it is complete, unless it is long."""

    def __init__(self, room: int) -> None:
        self._room = room
        self._column = 0
        self._blanks = ""
        self._held = ""

    def feed(self, text: str) -> str:
        """Return what can be written of the text so far."""
        text = self._held + text
        end = max(text.rfind(" "), text.rfind("\n")) + 1
        if len(text) - end > _LONGEST_HELD or not text[end:].isascii():
            end = len(text)
        self._held = text[end:]
        return "".join(map(self._placed, _STREAMED.findall(text[:end])))

    def end(self) -> str:
        """Return the rest of the text; the next text begins a line."""
        rest = "".join(map(self._placed, _STREAMED.findall(self._held)))
        self._column, self._blanks, self._held = 0, "", ""
        return rest

    def _placed(self, piece: str) -> str:
        if piece == "\n":
            self._column, self._blanks = 0, ""
            return piece
        if piece[0] == " ":
            self._blanks += piece
            return ""
        cells = width(self._blanks) + width(piece)
        if self._column and self._column + cells > self._room:
            self._column, self._blanks = width(piece), ""
            return f"\n{piece}"
        placed, self._column, self._blanks = f"{self._blanks}{piece}", self._column + cells, ""
        return placed


def _words_of(long: Line) -> Iterator[tuple[TextSpan, str]]:
    """Return each word of a line with the blanks before it, and its span."""
    for span in long:
        for word in _WORD.findall(span.text):
            yield span, word


def _hanging_indent(long: Line, room: int) -> int:
    text = "".join(span.text for span in long)
    indent, column = len(text) - len(text.lstrip(" ")) + 2, 0
    for span in long:
        indent = column if span.hangs else indent
        column += width(span.text)
    return indent if indent <= room // 2 else 4


def _cells(letter: str) -> int:
    if unicodedata.combining(letter) or letter in _JOINERS:
        return 0
    return 2 if unicodedata.east_asian_width(letter) in ("W", "F") else 1


def _is_seen(letter: str) -> bool:
    return letter in _PRINTED_CONTROLS or letter in _JOINERS or unicodedata.category(letter) not in _UNSEEN


def _written_out(letter: str) -> str:
    return letter.encode("unicode_escape", "surrogatepass").decode("ascii")


_UNITS = ((86_400, "d"), (3_600, "h"), (60, "min"), (1, "s"))


def ago(then: datetime | None, now: datetime) -> str:
    """Return how long ago a moment was."""
    if then is None:
        return ""
    seconds = (now - then).total_seconds()
    return "just now" if seconds < 1 else f"{length(seconds)} ago"


def length(seconds: float) -> str:
    """Return a length of time in the largest unit that fits, as a whole number."""
    for size, unit in _UNITS:
        if seconds >= size:
            return f"{seconds / size:.0f} {unit}"
    return f"{seconds * 1000:.0f} ms"


def day_and_time(moment: datetime | None) -> str:
    """Return a moment to the second, in its own time zone."""
    return moment.strftime("%Y-%m-%d %H:%M:%S %Z").strip() if moment else ""


def time_of(moment: datetime | None) -> str:
    """Return the time of day of a moment, to the second."""
    return moment.strftime("%H:%M:%S") if moment else ""


def time_between(begin: datetime | None, end: datetime | None) -> str:
    """Return the length of time between two moments, if both are known."""
    if begin is None or end is None:
        return ""
    return length(max((end - begin) / timedelta(seconds=1), 0.0))


_SHORT = 12


@value
class Hints:
    """Writes commands for the same application, tenant and principal as the command that was called."""

    options: str = ""

    def command(self, *words: str) -> TextSpan:
        """Return a command to copy."""
        text = " ".join(["pilotage", *words, *([self.options] if self.options else [])])
        return TextSpan(text, Tone.COMMAND)


def short(run_or_request_id: str) -> str:
    """Return an abbreviated id: of a run its beginning; of a request that of its run and its own."""
    return ":".join(part[:_SHORT] for part in run_or_request_id.split(":"))

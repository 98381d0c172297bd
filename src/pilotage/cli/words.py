"""Text that commands print: pieces in tones, lines, columns, times, and commands to copy. Pure.

Everything that a screen writes passes `cleaned`: nothing that comes from a model, a tool or a database may move a
cursor, hide a letter or pose as a question of ours.
"""

from __future__ import annotations

import unicodedata
from collections.abc import Sequence
from datetime import datetime, timedelta
from enum import StrEnum
from typing import TypeAlias

from pilotage.values import value

_KEPT = frozenset("\n\t")
# Format characters turn text around or hide it; the joiners are letters of living scripts and of emoji.
_JOINERS = frozenset("\u200c\u200d")
_UNSEEN = frozenset({"Cc", "Cf", "Cs", "Zl", "Zp"})
_ELLIPSIS = "…"


class Tone(StrEnum):
    """What a piece of text is to the reader; a terminal shows it in colour."""

    PLAIN = "plain"
    QUIET = "quiet"
    STRONG = "strong"
    GOOD = "good"
    BAD = "bad"
    ASKING = "asking"
    NAME = "name"


@value
class TextSpan:
    """A piece of text in one tone."""

    text: str
    tone: Tone = Tone.PLAIN


Line: TypeAlias = tuple[TextSpan, ...]


def line(*parts: str | TextSpan) -> Line:
    """A line of plain and toned pieces."""
    return tuple(TextSpan(part) if isinstance(part, str) else part for part in parts)


def plain(lines: Sequence[Line]) -> str:
    """The lines as text without tones, each with its end."""
    return "".join(f"{''.join(span.text for span in each).rstrip()}\n" for each in lines)


def cleaned(text: str) -> str:
    """The text with everything that a terminal would obey, or a reader would not see, written out."""
    if text.isascii() and text.isprintable():
        return text
    return "".join(each if _is_seen(each) else _written_out(each) for each in text)


def one_line(text: str, limit: int = 200) -> str:
    """The beginning of a text, on one line."""
    words = " ".join(text.split())
    return cleaned(cut(words, limit))


def cut(text: str, cells: int) -> str:
    """As much of a text as fits into so many cells of a terminal."""
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
    """How many cells of a terminal a text takes."""
    return len(text) if text.isascii() else sum(map(_cells, text))


def columns(rows: Sequence[Sequence[TextSpan]], room: int | None = None) -> list[Line]:
    """Rows as columns side by side; where there is a limit to the room, the last column gives way."""
    if not rows:
        return []
    widths = [max(width(row[at].text) for row in rows) for at in range(len(rows[0]))]
    rest = None if room is None else max(room - sum(widths[:-1]) - 2 * (len(widths) - 1), 8)
    return [_row(row, widths, rest) for row in rows]


def _row(row: Sequence[TextSpan], widths: Sequence[int], rest: int | None) -> Line:
    *before, last = row
    padded = [
        TextSpan(f"{span.text}{' ' * (widths[at] - width(span.text) + 2)}", span.tone)
        for at, span in enumerate(before)
    ]
    return (*padded, last if rest is None else TextSpan(cut(last.text, rest), last.tone))


def _cells(letter: str) -> int:
    if unicodedata.combining(letter) or letter in _JOINERS:
        return 0
    return 2 if unicodedata.east_asian_width(letter) in ("W", "F") else 1


def _is_seen(letter: str) -> bool:
    return letter in _KEPT or letter in _JOINERS or unicodedata.category(letter) not in _UNSEEN


def _written_out(letter: str) -> str:
    return letter.encode("unicode_escape", "surrogatepass").decode("ascii")


_UNITS = ((86_400, "d"), (3_600, "h"), (60, "min"))


def ago(then: datetime | None, now: datetime) -> str:
    """How long ago something was."""
    if then is None:
        return ""
    seconds = (now - then).total_seconds()
    return "just now" if seconds < 1 else f"{length(seconds)} ago"


def length(seconds: float) -> str:
    """A length of time, in the largest unit that fits."""
    for size, unit in _UNITS:
        if seconds >= size:
            return f"{seconds / size:.0f} {unit}"
    if seconds >= 10:
        return f"{seconds:.0f} s"
    return f"{seconds:.1f} s" if seconds >= 0.1 else f"{seconds * 1000:.0f} ms"


def day_and_time(moment: datetime | None) -> str:
    """A moment to the second, in its own time zone."""
    return moment.strftime("%Y-%m-%d %H:%M:%S %Z").strip() if moment else ""


def time_of(moment: datetime | None) -> str:
    """The time of a day to the second."""
    return moment.strftime("%H:%M:%S") if moment else ""


def time_between(begin: datetime | None, end: datetime | None) -> str:
    """The length of time between two moments, where both are known."""
    if begin is None or end is None:
        return ""
    return length(max((end - begin) / timedelta(seconds=1), 0.0))


_SHORT = 12


@value
class Hints:
    """Writes commands that mean the same application, tenant and person as the one that was called."""

    options: str = ""

    def command(self, *words: str) -> str:
        """A command to copy."""
        return " ".join(["pilotage", *words, *([self.options] if self.options else [])])


def short(run_or_request_id: str) -> str:
    """An id, abbreviated: of a run its beginning, of a request that of its run and its own."""
    return ":".join(part[:_SHORT] for part in run_or_request_id.split(":"))

"""Reads a pattern: the part of Python's regular expressions that can be decided while text streams.

The parser reads structure only. `re` decides what a single character matches: an atom has its own source, so that
classes, escapes, Unicode and case mean exactly the same.
Constructs that cannot be decided exactly within bounded memory are refused with what to write instead.
"""

from __future__ import annotations

import re
from enum import Enum, auto
from typing import TypeAlias

from pilotage.values import value

_SCOPES = {"i": re.IGNORECASE, "s": re.DOTALL, "a": re.ASCII}
_PLAIN = re.RegexFlag(0)
# Text is Unicode unless it is ASCII, and without anchors lines do not matter: u and m add nothing.
_FLAGS = {"i": re.IGNORECASE, "s": re.DOTALL, "a": re.ASCII, "u": _PLAIN, "m": _PLAIN}
_LENGTHS = {"x": 2, "u": 4, "U": 8}
_REPEAT = re.compile(r"\{(\d*)(?:(,)(\d*))?\}")
_SCOPED_FLAGS = re.compile(r"\(\?([aimsuxL]*)(?:-([imsx]+))?([:)])")
_NAMED_GROUP = re.compile(r"\(\?P<\w+>")


@value
class Atom:
    """A matcher of one character: a literal, an escape, a class or the dot, in its own source."""

    source: str
    flags: re.RegexFlag

    @property
    def scoped(self) -> str:
        """The source with its flags, for use within another pattern."""
        letters = "".join(letter for letter, flag in _SCOPES.items() if self.flags & flag)
        return f"(?{letters}:{self.source})" if letters else self.source


class Side(Enum):
    """The neighbour that an assertion looks at."""

    BEHIND = auto()
    AHEAD = auto()


@value
class Look:
    """An assertion that the neighbour on one side is, or is not, a character of a kind."""

    side: Side
    atom: Atom
    wanted: bool


@value
class Boundary:
    """An assertion that just one of the two neighbours is a word character, or that both or none is."""

    word: Atom
    wanted: bool


@value
class Sequence:
    """Its parts, one after the other."""

    parts: tuple[Tree, ...]


@value
class Alternation:
    """One of its options; the first that leads to a match wins."""

    options: tuple[Tree, ...]


@value
class Repetition:
    """Its body, between least and most times (None: without end), as often or as seldom as possible."""

    body: Tree
    least: int
    most: int | None
    lazy: bool


Tree: TypeAlias = Atom | Look | Boundary | Sequence | Alternation | Repetition


def may_be_empty(tree: Tree) -> bool:
    """Return whether a match of the tree may have no characters."""
    match tree:
        case Atom():
            return False
        case Look() | Boundary():
            return True
        case Sequence(parts):
            return all(may_be_empty(part) for part in parts)
        case Alternation(options):
            return any(may_be_empty(option) for option in options)
        case Repetition(body, least):
            return least == 0 or may_be_empty(body)


class UnsupportedPatternError(Exception):
    """A construct that streaming redaction cannot decide; says which one and what to write instead."""

    def __init__(self, construct: str, instead: str) -> None:
        super().__init__(construct, instead)
        self.construct = construct
        self.instead = instead


def parse(source: str) -> Tree:
    """Return the structure of a pattern; raise `UnsupportedPatternError` if no stream can decide it."""
    tree = _Parser(source).pattern()
    if may_be_empty(tree):
        raise UnsupportedPatternError(
            "matches the empty text", "Make at least one character mandatory, e.g. '+' instead of '*'"
        )
    return tree


class _Parser:
    """Recursive descent over the source; `re` has compiled it before, so brackets are known to close."""

    def __init__(self, source: str) -> None:
        self._source = source
        self._at = 0

    def pattern(self) -> Tree:
        flags = _PLAIN
        while (scope := _SCOPED_FLAGS.match(self._source, self._at)) and scope[3] == ")":
            self._at = scope.end()
            flags |= self._flags(scope[1])
        return self._choice(flags)

    def _choice(self, flags: re.RegexFlag) -> Tree:
        options = [self._sequence(flags)]
        while self._take("|"):
            options.append(self._sequence(flags))
        return options[0] if len(options) == 1 else Alternation(tuple(options))

    def _sequence(self, flags: re.RegexFlag) -> Tree:
        parts: list[Tree] = []
        while self._at < len(self._source) and self._source[self._at] not in "|)":
            if self._source.startswith("(?#", self._at):
                self._at = self._source.index(")", self._at) + 1
                continue
            parts.append(self._repeated(self._element(flags)))
        return parts[0] if len(parts) == 1 else Sequence(tuple(parts))

    def _repeated(self, body: Tree) -> Tree:
        bounds = self._bounds()
        if bounds is None:
            return body
        if self._take("+"):
            raise UnsupportedPatternError(
                f"uses a possessive quantifier before position {self._at}", "Use the plain quantifier"
            )
        lazy = self._take("?")
        least, most = bounds
        if may_be_empty(body) and most != 1:
            raise UnsupportedPatternError(
                f"repeats something that may be empty before position {self._at}",
                "Make what is repeated match at least one character, e.g. '(?:a+)?' instead of '(?:a*)*'",
            )
        return Repetition(body, least, most, lazy)

    def _bounds(self) -> tuple[int, int | None] | None:
        for sign, bounds in (("*", (0, None)), ("+", (1, None)), ("?", (0, 1))):
            if self._take(sign):
                return bounds
        counted = _REPEAT.match(self._source, self._at)
        if counted is None or counted[0] == "{}":
            return None
        self._at = counted.end()
        least = int(counted[1] or 0)
        if counted[2] is None:
            return least, least
        return least, int(counted[3]) if counted[3] else None

    def _element(self, flags: re.RegexFlag) -> Tree:
        match self._source[self._at]:
            case "(":
                return self._group(flags)
            case "[":
                return self._class(flags)
            case "\\":
                return self._escape(flags)
            case "^" | "$" as anchor:
                raise _anchored(anchor, self._at)
            case ".":
                return Atom(self._cut(1), flags)
            case _:
                return Atom(re.escape(self._cut(1)), flags)

    def _group(self, flags: re.RegexFlag) -> Tree:
        for opening, side, wanted in (
            ("(?=", Side.AHEAD, True),
            ("(?!", Side.AHEAD, False),
            ("(?<=", Side.BEHIND, True),
            ("(?<!", Side.BEHIND, False),
        ):
            if self._take(opening):
                return self._look(side, wanted, flags)
        if scope := _SCOPED_FLAGS.match(self._source, self._at):
            dropped = self._flags(scope[2] or "") | (re.ASCII if "u" in scope[1] else _PLAIN)
            flags = (flags & ~dropped) | self._flags(scope[1])
            self._at = scope.end()
        elif named := _NAMED_GROUP.match(self._source, self._at):
            self._at = named.end()
        elif self._source.startswith("(?", self._at):
            raise _unknown_group(self._source[self._at : self._at + 4], self._at)
        else:
            self._at += 1
        inner = self._choice(flags)
        self._at += 1
        return inner

    def _look(self, side: Side, wanted: bool, flags: re.RegexFlag) -> Tree:
        start = self._at
        inner = self._choice(flags)
        self._at += 1
        if not isinstance(inner, Atom):
            raise UnsupportedPatternError(
                f"looks at more than one neighbouring character at position {start}",
                r"Let a look-around hold a single character or class, e.g. (?!\d) or (?<![\w.])",
            )
        return Look(side, inner, wanted)

    def _class(self, flags: re.RegexFlag) -> Atom:
        end = self._at + 1
        end += self._source.startswith("^", end)
        end += self._source.startswith("]", end)
        while self._source[end] != "]":
            end += 2 if self._source[end] == "\\" else 1
        return Atom(self._cut(end + 1 - self._at), flags)

    def _escape(self, flags: re.RegexFlag) -> Tree:
        letter = self._source[self._at + 1]
        if letter in "bB":
            self._at += 2
            return Boundary(Atom(r"\w", flags & ~re.IGNORECASE), wanted=letter == "b")
        if letter in "AZz":
            raise _anchored(rf"\{letter}", self._at)
        if letter.isdigit():
            raise UnsupportedPatternError(
                f"uses a back-reference or an octal escape at position {self._at}",
                r"Write the repeated part out, or the character as \xHH",
            )
        if letter == "N":
            return Atom(self._cut(self._source.index("}", self._at) + 1 - self._at), flags)
        return Atom(self._cut(2 + _LENGTHS.get(letter, 0)), flags)

    def _flags(self, letters: str) -> re.RegexFlag:
        if set(letters) & set("xL"):
            raise UnsupportedPatternError(
                f"uses the flag {'x' if 'x' in letters else 'L'!r} at position {self._at}",
                "Write the pattern without blanks and comments, with the flags i, s, a or m only",
            )
        flags = _PLAIN
        for letter in letters:
            flags |= _FLAGS[letter]
        return flags

    def _take(self, text: str) -> bool:
        found = self._source.startswith(text, self._at)
        self._at += len(text) if found else 0
        return found

    def _cut(self, length: int) -> str:
        start, self._at = self._at, self._at + length
        return self._source[start : self._at]


def _anchored(anchor: str, at: int) -> UnsupportedPatternError:
    return UnsupportedPatternError(
        f"uses the anchor {anchor!r} at position {at}",
        r"A stream has no lines and no known end: use \b, or a look-around such as (?!\w)",
    )


def _unknown_group(opening: str, at: int) -> UnsupportedPatternError:
    if opening.startswith("(?>"):
        return UnsupportedPatternError(f"uses an atomic group at position {at}", "Use a plain group (?:...)")
    if opening.startswith("(?P="):
        return UnsupportedPatternError(
            f"uses a back-reference at position {at}", "Write the repeated part out"
        )
    return UnsupportedPatternError(
        f"uses a conditional group at position {at}", "Write both cases as alternatives, e.g. (?:a|b)"
    )

"""The structure of a pattern, as values."""

from __future__ import annotations

import re
from enum import Enum, auto
from typing import TypeAlias

from pilotage.values import value

_SCOPES = {"i": re.IGNORECASE, "s": re.DOTALL, "a": re.ASCII}


@value
class Atom:
    """Matches one character: a literal, an escape, a class or the dot, in its own source."""

    source: str
    flags: re.RegexFlag

    @property
    def scoped(self) -> str:
        """The source with its flags, for use within another pattern."""
        letters = "".join(letter for letter, flag in _SCOPES.items() if self.flags & flag)
        return f"(?{letters}:{self.source})" if letters else self.source


class Side(Enum):
    """Which neighbour an assertion looks at."""

    BEHIND = auto()
    AHEAD = auto()


@value
class Look:
    """Asserts that the neighbour on one side is, or is not, a character of a kind."""

    side: Side
    atom: Atom
    wanted: bool


@value
class Boundary:
    """Asserts that just one of the two neighbours is a word character, or that both or none is."""

    word: Atom
    wanted: bool


@value
class Sequence:
    """Its parts, one after the other."""

    parts: tuple[Tree, ...]


@value
class Choice:
    """One of its options; the first that leads to a match wins."""

    options: tuple[Tree, ...]


@value
class Repeat:
    """Its body, between least and most times (None: without end), as often or as seldom as possible."""

    body: Tree
    least: int
    most: int | None
    lazy: bool


Tree: TypeAlias = Atom | Look | Boundary | Sequence | Choice | Repeat


def may_be_empty(tree: Tree) -> bool:
    """Whether a match of the tree may have no characters."""
    match tree:
        case Atom():
            return False
        case Look() | Boundary():
            return True
        case Sequence(parts):
            return all(may_be_empty(part) for part in parts)
        case Choice(options):
            return any(may_be_empty(option) for option in options)
        case Repeat(body, least):
            return least == 0 or may_be_empty(body)

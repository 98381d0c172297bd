"""Finds, at the speed of `re`, the next place in plain text at which a pattern may begin.

From each pattern a short beginning is taken, which matches wherever the pattern does. Its reach is bounded,
and only the places from which the whole reach is in sight are searched. A beginning has at most one run of
variable length, so a search takes linear time.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from collections.abc import Sequence as Items
from dataclasses import replace
from itertools import groupby
from typing import NamedTuple

from pilotage.safety.redaction.tree import Atom, Boundary, Choice, Look, Repeat, Sequence, Side, Tree

_LONGEST_RUN = 64
_ATOMS = 4
"""So many atoms make a beginning rare enough."""


class _Beginning(NamedTuple):
    source: str = ""
    reach: int = 0

    def then(self, rest: _Beginning) -> _Beginning:
        return _Beginning(self.source + rest.source, self.reach + rest.reach)


class Prefilter:
    """Searches for places at which one of the trees may begin."""

    def __init__(self, trees: Items[Tree]) -> None:
        led = sorted(trees, key=lambda tree: repr(_lead(tree)))
        beginning = _any_of(_led_by(lead, group) for lead, group in groupby(led, _lead))
        self._search = re.compile(beginning.source).search
        self._reach = beginning.reach

    def next_start(self, text: str, position: int) -> int:
        """The next position at which a match may begin.

        The neighbour of a first character is not in the text, so do not ask from position 0.
        """
        last = len(text) - self._reach
        if position >= last:
            return position
        found = self._search(text, position)
        return min(found.start(), last) if found else last


def _lead(tree: Tree) -> Tree | None:
    """The assertion in front, which patterns can share: `re` then rejects most places by it alone."""
    first = _parts(tree)[0]
    return first if isinstance(first, Boundary) else None


def _led_by(lead: Tree | None, trees: Iterable[Tree]) -> _Beginning:
    if lead is None:
        return _any_of(_beginning(_parts(tree), _ATOMS) for tree in trees)
    rest = _any_of(_beginning(_parts(tree)[1:], _ATOMS) for tree in trees)
    return _beginning([lead], _ATOMS).then(rest)


def _any_of(beginnings: Iterable[_Beginning]) -> _Beginning:
    options = list(beginnings)
    if len(options) == 1:
        return options[0]
    return _Beginning(f"(?:{'|'.join(o.source for o in options)})", max(o.reach for o in options))


def _parts(tree: Tree) -> list[Tree]:
    if isinstance(tree, Sequence):
        return [part for inner in tree.parts for part in _parts(inner)]
    return [tree]


def _beginning(parts: Items[Tree], atoms: int) -> _Beginning:
    """What the parts begin with, some atoms long."""
    if not parts or atoms <= 0:
        return _Beginning()
    first, rest = parts[0], parts[1:]
    match first:
        case Atom():
            return _Beginning(first.scoped, 1).then(_beginning(rest, atoms - 1))
        case Look() | Boundary():
            return _Beginning(_assertion(first), 1).then(_beginning(rest, atoms))
        case Choice(options):
            return _any_of(_beginning(_parts(option), atoms) for option in options)
        case Repeat():
            return _run(first, rest, atoms)
        case Sequence():
            return _beginning([*_parts(first), *rest], atoms)


def _run(run: Repeat, rest: Items[Tree], atoms: int) -> _Beginning:
    body, least, most = run.body, run.least, run.most
    if least == 0:
        return _any_of([_run(replace(run, least=1), rest, atoms), _beginning(rest, atoms)])
    if not isinstance(body, Atom):
        return _beginning(_parts(body), atoms)
    if most is None or most > _LONGEST_RUN:
        least = min(least, _LONGEST_RUN)
        return _Beginning(f"{body.scoped}{{{least}}}", least)
    behind = _beginning(rest, 1) if rest and isinstance(rest[0], Atom) else _Beginning()
    return _Beginning(f"{body.scoped}{{{least},{most}}}", most).then(behind)


def _assertion(assertion: Look | Boundary) -> str:
    if isinstance(assertion, Boundary):
        sign = r"\b" if assertion.wanted else r"\B"
        return f"(?a:{sign})" if assertion.word.flags & re.ASCII else sign
    sign = "=" if assertion.wanted else "!"
    return f"(?{'<' if assertion.side is Side.BEHIND else ''}{sign}{assertion.atom.scoped})"

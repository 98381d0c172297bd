"""Finds, at the speed of `re`, the next place in plain text at which a pattern may begin.

From each pattern a short beginning is taken, which matches wherever the pattern does. Its reach is bounded,
and only the places from which the whole reach is in sight are searched. A beginning has at most one run of
variable length, so a search takes linear time. Where candidates count as matches once they are long enough,
no beginning is longer than that.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from collections.abc import Sequence as Items
from dataclasses import replace
from itertools import groupby
from operator import itemgetter
from typing import NamedTuple

from pilotage.safety.redaction.syntax import (
    Alternation,
    Atom,
    Boundary,
    Look,
    Repetition,
    Sequence,
    Side,
    Tree,
)


class _Budget(NamedTuple):
    """Limits of a beginning: its number of atoms, and the length of a run of one atom."""

    atoms: int
    run: int

    def less(self, atoms: int) -> _Budget:
        return self._replace(atoms=self.atoms - atoms)


_ENOUGH = _Budget(atoms=4, run=64)
"""Makes most beginnings rare."""
_FIRST = _Budget(atoms=1, run=1)


class _Beginning(NamedTuple):
    source: str = ""
    reach: int = 0

    def then(self, rest: _Beginning) -> _Beginning:
        return _Beginning(self.source + rest.source, self.reach + rest.reach)


class Prefilter:
    """Search for places at which one of the trees may begin.

    `limits` says for each tree after how many characters a candidate counts as a match, 0 for never. Where less than
    the `reach` is left of a text, there is nothing to search.
    """

    def __init__(self, trees: Items[Tree], limits: Items[int]) -> None:
        starts = [_split_lead(tree, limit) for tree, limit in zip(trees, limits, strict=True)]
        led = groupby(sorted(starts, key=itemgetter(0)), itemgetter(0))
        beginning = _any_of(lead.then(_any_of(rest for _, rest in group)) for lead, group in led)
        self._search = re.compile(beginning.source).search
        self.reach = beginning.reach

    def next_start(self, text: str, position: int) -> int:
        """Return the next position at which a match may begin.

        The neighbour of a first character is not in the text, so do not ask from position 0.
        """
        last = len(text) - self.reach
        if position >= last:
            return position
        found = self._search(text, position)
        return min(found.start(), last) if found else last


def _split_lead(tree: Tree, limit: int) -> tuple[_Beginning, _Beginning]:
    """Return the boundary in front and the rest: patterns share the boundary, and `re` rejects most places by it."""
    parts = _parts(tree)
    leads = 1 if isinstance(parts[0], Boundary) else 0
    lead = _beginning(parts[:leads], _FIRST)
    rest = _beginning(parts[leads:], _ENOUGH)
    return lead, rest if not limit or rest.reach <= limit else _beginning(parts[leads:], _FIRST)


def _any_of(beginnings: Iterable[_Beginning]) -> _Beginning:
    options = list(beginnings)
    if len(options) == 1:
        return options[0]
    return _Beginning(f"(?:{'|'.join(o.source for o in options)})", max(o.reach for o in options))


def _parts(tree: Tree) -> list[Tree]:
    if isinstance(tree, Sequence):
        return [part for inner in tree.parts for part in _parts(inner)]
    return [tree]


def _beginning(parts: Items[Tree], budget: _Budget) -> _Beginning:
    """Return a beginning of the parts, within the budget."""
    if not parts or budget.atoms <= 0:
        return _Beginning()
    first, rest = parts[0], parts[1:]
    match first:
        case Atom():
            return _Beginning(first.scoped, 1).then(_beginning(rest, budget.less(1)))
        case Look() | Boundary():
            return _Beginning(_assertion(first), 1).then(_beginning(rest, budget))
        case Alternation(options):
            return _any_of(_beginning(_parts(option), budget) for option in options)
        case Repetition():
            return _run(first, rest, budget)
        case Sequence():
            return _beginning([*_parts(first), *rest], budget)


def _run(run: Repetition, rest: Items[Tree], budget: _Budget) -> _Beginning:
    body, least, most = run.body, run.least, run.most
    if least == 0:
        return _any_of([_run(replace(run, least=1), rest, budget), _beginning(rest, budget)])
    if not isinstance(body, Atom):
        return _beginning(_parts(body), budget)
    if most is None or most > budget.run:
        least = min(least, budget.run)
        return _Beginning(f"{body.scoped}{{{least}}}", least)
    is_followed = budget.atoms > 1 and rest and isinstance(rest[0], Atom)
    following = _beginning(rest, _FIRST) if is_followed else _Beginning()
    return _Beginning(f"{body.scoped}{{{least},{most}}}", most).then(following)


def _assertion(assertion: Look | Boundary) -> str:
    if isinstance(assertion, Boundary):
        sign = r"\b" if assertion.wanted else r"\B"
        return f"(?a:{sign})" if assertion.word.flags & re.ASCII else sign
    sign = "=" if assertion.wanted else "!"
    return f"(?{'<' if assertion.side is Side.BEHIND else ''}{sign}{assertion.atom.scoped})"

"""Compiles parsed patterns into one graph of nodes, and computes how much text a pattern may hold back.

Nodes are numbers. A character node consumes one character; a fork goes on at several nodes, best first;
a look goes on if a neighbour fits; a match node ends its pattern. Forks keep the order in which a
backtracking matcher would try, so the first thread to arrive is the match that `re` would find.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Sequence as Items
from functools import lru_cache
from typing import TypeAlias, assert_never

from pilotage.safety.redaction.syntax import (
    Alternation,
    Atom,
    Boundary,
    Look,
    Repetition,
    Sequence,
    Side,
    Tree,
    UnsupportedPatternError,
)
from pilotage.values import value

_MOST_NODES = 20_000
_LITERAL = re.compile(r"\\?[^\w\\.\[]|[^\W]|\\[^\w]", re.ASCII)
_LONG_ESCAPE = re.compile(r"\\(?:U|u|x)([0-9a-fA-F]+)")


@lru_cache(maxsize=1)
def _characters() -> str:
    """Return the first two planes of Unicode, and samples of the others, which have few classes of long runs each."""
    return "".join(map(chr, [*range(0x20000), *range(0x20000, 0x32000, 16), *range(0x32000, 0x110000, 256)]))


@lru_cache(maxsize=1_000)
def _distinctive_characters(atom: Atom) -> frozenset[str]:
    """Return the characters at which an atom begins or ceases to match, and those that it names."""
    named = {*map(ord, atom.source), *(int(digits, 16) for digits in _LONG_ESCAPE.findall(atom.source))}
    characters = {
        chr(code + near) for code in named for near in (-1, 0, 1) if 0 <= code + near <= sys.maxunicode
    }
    if not _LITERAL.fullmatch(atom.source) or atom.flags & re.IGNORECASE:
        every = _characters()
        for run in re.compile(f"(?:{atom.source})+", atom.flags).finditer(every):
            characters.update((every[run.start()], every[run.end() : run.end() + 1] or "\0"))
    return frozenset(characters)


@value
class Character:
    """A node that consumes a character that its atom matches."""

    atom: int
    next: int


@value
class Fork:
    """Goes on at each of the nodes, the first being the best."""

    nexts: tuple[int, ...]


@value
class Peek:
    """Goes on if the neighbour on one side is, or is not, matched by the atom."""

    side: Side
    atom: int
    wanted: bool
    next: int


@value
class Match:
    """The end of a pattern."""

    pattern: int


Node: TypeAlias = Character | Fork | Peek | Match


class ScanProgram:
    """The nodes of several patterns, tried in their order, and the atoms they share.

    `owners` says which pattern a node belongs to; the fork at the start belongs to none.
    """

    def __init__(self, trees: Items[Tree]) -> None:
        self.nodes: list[Node] = []
        self.owners: list[int] = []
        self._atoms: dict[Atom, int] = {}
        self.start = self._add(Fork(tuple(self._entry(pattern, tree) for pattern, tree in enumerate(trees))))
        self._tests = [re.compile(atom.source, atom.flags) for atom in self._atoms]

    def kind_of(self, character: str) -> int:
        """Return which atoms match a character, as bits; characters of one kind are treated alike."""
        kind = 0
        for atom, test in enumerate(self._tests):
            if test.match(character):
                kind |= 1 << atom
        return kind

    def kinds(self) -> set[int]:
        """Return the kinds that some character has."""
        return {
            self.kind_of(character) for character in {"\0"}.union(*map(_distinctive_characters, self._atoms))
        }

    def _entry(self, pattern: int, tree: Tree) -> int:
        entry = self._compile(tree, self._add(Match(pattern)))
        self.owners.extend([pattern] * (len(self.nodes) - len(self.owners)))
        return entry

    def _add(self, node: Node) -> int:
        if len(self.nodes) >= _MOST_NODES:
            raise UnsupportedPatternError(
                f"repeats too much: its counted repetitions multiply to more than {_MOST_NODES} characters",
                "Use '*' or '+' with max_candidate_length instead of large counts",
            )
        self.nodes.append(node)
        return len(self.nodes) - 1

    def _atom(self, atom: Atom) -> int:
        return self._atoms.setdefault(atom, len(self._atoms))

    def _compile(self, tree: Tree, then: int) -> int:
        """Return the node at which the tree begins; it goes on at `then`."""
        match tree:
            case Atom():
                return self._add(Character(self._atom(tree), then))
            case Look(side, atom, wanted):
                return self._add(Peek(side, self._atom(atom), wanted, then))
            case Boundary(word, wanted):
                return self._boundary(self._atom(word), wanted, then)
            case Sequence(parts):
                for part in reversed(parts):
                    then = self._compile(part, then)
                return then
            case Alternation(options):
                return self._add(Fork(tuple(self._compile(option, then) for option in options)))
            case Repetition():
                return self._repeat(tree, then)
            case _:
                assert_never(tree)

    def _boundary(self, word: int, wanted: bool, then: int) -> int:
        """Return both ways in which the neighbours can differ (or agree), as pairs of looks."""
        ways = [
            self._add(
                Peek(
                    Side.BEHIND, word, is_before, self._add(Peek(Side.AHEAD, word, is_before != wanted, then))
                )
            )
            for is_before in (True, False)
        ]
        return self._add(Fork(tuple(ways)))

    def _repeat(self, repeat: Repetition, then: int) -> int:
        if repeat.most is None:
            return self._loop(repeat, then)
        entry = then
        for _ in range(repeat.most - repeat.least):
            entry = self._fork(repeat, self._compile(repeat.body, entry), then)
        for _ in range(repeat.least):
            entry = self._compile(repeat.body, entry)
        return entry

    def _loop(self, repeat: Repetition, then: int) -> int:
        fork = self._add(Fork(()))
        body = self._compile(repeat.body, fork)
        self.nodes[fork] = Fork((then, body) if repeat.lazy else (body, then))
        entry = body if repeat.least else fork
        for _ in range(repeat.least - 1):
            entry = self._compile(repeat.body, entry)
        return entry

    def _fork(self, repeat: Repetition, body: int, then: int) -> int:
        return self._add(Fork((then, body) if repeat.lazy else (body, then)))


def longest_hold(program: ScanProgram) -> int | None:
    """Return how many characters can at most be held back before they are decided; None for no bound.

    Text is held from the start of a candidate, or from the end of its best match so far, while no
    (better) match is known. So it is the longest way through character nodes none of which completes a
    match, and endless if such a way runs in a circle.
    """
    nodes = program.nodes
    completes = _completing(nodes)
    longest: list[int | None] = [None] * len(nodes)
    on_the_way = bytearray(len(nodes))
    for root in range(len(nodes)):
        stack = [root]
        while stack:
            at = stack[-1]
            nexts = _held_nexts(nodes[at], completes)
            if longest[at] is not None:
                stack.pop()
                continue
            on_the_way[at] = 1
            waiting = [node for node in nexts if longest[node] is None]
            if any(on_the_way[node] for node in waiting):
                return None
            if waiting:
                stack.append(waiting[0])
                continue
            beyond = max((longest[node] or 0 for node in nexts), default=0)
            longest[at] = beyond + (1 if nexts and isinstance(nodes[at], Character) else 0)
            on_the_way[at] = 0
            stack.pop()
    return max(length or 0 for length in longest)


def _completing(nodes: Items[Node]) -> list[bool]:
    """Return the nodes from which a match is reached whatever comes next.

    A node is added after those it goes on to, except the fork of a loop; but a body is never empty, so
    no match is reached through it without a further character.
    """
    completes: list[bool] = []
    for node in nodes:
        match node:
            case Match():
                completes.append(True)
            case Fork(nexts):
                completes.append(any(completes[i] for i in nexts if i < len(completes)))
            case Character() | Peek():
                completes.append(False)
    return completes


def _held_nexts(node: Node, completes: Items[bool]) -> tuple[int, ...]:
    match node:
        case Match():
            return ()
        case Fork(nexts):
            return nexts
        case Peek():
            return (node.next,)
        case Character():
            return () if completes[node.next] else (node.next,)

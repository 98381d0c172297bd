"""Runs all attempts to match over one character, in the order of a backtracking matcher.

An *attempt* matches from one start: a list of threads, the preferred first. Attempts are ordered by their start,
earliest first, so all threads together are ordered from the most to the least preferred match. Four facts
make this exact:

- Two threads at one node have the same future, so the less preferred of them can be dropped. Hence there are
  never more threads than nodes (and conditions), however long the text.
- When a thread arrives, all less preferred threads are dropped: their matches would lose. More preferred
  ones go on, and may replace the match. When none is left, the match is final.
- The character before an assertion is known; a condition on the character after it is stored with the thread
  and decided by the next character.
- The end of the text is treated as a character that no atom matches.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import NamedTuple, TypeAlias

from pilotage.safety.redaction.program import Character, Fork, Match, Peek, ScanProgram
from pilotage.safety.redaction.syntax import Side


class Thread(NamedTuple):
    """A node that waits for the next character, which must fulfil the conditions (atom, wanted)."""

    node: int
    conditions: tuple[tuple[int, bool], ...] = ()

    def accepts(self, kind: int) -> bool:
        """Return whether a character of a kind fulfils the conditions."""
        return all(bool(kind >> atom & 1) is wanted for atom, wanted in self.conditions)


Attempt: TypeAlias = tuple[Thread, ...]


class Arrival(NamedTuple):
    """The attempt that matched, and its pattern."""

    attempt: int
    pattern: int


class Threads:
    """The threads of a program."""

    def __init__(self, program: ScanProgram) -> None:
        self._program = program
        self._expansions: dict[tuple[int, int], Attempt] = {}

    def begin(self, before: int) -> Attempt:
        """Return a new attempt after a character of a kind."""
        return self._expand(self._program.start, before)

    def owner(self, thread: Thread) -> int:
        """Return the pattern that a thread tries to match."""
        return self._program.owners[thread.node]

    def settle(self, attempts: Iterable[Attempt], kind: int) -> tuple[list[Attempt], Arrival | None]:
        """Return the threads whose conditions the next character fulfils, up to the first that has arrived."""
        settled: list[Attempt] = []
        for number, attempt in enumerate(attempts):
            living = [thread for thread in attempt if thread.accepts(kind)]
            arrived = next((n for n, thread in enumerate(living) if self.has_arrived(thread)), None)
            settled.append(tuple(living[:arrived]))
            if arrived is not None:
                return settled, Arrival(number, self.owner(living[arrived]))
        return settled, None

    def has_arrived(self, thread: Thread) -> bool:
        """Return whether a thread is at the end of its pattern; its conditions may still fail."""
        return isinstance(self._program.nodes[thread.node], Match)

    def successors(self, attempt: Attempt, kind: int) -> Iterator[Thread]:
        """Yield the threads of an attempt after a character of a kind."""
        for thread in attempt:
            node = self._program.nodes[thread.node]
            if isinstance(node, Character) and kind >> node.atom & 1:
                yield from self._expand(node.next, kind)

    def forget(self) -> None:
        """Clear the cache."""
        self._expansions.clear()

    def _expand(self, node: int, before: int) -> Attempt:
        """Return the threads at a node after a character of a kind, the preferred first."""
        threads = self._expansions.get((node, before))
        if threads is None:
            threads = self._expansions[node, before] = tuple(dict.fromkeys(self._reached(node, before)))
        return threads

    def _reached(self, node: int, before: int) -> Iterator[Thread]:
        stack = [Thread(node)]
        while stack:
            thread = stack.pop()
            match self._program.nodes[thread.node]:
                case Fork(nexts):
                    stack.extend(Thread(n, thread.conditions) for n in reversed(nexts))
                case Peek() as peek:
                    stack.extend(_after_assertion(peek, thread, before))
                case Character() | Match():
                    yield thread


def _after_assertion(peek: Peek, thread: Thread, before: int) -> Iterator[Thread]:
    """Yield the thread after an assertion: decided by the character before, or with a condition on the next one."""
    if peek.side is Side.AHEAD:
        yield Thread(peek.next, (*thread.conditions, (peek.atom, peek.wanted)))
    elif bool(before >> peek.atom & 1) is peek.wanted:
        yield Thread(peek.next, thread.conditions)


class ThreadStep:
    """All attempts taken over one character, in order, up to the first that has arrived.

    `living` numbers the attempts that go on.
    """

    def __init__(self, threads: Threads, settled: Iterable[Attempt], kind: int) -> None:
        self._threads = threads
        self._seen: set[Thread] = set()
        self.attempts: list[Attempt] = []
        self.living: list[int] = []
        self.arrived: Arrival | None = None
        for number, attempt in enumerate(settled):
            survivors = tuple(self._survivors(number, threads.successors(attempt, kind)))
            if survivors:
                self.attempts.append(survivors)
                self.living.append(number)
            if self.arrived:
                break

    def unseen(self, threads: Iterable[Thread]) -> Iterator[Thread]:
        """Yield the threads whose future no preferred thread has."""
        for thread in threads:
            if thread not in self._seen:
                self._seen.add(thread)
                yield thread

    def _survivors(self, number: int, threads: Iterable[Thread]) -> Iterator[Thread]:
        for thread in self.unseen(threads):
            if self._threads.has_arrived(thread) and not thread.conditions:
                self.arrived = Arrival(number, self._threads.owner(thread))
                return
            yield thread

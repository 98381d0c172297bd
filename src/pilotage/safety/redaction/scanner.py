"""Scans a stream of text with the automaton: releases what is certain, replaces matches, holds the rest.

The law of this module: what is released after each character depends on the characters so far and on
nothing else, so it cannot depend on how the text was cut into chunks. Held back is the text from the start
of the earliest candidate that may still match, or from the end of a match that may still grow.

Only the earliest attempt is followed: while it may match, no later one counts. When it fails, the next one begins one
character later, and the held text is read again. An attempt that reaches a place in a state in which another one
failed, fails too: so no state is left twice at one place, and a character is read at most once for each state in which
an attempt can be there.

A whole text is redacted by one scan from left to right: the leftmost match of any pattern wins, of several
at one place the pattern that comes first, and the scan goes on after the match.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple, TypeAlias

from pilotage.safety.redaction.automaton import Automaton, AutomatonEdge, AutomatonState
from pilotage.safety.redaction.prefilter import Prefilter
from pilotage.safety.redaction.program import ScanProgram
from pilotage.safety.redaction.syntax import Tree
from pilotage.values import value


@value
class Replaced:
    """A replaced match in the stream: the outcome of its pattern.

    `first` is the first character of the match: the text before it was scanned with it as neighbour.
    """

    outcome: str
    first: str


@value
class Resumed:
    """Continuation of the stream after a replacement; `before` is the last character of the match."""

    before: str
    outcome: str = ""


Piece: TypeAlias = str | Replaced | Resumed


class HeldText:
    """Text from which pieces are released from left to right. Positions are those in `text`."""

    def __init__(self) -> None:
        self.text = ""
        self.offset = 0
        self._before = ""
        self._released = 0
        self._pieces: list[Piece] = []
        self._is_replacing = False

    def add(self, text: str) -> int:
        """Append text and return the position at which it begins."""
        position = len(self.text)
        self.text += text
        return position

    def before(self, position: int) -> str:
        """Return the character before a position; empty at the start of the stream."""
        return self.text[position - 1] if position else self._before

    def release(self, end: int) -> None:
        """Release the text up to a position, except text that was released or swallowed before."""
        if end > self._released:
            if self._is_replacing:
                self._pieces.append(Resumed(self.before(self._released)))
                self._is_replacing = False
            self._pieces.append(self.text[self._released : end])
            self._released = end

    def replace(self, outcome: str, first: str) -> None:
        """Release a replacement for text that will be swallowed, and begins with `first`."""
        self._pieces.append(Replaced(outcome, first))
        self._is_replacing = True

    def swallow(self, end: int) -> None:
        """Drop the text up to a position."""
        self._released = end

    def pass_over(self, text: str, before: str = "") -> None:
        """Count text that is not held; the stream goes on after it, or after `before`. Only while no text is held."""
        self.offset += len(text)
        self._before = before or text[-1]

    def take(self, forget: int) -> list[Piece]:
        """Return the pieces decided since the last call. The decided text is dropped, so positions move."""
        if forget:
            self._before = self.text[forget - 1]
            self.text = self.text[forget:]
            self.offset += forget
            self._released = 0
        pieces, self._pieces = self._pieces, []
        return pieces


class Rule(NamedTuple):
    """One pattern as the scanner needs it; a limit of 0 means that its candidates are short by themselves."""

    tree: Tree
    outcome: str
    limit: int = 0


class Rules:
    """Compiled rules, to be shared by any number of scanners."""

    def __init__(self, rules: Sequence[Rule]) -> None:
        self.trees = trees = tuple(rule.tree for rule in rules)
        limits = tuple(rule.limit for rule in rules)
        self.outcomes = tuple(rule.outcome for rule in rules)
        self.program = ScanProgram(trees)
        self.automaton = Automaton(self.program, self.outcomes, limits)
        self.prefilter = Prefilter(trees, limits)


class Span(NamedTuple):
    """A finished match: its pattern and its place in the stream."""

    pattern: int
    start: int
    end: int


def scan(rules: Rules, text: str) -> tuple[list[Piece], list[Span]]:
    """Return the pieces of a whole text, and the matches in it."""
    scanner = Scanner(rules)
    return [*scanner.push(text), *scanner.finish()], scanner.spans


@dataclass(slots=True)
class _Best:
    """The best match so far; positions are those in the held text."""

    pattern: int
    start: int
    end: int
    first: str
    emitted: bool = False


_UNSEEN, _SHARED = -1, -2
"""Depths of a state, counted in characters from the start of an attempt: not reached yet; or several depths."""


class _Failures:
    """The states in which attempts failed, by their place in the stream.

    Attempts that meet at one place in one state have different depths there: only states of several depths count.
    """

    def __init__(self) -> None:
        self._states: dict[int, set[int]] = {}
        self._last = 0

    def add(self, trail: Sequence[tuple[int, AutomatonState]]) -> None:
        """Add the states of a failed attempt."""
        for place, state in trail:
            self._states.setdefault(place, set()).add(state.number)
            self._last = max(self._last, place)

    def has(self, place: int, state: AutomatonState) -> bool:
        """Return whether an attempt in a state fails."""
        return state.number in self._states.get(place, ())

    @property
    def are_known(self) -> bool:
        """Whether there are any."""
        return bool(self._states)

    def forget(self, start: int, end: int) -> None:
        """Drop the places that no attempt can reach any more."""
        if end >= self._last:
            self._states.clear()
        elif self._states:
            for place in range(start, end + 1):
                self._states.pop(place, None)


class Scanner:
    """Scanner of one stream of text.

    `spans` collects the finished matches; their reader empties the list.
    """

    def __init__(self, rules: Rules) -> None:
        self._automaton = rules.automaton
        self._outcomes = rules.outcomes
        self._prefilter = rules.prefilter
        self._held = HeldText()
        self.spans: list[Span] = []
        self.steps = 0
        """How many times a character was read."""
        self._failures = _Failures()
        self._restart(0)

    @property
    def held(self) -> int:
        """How many characters are held back."""
        return len(self._held.text)

    @property
    def decided(self) -> int:
        """How many characters are held back no longer."""
        return self._held.offset

    def push(self, text: str) -> list[Piece]:
        """Scan more text and return the decided pieces."""
        held = self._held
        self._read(held.add(text))
        best = self._best
        held_from = best.end if best else self._start
        held.release(best.start if best else held_from)
        self._start -= held_from
        if best:
            best.start -= held_from
            best.end -= held_from
        return held.take(forget=held_from)

    def finish(self, after: str = "") -> list[Piece]:
        """End the text, before a character of other text or before nothing, and return the last pieces."""
        end = len(self._held.text)
        while self._best is not None or self._start < end:
            pattern = self._automaton.end(self._state, after)
            if pattern >= 0:
                self._match(pattern, end)
            self._read(self._give_up())
        self._held.release(end)
        pieces = self._held.take(forget=end)
        self._failures = _Failures()
        self._restart(0)
        return pieces

    def resume(self, text: str, before: str = "") -> None:
        """Go on after a text that is not scanned but counts for positions; only after `finish`.

        `before` is the character before the next one, if it is not the last of that text.
        """
        self._held.pass_over(text, before)
        self._restart(0)

    def _restart(self, position: int) -> None:
        """Begin an attempt at a position."""
        self._state = self._automaton.start(self._held.before(position))
        self._start = position
        self._trail: list[tuple[int, AutomatonState]] = []
        self._best: _Best | None = None

    def _read(self, position: int) -> None:
        end = len(self._held.text)
        last = end - self._prefilter.reach
        while position < end:
            # The neighbour of the first character is not in the text.
            if 0 < position < last and position == self._start and self._best is None:
                position = self._skip(position)
            position = self._walk(position, end, last)
            if self._state.limit and position >= self._deadline():
                position = self._overdue(position)

    def _skip(self, position: int) -> int:
        """Skip text that cannot begin a match."""
        start = self._prefilter.next_start(self._held.text, position)
        if start > position:
            self._failures.forget(self._held.offset + position, self._held.offset + start - 1)
            self._restart(start)
        return start

    def _walk(self, position: int, end: int, last: int) -> int:
        """Follow the attempt to the next relevant change, or to the end; return the position after it.

        After the `last` place that can be searched, attempts that fail with their first character are skipped here.
        """
        text, state, start = self._held.text, self._state, self._start
        if state.limit:
            end = min(end, self._deadline())
        for at in range(position, end):
            step = state[text[at]]
            if isinstance(step, AutomatonEdge):
                if at == start and at >= last and step.begins is not None:
                    start, state = at + 1, step.begins
                    continue
                self.steps += at + 1 - position
                if start > self._start:
                    self._pass(start)
                return self._act(step, at) if step.begins is None else self._fail()
            state = step
            if state.depth != at - start and self._is_known(state, start, at):
                self.steps += at + 1 - position
                self._pass(start)
                return self._give_up()
        self.steps += end - position
        self._pass(start)
        self._state = state
        return end

    def _pass(self, start: int) -> None:
        """Move the start of the attempt."""
        if self._failures.are_known:
            self._failures.forget(self._held.offset + self._start, self._held.offset + start - 1)
        self._start = start

    def _is_known(self, state: AutomatonState, start: int, at: int) -> bool:
        """Return whether another attempt failed here in this state; add a shared state to the trail of this one."""
        if state.depth == _UNSEEN:
            state.depth = at - start
            return False
        state.depth = _SHARED
        place = self._held.offset + at
        self._trail.append((place, state))
        return self._failures.has(place, state)

    def _act(self, edge: AutomatonEdge, at: int) -> int:
        self._state = edge.target
        if edge.arrived_before >= 0:
            self._match(edge.arrived_before, at)
        if edge.arrived_with >= 0:
            self._match(edge.arrived_with, at + 1)
        if self._state.final and edge.arrived_before < 0 and edge.arrived_with < 0:
            return self._give_up()
        return self._follow(self._best, at + 1) if self._best else at + 1

    def _give_up(self) -> int:
        """End the attempt: its match is final, or the next attempt begins one character later."""
        if self._best is None:
            return self._fail()
        self._failures.add(self._trail)
        return self._end_match(self._best)

    def _fail(self) -> int:
        start, text = self._start, self._held.text
        if self._trail:
            self._failures.add(self._trail)
            self._trail = []
        if self._failures.are_known:
            self._failures.forget(self._held.offset + start, self._held.offset + start)
        self._state = self._automaton.start(text[start])
        self._start = start = start + 1
        return start

    def _follow(self, best: _Best, position: int) -> int:
        """Emit the replacement of a certain match, end a final one."""
        state = self._state
        if state.shape.overdue and state.shape.attempt:
            best.end = position
        if state.final:
            return self._end_match(best)
        if state.certain:
            self._emit(best)
        return position

    def _match(self, pattern: int, end: int) -> _Best:
        known, start = self._best, self._start
        # The start of a match may have been dropped by now.
        first = self._held.text[start] if start >= 0 else known.first if known else ""
        self._best = _Best(pattern, start, end, first, known is not None and known.emitted)
        self._trail = []
        return self._best

    def _deadline(self) -> int:
        """Return the position at which the attempt has been open for too long."""
        return self._open_since() + self._state.limit

    def _open_since(self) -> int:
        return self._best.end if self._best else self._start

    def _overdue(self, position: int) -> int:
        """Fail closed: an attempt that has been open for too long counts as a match until it fails."""
        self._state = self._automaton.overdue(self._state, position - self._open_since())
        return self._follow(self._match(self._state.shape.winner, position), position)

    def _emit(self, best: _Best) -> None:
        if not best.emitted:
            self._held.release(best.start)
            self._held.replace(self._outcomes[best.pattern], best.first)
            best.emitted = True

    def _end_match(self, best: _Best) -> int:
        self._emit(best)
        offset = self._held.offset
        self.spans.append(Span(best.pattern, offset + best.start, offset + best.end))
        self._held.swallow(best.end)
        self._failures.forget(offset + best.start, offset + best.end - 1)
        self._restart(best.end)
        return best.end

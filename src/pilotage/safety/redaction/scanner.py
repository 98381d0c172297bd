"""Reads a stream of text with the automaton: releases what is certain, replaces what matches, holds the rest.

The law of this module: what is released after each character depends on the characters so far and on
nothing else, so it cannot depend on how the text was cut into chunks. Held back is the text from the start
of the earliest candidate that may still match, or from the end of a match that may still grow; text behind
a candidate that failed is read again, but never more than is held.

A whole text is redacted by one scan from left to right: the leftmost match of any pattern wins, of several
at one place the pattern that comes first, and the scan goes on behind the match.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple, TypeAlias

from pilotage.safety.redaction.automaton import Automaton, AutomatonEdge
from pilotage.safety.redaction.prefilter import Prefilter
from pilotage.safety.redaction.program import ScanProgram
from pilotage.safety.redaction.syntax import Tree
from pilotage.values import value


@value
class Replaced:
    """In this place of the stream stands what replaces a match: the outcome of a pattern.

    `first` is the character that the match began with: whoever stands before it was judged with it as neighbour.
    """

    outcome: str
    first: str


@value
class Resumed:
    """Behind a replacement the stream goes on; `before` is the character that the match ended with."""

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
        """Append text; the position at which it begins."""
        position = len(self.text)
        self.text += text
        return position

    def before(self, position: int) -> str:
        """The character before a position; empty at the start of the stream."""
        return self.text[position - 1] if position else self._before

    def release(self, end: int) -> None:
        """Let the text up to a position leave; what has left or was swallowed before does not count."""
        if end > self._released:
            if self._is_replacing:
                self._pieces.append(Resumed(self.before(self._released)))
                self._is_replacing = False
            self._pieces.append(self.text[self._released : end])
            self._released = end

    def replace(self, outcome: str, first: str) -> None:
        """Let something else leave in the place of text that is going to be swallowed, and begins with `first`."""
        self._pieces.append(Replaced(outcome, first))
        self._is_replacing = True

    def swallow(self, end: int) -> None:
        """Let nothing of the text up to a position leave."""
        self._released = end

    def pass_over(self, text: str, before: str = "") -> None:
        """Count text that is not held; the stream goes on after it, or after `before`. Only while no text is held."""
        self.offset += len(text)
        self._before = before or text[-1]

    def take(self, forget: int) -> list[Piece]:
        """What has been decided since the last call. So much decided text is dropped: positions move by as much."""
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
        trees = tuple(rule.tree for rule in rules)
        limits = tuple(rule.limit for rule in rules)
        self.outcomes = tuple(rule.outcome for rule in rules)
        self.program = ScanProgram(trees)
        self.automaton = Automaton(self.program, self.outcomes, limits)
        self.prefilter = Prefilter(trees, limits)


class Span(NamedTuple):
    """A match that is over: its pattern and its place in the stream."""

    pattern: int
    start: int
    end: int


def scan(rules: Rules, text: str) -> tuple[list[Piece], list[Span]]:
    """A whole text at once: what it becomes, and the matches in it."""
    scanner = Scanner(rules)
    return [*scanner.push(text), *scanner.finish()], scanner.spans


@dataclass(slots=True)
class _Best:
    """The best match so far; positions are those in the held text."""

    pattern: int
    start: int
    end: int
    first: str
    told: bool = False


class Scanner:
    """Scans one stream of text.

    `spans` collects the matches that are over; whoever reads them empties the list.
    """

    def __init__(self, rules: Rules) -> None:
        self._automaton = rules.automaton
        self._outcomes = rules.outcomes
        self._prefilter = rules.prefilter
        self._held = HeldText()
        self.spans: list[Span] = []
        self._starts: list[int] = []
        self._best: _Best | None = None
        self._restart(0)

    @property
    def held(self) -> int:
        """How many characters are held back."""
        return len(self._held.text)

    @property
    def decided(self) -> int:
        """How many characters are held back no longer."""
        return self._held.offset

    @property
    def undecided(self) -> tuple[str, str]:
        """The character before the text that is held back, none at the start of the stream, and that text."""
        return self._held.before(0), self._held.text

    def push(self, text: str) -> list[Piece]:
        """Read more text; what it makes certain."""
        held = self._held
        self._read(held.add(text))
        starts, best = self._starts, self._best
        if best is None or self._state.shape.rivals:
            held_from = starts[0] if starts else len(held.text)
            held.release(held_from)
        else:
            held_from = best.end
            held.release(best.start)
        if best:
            best.start -= held_from
            best.end -= held_from
        if starts and held_from:
            self._starts = [start - held_from for start in starts]
        return held.take(forget=held_from)

    def finish(self, after: str = "") -> list[Piece]:
        """The text ends here, before a character of something else or before nothing; all that is left."""
        end = len(self._held.text)
        while True:
            if arrival := self._automaton.end(self._state, after):
                self._match(arrival.pattern, [*self._starts, end][arrival.attempt], end)
            if self._best is None:
                break
            self._read(self._end_match(self._best))
        self._held.release(end)
        pieces = self._held.take(forget=end)
        self._restart(0)
        return pieces

    def resume(self, behind: str, before: str = "") -> None:
        """Go on behind a text that is not scanned but counts for positions; only after `finish`.

        `before` is the character to take for the one before, if it is not the last of that text.
        """
        self._held.pass_over(behind, before)
        self._restart(0)

    def _restart(self, position: int) -> None:
        self._state = self._automaton.start(self._held.before(position))
        self._starts = []
        self._best = None

    def _read(self, position: int) -> None:
        end = len(self._held.text)
        last = end - self._prefilter.reach
        while position < end:
            # The neighbour of the first character is not in the text.
            if self._state.idle and 0 < position < last:
                position = self._skip(position)
            position = self._walk(position, end, last)
            if self._state.is_limited:
                deadline, attempt = self._deadline()
                if position >= deadline:
                    self._overdue(attempt, position)

    def _skip(self, position: int) -> int:
        """Skip what cannot begin a match."""
        start = self._prefilter.next_start(self._held.text, position)
        if start > position:
            self._state = self._automaton.start(self._held.before(start))
        return start

    def _walk(self, position: int, end: int, last: int) -> int:
        """Go on to the next change that counts, or to the end; the position to read from then.

        Before the `last` place that can be searched, what cannot begin a match is left to `_skip`.
        """
        text, state = self._held.text, self._state
        if state.is_limited:
            end = min(end, self._deadline()[0])
        for at in range(position, end):
            step = state[text[at]]
            if not isinstance(step, AutomatonEdge):
                state = step
                continue
            if not step.is_plain:
                return self._act(step, at)
            if not step.living:
                self._starts = []
            elif not self._starts:
                # The one that lives is the one that begins here.
                self._starts = [at]
            else:
                starts = [*self._starts, at]
                self._starts = [starts[number] for number in step.living]
            state = step.target
            if at < last and state.idle:
                end = at + 1
                break
        self._state = state
        return end

    def _act(self, edge: AutomatonEdge, at: int) -> int:
        starts = [*self._starts, at]
        if edge.arrived_before:
            self._match(edge.arrived_before.pattern, starts[edge.arrived_before.attempt], at)
        if edge.arrived_with:
            self._match(edge.arrived_with.pattern, starts[edge.arrived_with.attempt], at + 1)
        self._starts = [starts[number] for number in edge.living]
        self._state = edge.target
        return at + 1 if self._best is None else self._follow(self._best, at + 1)

    def _follow(self, best: _Best, position: int) -> int:
        """Tell a match that has become certain, end one that has become final."""
        state = self._state
        if state.shape.overdue and state.shape.living > state.shape.rivals:
            best.end = position
        if state.final:
            return self._end_match(best)
        if state.certain:
            self._tell(best)
        return position

    def _match(self, pattern: int, start: int, end: int) -> _Best:
        known = self._best
        # Where a match began may have been forgotten by now.
        first = self._held.text[start] if start >= 0 else known.first if known else ""
        self._best = _Best(pattern, start, end, first, known is not None and known.told)
        return self._best

    def _deadline(self) -> tuple[int, int]:
        """The position at which the next attempt has been open for too long, and its number."""
        limits = enumerate(self._state.limits)
        return min((self._open_since(number) + limit, number) for number, limit in limits if limit)

    def _open_since(self, attempt: int) -> int:
        is_own = self._best is not None and attempt == self._state.shape.rivals
        return self._best.end if self._best and is_own else self._starts[attempt]

    def _overdue(self, attempt: int, position: int) -> None:
        """Fail closed: what has been open for too long counts as a match, for as long as it goes on."""
        length = position - self._open_since(attempt)
        self._state = self._automaton.overdue(self._state, attempt, length)
        self._starts = self._starts[: attempt + 1]
        self._follow(self._match(self._state.shape.winner, self._starts[attempt], position), position)

    def _tell(self, best: _Best) -> None:
        if not best.told:
            self._held.release(best.start)
            self._held.replace(self._outcomes[best.pattern], best.first)
            best.told = True

    def _end_match(self, best: _Best) -> int:
        self._tell(best)
        offset = self._held.offset
        self.spans.append(Span(best.pattern, offset + best.start, offset + best.end))
        self._held.swallow(best.end)
        self._restart(best.end)
        return best.end

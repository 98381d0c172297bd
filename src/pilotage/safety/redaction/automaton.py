"""A deterministic automaton over one attempt to match, built while text comes in.

States have no positions. An edge says whether the attempt arrived or failed; the scanner has the positions. Edges are
computed once and cached, by character; when the cache is full, all of it is cleared.
"""

from __future__ import annotations

from itertools import count
from typing import NamedTuple

from pilotage.safety.redaction.program import ScanProgram
from pilotage.safety.redaction.threads import Arrival, Attempt, Threads, ThreadStep
from pilotage.values import value

NOTHING = 0
"""The kind of the text's end: no atom matches it."""
_MOST_REMEMBERED = 100_000
"""How many edges and threads in states are cached, some 20 MB at most."""


class Shape(NamedTuple):
    """Content of a state: the threads of the attempt, and its best match so far.

    `winner` is the pattern of the best match, -1 without one. An `overdue` match goes on for as long as a thread lives.
    """

    attempt: Attempt
    winner: int = -1
    overdue: bool = False


class AutomatonState(dict[str, "AutomatonState | AutomatonEdge"]):
    """A state of the automaton; it maps the next character to the next state or edge. Its `number` is unique.

    `failed`: the attempt cannot match. `certain`: the best match can grow, but its outcome cannot change. `final`: it
    cannot grow either. `limit`: after how many characters the attempt has been open for too long, 0 for never. `depth`
    belongs to the reader.
    """

    __slots__ = ("automaton", "certain", "depth", "edges", "failed", "final", "limit", "number", "shape")

    def __init__(self, automaton: Automaton, shape: Shape) -> None:
        super().__init__()
        self.automaton = automaton
        self.shape = shape
        self.edges: dict[int, AutomatonState | AutomatonEdge] = {}
        self.depth = -1
        self.number = next(automaton.numbers)
        self.failed = not shape.attempt and shape.winner < 0
        self.final = not shape.attempt and shape.winner >= 0
        self.certain = shape.winner >= 0 and automaton.agrees(shape)
        self.limit = 0 if shape.overdue else automaton.limit_of(shape.attempt)

    def __missing__(self, character: str) -> AutomatonState | AutomatonEdge:
        return self.automaton.learn(self, character)


@value
class AutomatonEdge:
    """A step that changes more than the state: the attempt fails, arrives, or its match becomes certain.

    It `arrived_before` the character or with it, at the end of a pattern. Where it failed, `begins` is the state of an
    attempt that begins after the character.
    """

    target: AutomatonState
    begins: AutomatonState | None = None
    arrived_before: int = -1
    arrived_with: int = -1


class Automaton:
    """The automaton of a program.

    `outcomes` holds the replacement of each pattern: matches with the same one need not be distinguished.
    `limits` says per pattern how long a candidate may stay open, 0 for as long as it takes.
    """

    def __init__(self, program: ScanProgram, outcomes: tuple[str, ...], limits: tuple[int, ...]) -> None:
        self._program = program
        self._threads = Threads(program)
        self._outcomes = outcomes
        self._limits = limits
        self._kinds: dict[str, int] = {}
        self._states: dict[Shape, AutomatonState] = {}
        self._starts: dict[str, AutomatonState] = {}
        self._remembered = 0
        self.numbers = count()

    def start(self, before: str) -> AutomatonState:
        """Return the state in which an attempt begins after a character, or at the start of the text."""
        state = self._starts.get(before)
        if state is None:
            state = self._starts[before] = self.start_after(self._kind(before))
        return state

    def start_after(self, kind: int) -> AutomatonState:
        """Return the state in which an attempt begins after a character of a kind."""
        return self._state(Shape(self._threads.begin(kind)))

    def end(self, state: AutomatonState, after: str) -> int:
        """Return the pattern that matches if the text ends here, before a character or nothing; -1 if none does."""
        return _pattern(self._threads.settle((state.shape.attempt,), self._kind(after))[1])

    def overdue(self, state: AutomatonState, length: int) -> AutomatonState:
        """Return the state after an attempt has been open for too long: it counts as a match."""
        owners = [self._threads.owner(thread) for thread in state.shape.attempt]
        pattern = next(owner for owner in owners if 0 < self._limits[owner] <= length)
        own = tuple(
            thread for thread, owner in zip(state.shape.attempt, owners, strict=True) if owner == pattern
        )
        return self._state(Shape(own, winner=pattern, overdue=True))

    def agrees(self, shape: Shape) -> bool:
        """Return whether every match that may still come has the outcome of the winner."""
        owners = {self._threads.owner(thread) for thread in shape.attempt}
        return all(self._outcomes[owner] == self._outcomes[shape.winner] for owner in owners)

    def limit_of(self, attempt: Attempt) -> int:
        """Return the smallest limit among the patterns that an attempt may still match."""
        limits = (self._limits[self._threads.owner(thread)] for thread in attempt)
        return min((limit for limit in limits if limit), default=0)

    def learn(self, state: AutomatonState, character: str) -> AutomatonState | AutomatonEdge:
        """Return and cache the edge of a character that the state has not seen before."""
        if self._remembered >= _MOST_REMEMBERED:
            self._forget()
        edge = state[character] = self.step(state, self._kind(character))
        self._remembered += 1
        return edge

    def step(self, state: AutomatonState, kind: int) -> AutomatonState | AutomatonEdge:
        """Return the next state or edge for a character of a kind."""
        edge = state.edges.get(kind)
        if edge is None:
            edge = state.edges[kind] = self._edge(state, kind)
        return edge

    def _forget(self) -> None:
        """Clear the cache; states that are still in use stay valid without their edges."""
        for state in self._states.values():
            state.clear()
            state.edges.clear()
        self._states.clear()
        self._starts.clear()
        self._kinds.clear()
        self._threads.forget()
        self._remembered = 0

    def _kind(self, character: str) -> int:
        if not character:
            return NOTHING
        kind = self._kinds.get(character)
        if kind is None:
            kind = self._kinds[character] = self._program.kind_of(character)
        return kind

    def _state(self, shape: Shape) -> AutomatonState:
        state = self._states.get(shape)
        if state is None:
            state = self._states[shape] = AutomatonState(self, shape)
            self._remembered += len(shape.attempt)
        return state

    def _edge(self, state: AutomatonState, kind: int) -> AutomatonState | AutomatonEdge:
        settled, before = self._threads.settle((state.shape.attempt,), kind)
        step = ThreadStep(self._threads, settled, kind)
        arrival = step.arrived or before
        winner = arrival.pattern if arrival else state.shape.winner
        overdue = state.shape.overdue and arrival is None
        attempt = step.attempts[0] if step.attempts else ()
        target = self._state(Shape(attempt, winner, overdue))
        begins = self.start_after(kind) if target.failed else None
        edge = AutomatonEdge(target, begins, _pattern(before), _pattern(step.arrived))
        return target if _is_quiet(state, edge) else edge


def _pattern(arrival: Arrival | None) -> int:
    return arrival.pattern if arrival else -1


def _is_quiet(state: AutomatonState, edge: AutomatonEdge) -> bool:
    """Return whether nothing but the state changes, so that the scanner need not act; limits only grow."""
    target = edge.target
    return (
        edge.arrived_before < 0
        and edge.arrived_with < 0
        and not target.failed
        and not target.final
        and target.certain == state.certain
        and not target.shape.overdue
    )

"""A deterministic automaton over the attempts to match, built while text comes in.

States do not know positions. An edge says which attempts live on and which one arrived; the reader of the
text keeps the positions. Edges are computed once and remembered, by character; when too much has been
remembered, all of it is forgotten and learnt again as needed.
"""

from __future__ import annotations

from typing import NamedTuple

from pilotage.safety.redaction.program import ScanProgram
from pilotage.safety.redaction.threads import Arrival, Attempt, Threads, ThreadStep
from pilotage.values import value

_NOTHING = 0
"""The kind of the text's end: no atom matches it."""
_MOST_REMEMBERED = 100_000
"""How many edges and threads in states are kept, some 20 MB at most."""


class Shape(NamedTuple):
    """What a state is: its attempts, and what is known of the best match so far.

    `fresh` says that the last attempt starts at the next character. `winner` is the pattern of the best
    match, -1 without one; `rivals` attempts started earlier than it, and its own attempt comes next if it is
    still alive. An `overdue` match goes on for as long as its own attempt lives.
    """

    attempts: tuple[Attempt, ...]
    fresh: bool
    winner: int = -1
    rivals: int = 0
    overdue: bool = False

    @property
    def living(self) -> int:
        """How many attempts have begun and may still match."""
        return len(self.attempts) - self.fresh


class State(dict[str, "State | AutomatonEdge"]):
    """A state of the automaton; it maps the next character to where it leads.

    `idle`: nothing has begun. `certain`: the best match can grow, but neither its start nor its outcome can
    change. `final`: it cannot grow either. `limits`: after how many characters each living attempt has been
    open for too long, 0 for never.
    """

    __slots__ = ("automaton", "certain", "edges", "final", "idle", "is_limited", "limits", "shape")

    def __init__(self, automaton: Automaton, shape: Shape) -> None:
        super().__init__()
        self.automaton = automaton
        self.shape = shape
        self.edges: dict[int, State | AutomatonEdge] = {}
        self.idle = shape.fresh and shape.living == 0
        self.final = shape.winner >= 0 and shape.living == 0
        self.certain = shape.winner >= 0 and shape.rivals == 0 and automaton.agrees(shape)
        self.limits = automaton.limits_of(shape)
        self.is_limited = any(self.limits)

    def __missing__(self, character: str) -> State | AutomatonEdge:
        return self.automaton.learn(self, character)


@value
class AutomatonEdge:
    """A step that changes more than the state: attempts end, begin or arrive.

    Attempts are numbered as in the state before. One `arrived_before` the character or with it. The edge `is_plain`
    where attempts only begin and fail: no match is known, and none of them is open for too long one day.
    """

    target: State
    living: tuple[int, ...]
    arrived_before: Arrival | None = None
    arrived_with: Arrival | None = None
    is_plain: bool = False


class Automaton:
    """The automaton of a program.

    `outcomes` says per pattern what a match leads to: matches with one outcome need not be told apart.
    `limits` says per pattern how long a candidate may stay open, 0 for as long as it takes.
    """

    def __init__(self, program: ScanProgram, outcomes: tuple[str, ...], limits: tuple[int, ...]) -> None:
        self._program = program
        self._threads = Threads(program)
        self._outcomes = outcomes
        self._limits = limits
        self._kinds: dict[str, int] = {}
        self._states: dict[Shape, State] = {}
        self._remembered = 0

    def start(self, before: str) -> State:
        """The state in which text begins behind a character, or behind nothing."""
        return self._state(Shape((self._threads.begin(self._kind(before)),), fresh=True))

    def end(self, state: State, after: str) -> Arrival | None:
        """The attempt that matches if the text ends here, before a character or before nothing."""
        return self._threads.settle(state.shape.attempts, self._kind(after))[1]

    def overdue(self, state: State, number: int, length: int) -> State:
        """The state after an attempt has been open for too long: it counts as a match."""
        *rivals, attempt = state.shape.attempts[: number + 1]
        owners = [self._threads.owner(thread) for thread in attempt]
        pattern = next(owner for owner in owners if 0 < self._limits[owner] <= length)
        own = tuple(thread for thread, owner in zip(attempt, owners, strict=True) if owner == pattern)
        return self._state(Shape((*rivals, own), fresh=False, winner=pattern, rivals=number, overdue=True))

    def agrees(self, shape: Shape) -> bool:
        """Whether every match that may still come has the outcome of the winner."""
        owners = {self._threads.owner(thread) for attempt in shape.attempts for thread in attempt}
        return all(self._outcomes[owner] == self._outcomes[shape.winner] for owner in owners)

    def limits_of(self, shape: Shape) -> tuple[int, ...]:
        """For each living attempt the smallest limit among the patterns that it may still match."""
        limited = shape.rivals if shape.overdue else shape.living
        return tuple(self._limit_of(attempt) for attempt in shape.attempts[:limited])

    def _limit_of(self, attempt: Attempt) -> int:
        limits = (self._limits[self._threads.owner(thread)] for thread in attempt)
        return min((limit for limit in limits if limit), default=0)

    def learn(self, state: State, character: str) -> State | AutomatonEdge:
        """Where a character leads that the state has not seen before."""
        if self._remembered >= _MOST_REMEMBERED:
            self._forget()
        kind = self._kind(character)
        edge = state.edges.get(kind)
        if edge is None:
            edge = state.edges[kind] = self._edge(state, kind)
        state[character] = edge
        self._remembered += 1
        return edge

    def _forget(self) -> None:
        """States that are still in use stay valid: they only have to learn their edges again."""
        for state in self._states.values():
            state.clear()
            state.edges.clear()
        self._states.clear()
        self._kinds.clear()
        self._threads.forget()
        self._remembered = 0

    def _kind(self, character: str) -> int:
        if not character:
            return _NOTHING
        kind = self._kinds.get(character)
        if kind is None:
            kind = self._kinds[character] = self._program.kind_of(character)
        return kind

    def _state(self, shape: Shape) -> State:
        state = self._states.get(shape)
        if state is None:
            state = self._states[shape] = State(self, shape)
            self._remembered += sum(map(len, shape.attempts))
        return state

    def _edge(self, state: State, kind: int) -> State | AutomatonEdge:
        settled, before = self._threads.settle(state.shape.attempts, kind)
        step = ThreadStep(self._threads, settled, kind)
        target = self._state(self._next_shape(state.shape, step, step.arrived or before, kind))
        is_plain = target.shape.winner < 0 and not target.is_limited
        edge = AutomatonEdge(target, tuple(step.living), before, step.arrived, is_plain)
        return target if _is_quiet(state, edge) else edge

    def _next_shape(self, shape: Shape, step: ThreadStep, arrival: Arrival | None, kind: int) -> Shape:
        attempts = step.attempts
        fresh = shape.fresh and arrival is None
        if fresh:
            attempts = [*attempts, tuple(step.unseen(self._threads.begin(kind)))]
        best = arrival.attempt if arrival else shape.rivals
        rivals = sum(number < best for number in step.living)
        winner = arrival.pattern if arrival else shape.winner
        overdue = shape.overdue and best == shape.rivals
        return Shape(tuple(attempts), fresh, winner, rivals, overdue)


def _is_quiet(state: State, edge: AutomatonEdge) -> bool:
    """Whether nothing but the state changes, so that a reader need not look; limits only ever grow."""
    target = edge.target
    return (
        edge.arrived_before is None
        and edge.arrived_with is None
        and edge.living == tuple(range(state.shape.living))
        and target.certain == state.certain
        and not target.shape.overdue
    )

"""An explicit-state model checker: every state that any order of steps can lead to, breadth first.

It knows nothing of what it explores. Breadth first makes every counterexample a shortest one.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Hashable, Iterable
from dataclasses import dataclass, field
from typing import Generic, TypeVar

S = TypeVar("S", bound=Hashable)
A = TypeVar("A")

Steps = Callable[[S], Iterable[tuple[A, S]]]
Broken = Callable[[S, A, S], str | None]


@dataclass(frozen=True)
class Counterexample(Generic[S, A]):
    """The shortest way to a broken law: its steps, and the state they lead to."""

    law: str
    steps: tuple[A, ...]
    state: S

    def __str__(self) -> str:
        lines = [f"{number:3}. {step}" for number, step in enumerate(self.steps, start=1)]
        return "\n".join([f"broken: {self.law}", *lines, f"     {self.state}"])


@dataclass(frozen=True)
class Exploration(Generic[S, A]):
    """What was found: how much there is, and the first broken law, if any."""

    states: int
    transitions: int
    depth: int
    counterexample: Counterexample[S, A] | None = None


@dataclass
class _Graph(Generic[S, A]):
    """What is known so far. A state is known by its number, in the order of discovery."""

    numbers: dict[S, int] = field(default_factory=dict[S, int])
    came_by: list[tuple[int, A] | None] = field(default_factory=list["tuple[int, A] | None"])
    depths: list[int] = field(default_factory=list[int])
    reached_from: list[list[int]] = field(default_factory=list[list[int]])
    transitions: int = 0

    def add(self, state: S, came_by: tuple[int, A] | None) -> bool:
        """Note a state and the way to it; False for one that is known already."""
        number = self.numbers.setdefault(state, len(self.depths))
        is_new = number == len(self.depths)
        if is_new:
            self.came_by.append(came_by)
            self.depths.append(self.depths[came_by[0]] + 1 if came_by else 0)
            self.reached_from.append([])
        if came_by:
            self.transitions += 1
            self.reached_from[number].append(came_by[0])
        return is_new

    def way_to(self, number: int) -> tuple[A, ...]:
        """The steps from the beginning."""
        steps: list[A] = []
        while (came_by := self.came_by[number]) is not None:
            number, step = came_by
            steps.append(step)
        return tuple(reversed(steps))

    def found(self, counterexample: Counterexample[S, A] | None = None) -> Exploration[S, A]:
        return Exploration(len(self.depths), self.transitions, max(self.depths), counterexample)


def explore(
    initial: S,
    steps: Steps[S, A],
    broken: Broken[S, A],
    is_end: Callable[[S], bool],
    *,
    stuck: str | None = "from every state some continuation comes to an end",
    most: int = 400_000,
) -> Exploration[S, A]:
    """Visit every reachable state; `broken` names the law that a step breaks, `stuck` the law of coming to an end.

    Raises:
        AssertionError: there are more than `most` states; the model is not as finite as it was meant to be.
    """
    graph = _Graph[S, A]()
    graph.add(initial, None)
    waiting = deque([initial])
    while waiting:
        state = waiting.popleft()
        number = graph.numbers[state]
        for step, following in steps(state):
            if law := broken(state, step, following):
                return graph.found(Counterexample(law, (*graph.way_to(number), step), following))
            if graph.add(following, (number, step)):
                waiting.append(following)
        assert len(graph.depths) <= most, f"more than {most} states"
    return graph.found(_first_stuck(graph, is_end, stuck) if stuck else None)


def _first_stuck(graph: _Graph[S, A], is_end: Callable[[S], bool], law: str) -> Counterexample[S, A] | None:
    """The first state from which no end can be reached: ends are followed backwards."""
    can_end = [is_end(state) for state in graph.numbers]
    waiting = [number for number, ends in enumerate(can_end) if ends]
    while waiting:
        for number in graph.reached_from[waiting.pop()]:
            if not can_end[number]:
                can_end[number] = True
                waiting.append(number)
    for state, number in graph.numbers.items():
        if not can_end[number]:
            return Counterexample(law, graph.way_to(number), state)
    return None

"""Ways through the model: all of them up to a length, or a few long ones drawn from a seed."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from random import Random
from typing import NamedTuple

from tests.crash.protocol.flaws import Setting
from tests.crash.protocol.steps import initial, steps
from tests.crash.protocol.words import State, Step


class Move(NamedTuple):
    """One step, with the states it leads from and to."""

    before: State
    step: Step
    after: State


Walk = tuple[Move, ...]


def all_walks(setting: Setting, length: int) -> Iterator[Walk]:
    """Every walk of this many steps, and every shorter one that cannot go on."""
    return _from(setting, initial(setting), length)


def _from(setting: Setting, state: State, length: int) -> Iterator[Walk]:
    following = list(steps(setting, state)) if length else []
    if not following:
        yield ()
    for step, after in following:
        for rest in _from(setting, after, length - 1):
            yield (Move(state, step, after), *rest)


def random_walk(setting: Setting, seed: int) -> Walk:
    """A walk that goes on until it cannot. Faults are rare, or all of them would come at the beginning."""
    random, walk, state = Random(seed), list[Move](), initial(setting)  # noqa: S311 - repeatable on purpose
    while following := list(steps(setting, state)):
        weights = [1 if after.left.faults < state.left.faults else 8 for _, after in following]
        ((step, after),) = random.choices(following, weights)
        walk.append(Move(state, step, after))
        state = after
    return tuple(walk)


def retraced(setting: Setting, taken: Iterable[Step]) -> Walk:
    """The walk that consists of these steps."""
    walk, state = list[Move](), initial(setting)
    for step in taken:
        after = dict(steps(setting, state))[step]
        walk.append(Move(state, step, after))
        state = after
    return tuple(walk)


def told(walk: Walk) -> str:
    """A walk as a story."""
    return "\n".join(f"{number:3}. {move.step}" for number, move in enumerate(walk, start=1))

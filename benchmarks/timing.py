"""Timing several ways to do one thing, turn by turn, so that a noisy machine is unfair to all of them alike.

What only computes is timed by the processor time of the process, which others on the machine hardly move; what waits
for a disk or a server also by the clock on the wall. Only the standard library: peers are timed with it in environments
of their own.
"""

from __future__ import annotations

import cProfile
import gc
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from statistics import median
from time import perf_counter, process_time
from typing import TypeAlias

Act: TypeAlias = Callable[[], Awaitable[object]]
Measure: TypeAlias = Callable[[], Awaitable[float]]
Clock: TypeAlias = Callable[[], float]
CPU: Clock = process_time
WALL: Clock = perf_counter


@dataclass(frozen=True)
class Effort:
    """How much is done. `share` scales how often something is done within a round."""

    rounds: int = 9
    share: float = 1.0
    turns: tuple[int, ...] = (10, 50, 200)
    deltas: int = 2_000
    side_by_side: int = 200

    def times(self, count: int) -> int:
        """So many times, scaled."""
        return max(1, round(count * self.share))


FULL = Effort()
SMALLEST = Effort(rounds=1, share=0.0, turns=(1, 2), deltas=3, side_by_side=2)


def repeated(act: Act, count: int, clock: Clock = CPU) -> Measure:
    """The seconds of this process that an act takes, on average of so many; by `WALL` those that pass."""

    async def measure() -> float:
        gc.collect()
        started = clock()
        for _ in range(count):
            await act()
        return (clock() - started) / count

    return measure


async def medians(measures: Mapping[str, Measure], rounds: int) -> dict[str, float]:
    """The median of each measure. All are taken once per round, one after the other."""
    found: dict[str, list[float]] = {name: [] for name in measures}
    for measure in measures.values():
        await measure()
    for _ in range(rounds):
        for name, measure in measures.items():
            found[name].append(await measure())
    return {name: median(seconds) for name, seconds in found.items()}


async def function_calls(act: Act, count: int) -> float:
    """How many functions an act calls: a figure that no other load on the machine can move."""
    await act()
    profile = cProfile.Profile()
    profile.enable()
    for _ in range(count):
        await act()
    profile.disable()
    # Not through pstats: it takes all functions of one name and line for one, such as those of dataclasses.
    return sum(entry.callcount for entry in profile.getstats()) / count

"""The scenarios for a peer, interleaved with the floor in the peer's own environment. Only the standard library."""

from __future__ import annotations

import asyncio
import json
import sys
from collections.abc import Awaitable, Callable
from functools import partial
from importlib.metadata import version
from typing import TypeAlias

from benchmarks import floor
from benchmarks.timing import SMALLEST, Act, Effort, medians, repeated

Run: TypeAlias = Callable[[int], Awaitable[object]]
_EFFORT = Effort(rounds=3)


def tell(package: str, run: Run, talk: Run | None = None, kind: str = "") -> None:
    """Print the figures of a peer as JSON.

    `run` makes a run with so many tool calls and reads it to its end, `talk` one that streams so many deltas. Runs of
    another `kind` are compared among each other.
    """
    effort = SMALLEST if "--smallest" in sys.argv else _EFFORT
    found = asyncio.run(_figures(run, talk, effort))
    figures = {f"{kind}{name}": figure for name, figure in found.items()}
    print(json.dumps({"version": version(package), "figures": figures}))


async def _figures(run: Run, talk: Run | None, effort: Effort) -> dict[str, float]:
    acts: dict[str, tuple[Act, int]] = {
        "floor": (partial(floor.run, 1), effort.times(500)),
        "one run": (partial(run, 1), effort.times(20)),
    }
    if talk is not None:
        acts["floor talks"] = (partial(floor.talk, effort.deltas), effort.times(5))
        acts["talks"] = (partial(talk, effort.deltas), 1)
    for turns in effort.turns:
        acts[f"floor {turns}"] = (partial(floor.run, turns), effort.times(4_000 // turns))
        acts[f"turns {turns}"] = (partial(run, turns), 1)
    measures = {name: repeated(act, count) for name, (act, count) in acts.items()}
    found = await medians(measures, effort.rounds)
    figures = {
        "one run, us": found["one run"] * 1e6,
        "one run / floor": found["one run"] / found["floor"],
    }
    if talk is not None:
        figures["streamed deltas, k/s"] = effort.deltas / found["talks"] / 1e3
        figures["streamed deltas: time / floor"] = found["talks"] / found["floor talks"]
    for turns in effort.turns:
        figures[f"per turn of {turns}, us"] = found[f"turns {turns}"] / turns * 1e6
        figures[f"per turn of {turns} / floor"] = found[f"turns {turns}"] / found[f"floor {turns}"]
    return figures

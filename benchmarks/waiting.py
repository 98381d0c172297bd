"""What many durable runs cost that only wait for their models, with a worker beside them."""

from __future__ import annotations

import asyncio
from pathlib import Path
from tempfile import TemporaryDirectory

from benchmarks.agents import Blocking, Kept
from benchmarks.databases import databases
from benchmarks.timing import CPU, FULL, WALL, Effort

from pilotage import Application
from pilotage.adapters.sqlalchemy import DatabaseSettings
from pilotage.adapters.sqlalchemy.store import SqlAlchemyStore
from pilotage.runtime import AgentRuns, WorkerSettings

RUNS, SECONDS = 1_000, 30.0
"""Leases are renewed every ten seconds, signals looked for every two."""


def measure(effort: Effort = FULL) -> dict[str, float]:
    """The share of a core."""
    return asyncio.run(_measure(effort.times(RUNS), SECONDS * effort.share))


async def _measure(runs: int, seconds: float) -> dict[str, float]:
    figures: dict[str, float] = {}
    with TemporaryDirectory() as folder, databases(Path(folder)) as known:
        for where, settings in known.items():
            share = await _waiting(settings, runs, seconds)
            figures[f"{runs:,} waiting runs on {where}: CPU, % of a core"] = 100 * share
    return figures


async def _waiting(settings: DatabaseSettings, runs: int, seconds: float) -> float:
    model = Blocking()
    with SqlAlchemyStore.open(settings) as store:
        # Their models never answer: at the end nobody waits for the runs.
        app = Application("waiting").add(Kept, model, WorkerSettings(grace_seconds=0.0), *store.ports)
        async with app.load_plugins(include=["runtime"]) as started:
            for _ in range(runs):
                await started.get(AgentRuns).start(Kept, "0")
                await model.reached.get()
            # What the starts have left to do is done.
            await asyncio.sleep(min(2.0, seconds))
            used, began = CPU(), WALL()
            await asyncio.sleep(seconds)
            return (CPU() - used) / (WALL() - began)

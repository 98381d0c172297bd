"""What many durable runs cost that only wait for their models, with a worker beside them."""

from __future__ import annotations

import asyncio
import gc
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
    """The share of a core, and the resident memory of each."""
    return asyncio.run(_measure(effort.times(RUNS), SECONDS * effort.share))


async def _measure(runs: int, seconds: float) -> dict[str, float]:
    figures: dict[str, float] = {}
    with TemporaryDirectory() as folder, databases(Path(folder)) as known:
        for where, settings in known.items():
            held, share = await _waiting(settings, runs, seconds)
            figures[f"{runs:,} waiting runs on {where}: CPU, % of a core"] = 100 * share
            figures[f"{runs:,} waiting runs on {where}: memory of each, kB"] = held
    return figures


async def _waiting(settings: DatabaseSettings, runs: int, seconds: float) -> tuple[float, float]:
    model = Blocking()
    with SqlAlchemyStore.open(settings) as store:
        app = Application("waiting").add(Kept, model, WorkerSettings(), *store.ports)
        async with app.load_plugins(include=["runtime"]) as started:
            before = _resident()
            for _ in range(runs):
                await started.get(AgentRuns).start(Kept, "0")
                await model.reached.get()
            held = (_resident() - before) / runs
            # What the starts have left to do is done.
            await asyncio.sleep(min(2.0, seconds))
            used, began = CPU(), WALL()
            await asyncio.sleep(seconds)
            return held, (CPU() - used) / (WALL() - began)


def _resident() -> int:
    gc.collect()
    status = Path("/proc/self/status").read_text()
    return next(int(line.split()[1]) for line in status.splitlines() if line.startswith("VmRSS"))

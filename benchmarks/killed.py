"""Runs whose process is killed: what it takes until a worker with its defaults drives all of them again.

The process that is killed is this module, too: python -m benchmarks.killed URL COUNT begins so many runs and says when
all of them wait for their first model call.
"""

from __future__ import annotations

import asyncio
import subprocess
import sys
from collections.abc import AsyncIterator
from pathlib import Path
from tempfile import TemporaryDirectory

from benchmarks.agents import Asking, Kept
from benchmarks.databases import databases
from benchmarks.timing import CPU, FULL, WALL, Effort

from pilotage import Application, IAgentModel, ModelRequest, ModelStreamEvent
from pilotage.adapters.sqlalchemy import DatabaseSettings
from pilotage.adapters.sqlalchemy.store import SqlAlchemyStore
from pilotage.runtime import AgentRuns, WorkerSettings

RUNS, SECONDS = 1_000, 5.0
TURNS = "1"
"""Two model calls are left of each run."""


class Counted(Asking):
    """Takes its time, and counts the runs that have called it. Without a time it never answers."""

    def __init__(self, seconds: float | None = None) -> None:
        self._seconds = seconds
        self.called: asyncio.Queue[None] = asyncio.Queue()

    async def stream(self, request: ModelRequest) -> AsyncIterator[ModelStreamEvent]:
        if _is_first(request):
            self.called.put_nowait(None)
        if self._seconds is None:
            await asyncio.Event().wait()
        else:
            await asyncio.sleep(self._seconds)
        async for event in super().stream(request):
            yield event


def _is_first(request: ModelRequest) -> bool:
    return len(request.messages) == len(("instructions", "question"))


def measure(effort: Effort = FULL) -> dict[str, float]:
    """Processor time for each run that is driven again, and seconds until the last one is."""
    runs, seconds = effort.times(RUNS), SECONDS * effort.share
    figures: dict[str, float] = {}
    with TemporaryDirectory() as folder, databases(Path(folder)) as known:
        for where, settings in known.items():
            _killed(settings, runs)
            took, passed = asyncio.run(_driven_again(settings, runs, seconds))
            figures[f"{runs:,} killed runs on {where}: CPU of each to be back, ms"] = took / runs * 1e3
            figures[f"{runs:,} killed runs on {where}: until the last is driven, s"] = passed
    return figures


def _killed(settings: DatabaseSettings, runs: int) -> None:
    """Let another process begin the runs, and kill it."""
    command = [sys.executable, "-m", "benchmarks.killed", str(settings.url), str(runs)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, cwd=Path(__file__).parent.parent) as process:
        assert process.stdout is not None
        assert process.stdout.readline(), "the process that begins the runs failed"
        process.kill()


async def _driven_again(settings: DatabaseSettings, runs: int, seconds: float) -> tuple[float, float]:
    """Processor time and seconds until the last run has called its model again."""
    model = Counted(seconds)
    used, began = CPU(), WALL()
    with SqlAlchemyStore.open(settings) as store:
        async with _application(model, store):
            for _ in range(runs):
                await model.called.get()
            return CPU() - used, WALL() - began


async def _begin(settings: DatabaseSettings, runs: int) -> None:
    model = Counted()
    with SqlAlchemyStore.open(settings) as store:
        async with _application(model, store) as app:
            for _ in range(runs):
                await app.get(AgentRuns).start(Kept, TURNS)
            for _ in range(runs):
                await model.called.get()
            print("begun", flush=True)
            await asyncio.Event().wait()


def _application(model: IAgentModel, store: SqlAlchemyStore) -> Application:
    app = Application("killed").add(Kept, model, WorkerSettings(), *store.ports)
    return app.load_plugins(include=["runtime"])


if __name__ == "__main__":
    asyncio.run(
        _begin(DatabaseSettings(sys.argv[1], may_lose_commits_on_power_failure=True), int(sys.argv[2]))
    )

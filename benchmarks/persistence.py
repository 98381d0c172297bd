"""Durable runs in a database, against a loop by hand that writes its rows with the plain driver."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from resource import RUSAGE_SELF, getrusage
from tempfile import TemporaryDirectory
from time import perf_counter
from uuid import uuid4

from benchmarks.agents import LARGE_PAGE, Asking, Blocking, Kept, Large
from benchmarks.plain_database import Plain, PlainPostgresql, PlainSqlite
from benchmarks.timing import FULL, Act, Effort, Measure, medians, repeated

from pilotage import Application, IAgentModel
from pilotage.adapters.sqlalchemy import DatabaseSettings
from pilotage.adapters.sqlalchemy.store import SqlAlchemyStore
from pilotage.runtime import AgentRuns
from pilotage.runtime.plugin import initialize
from pilotage.testing import FaultyJournal

POSTGRESQL = os.environ.get("PILOTAGE_BENCHMARK_POSTGRESQL", "postgresql://127.0.0.1:5432/test")


class Kit:
    """A database with an application over it, and the plain driver beside it."""

    def __init__(self, settings: DatabaseSettings, plain: Plain, model: IAgentModel) -> None:
        self.plain = plain
        self.store = SqlAlchemyStore.open(settings)
        self.journal = FaultyJournal(self.store.journal)
        self.app = Application("benchmark").add(Kept, Large, model, self.journal, *self.store.ports[1:])
        initialize(self.app)

    @property
    def runs(self) -> AgentRuns:
        """The run service of the application."""
        return self.app.get(AgentRuns)

    async def run(self, turns: int, agent: type[object] = Kept) -> str:
        """Start a run and wait for its answer; the id of the run."""
        handle = await self.runs.start(agent, str(turns))
        await handle.result()
        return handle.id


def measure(effort: Effort = FULL) -> dict[str, float]:
    """Times, ratios against the plain driver within this run, commits and bytes."""
    return asyncio.run(_measure(effort))


async def _measure(effort: Effort) -> dict[str, float]:
    with TemporaryDirectory() as folder:
        figures: dict[str, float] = {}
        for synchronous in ("NORMAL", "FULL"):
            with _sqlite(Path(folder) / synchronous, synchronous, Asking()) as kit:
                async with kit.app:
                    figures |= await _one_run(kit, f"SQLite {synchronous}", effort)
                    if synchronous == "NORMAL":
                        figures |= await _long_runs(kit, "SQLite", effort)
                        figures |= await _together(kit, "SQLite", effort)
        figures |= await _stored(Path(folder) / "stored", effort)
        figures |= await _resuming(Path(folder) / "resumed", effort)
    return {**figures, **await _on_postgresql(effort)}


async def _on_postgresql(effort: Effort) -> dict[str, float]:
    """The same on a server, in a schema of its own; nothing where there is none."""
    plain = await PlainPostgresql.connected(POSTGRESQL, f"pilotage_benchmark_{uuid4().hex[:8]}")
    if plain is None:
        return {}
    kit = Kit(DatabaseSettings(plain.url), plain, Asking())
    try:
        async with kit.app:
            return {
                **await _one_run(kit, "PostgreSQL", effort),
                **await _together(kit, "PostgreSQL", effort),
            }
    finally:
        kit.store.close()
        await plain.close()


@contextmanager
def _sqlite(folder: Path, synchronous: str, model: IAgentModel) -> Iterator[Kit]:
    folder.mkdir()
    # A run has three commits, for its three actions.
    plain = PlainSqlite(folder / "plain.db", synchronous, rows_per_commit=2 if synchronous == "FULL" else 1)
    settings = DatabaseSettings(
        f"sqlite:///{folder / 'ours.db'}", may_lose_commits_on_power_failure=synchronous == "NORMAL"
    )
    kit = Kit(settings, plain, model)
    try:
        yield kit
    finally:
        kit.store.close()
        plain.close()


async def _one_run(kit: Kit, where: str, effort: Effort) -> dict[str, float]:
    found = await medians(
        {
            "floor": repeated(partial(kit.plain.run, 1), effort.times(100)),
            "ours": repeated(partial(kit.run, 1), effort.times(30)),
        },
        effort.rounds,
    )
    many, before = effort.times(50), kit.journal.commits
    plain, ours = await _cpu_of(partial(kit.plain.run, 1), many), await _cpu_of(partial(kit.run, 1), many)
    return {
        f"one run on {where}: floor, us": found["floor"] * 1e6,
        f"one run on {where}, us": found["ours"] * 1e6,
        f"one run on {where} / floor": found["ours"] / found["floor"],
        f"one run on {where}: CPU / floor": ours / plain,
        f"one run on {where}: commits": (kit.journal.commits - before) / many,
    }


async def _long_runs(kit: Kit, where: str, effort: Effort) -> dict[str, float]:
    measures: dict[str, Measure] = {}
    for turns in effort.turns:
        measures[f"floor {turns}"] = repeated(partial(kit.plain.run, turns), effort.times(400 // turns))
        measures[f"ours {turns}"] = repeated(partial(kit.run, turns), effort.times(100 // turns))
    found = await medians(measures, max(1, effort.rounds // 2))
    figures: dict[str, float] = {}
    for turns in effort.turns:
        plain, ours = found[f"floor {turns}"], found[f"ours {turns}"]
        figures[f"per turn of {turns} on {where}: floor, us"] = plain / turns * 1e6
        figures[f"per turn of {turns} on {where}, us"] = ours / turns * 1e6
        figures[f"per turn of {turns} on {where} / floor"] = ours / plain
    first, last = effort.turns[0], effort.turns[-1]
    growth = found[f"ours {last}"] / last / (found[f"ours {first}"] / first)
    return {**figures, f"on {where}: per turn of {last} / per turn of {first}": growth}


async def _together(kit: Kit, where: str, effort: Effort) -> dict[str, float]:
    """Many runs at once share commits."""
    runs = effort.side_by_side

    async def together() -> None:
        await asyncio.gather(*(kit.run(1) for _ in range(runs)))

    before = kit.journal.commits
    found = await medians({"ours": repeated(together, 1)}, effort.rounds)
    commits = (kit.journal.commits - before) / (effort.rounds + 1)
    return {
        f"{runs} runs at once on {where}: journal rows/s": runs * 8 / found["ours"],
        f"{runs} runs at once on {where}: group commits per run": commits / runs,
    }


async def _stored(folder: Path, effort: Effort) -> dict[str, float]:
    """What the file grows by, indexes included."""
    figures: dict[str, float] = {}
    for turns in (effort.turns[0], effort.turns[-1]):
        with _sqlite(folder.with_name(f"stored {turns}"), "NORMAL", Asking()) as kit:
            async with kit.app:
                before, runs = _size(kit), effort.times(200 // turns)
                for _ in range(runs):
                    await kit.run(turns)
                grown = _size(kit) - before
            figures[f"bytes stored per turn of {turns}"] = grown / turns / runs
    calls = effort.times(1_000)
    with _sqlite(folder.with_name("large"), "NORMAL", Asking()) as kit:
        async with kit.app:
            before = _size(kit)
            await kit.run(calls, Large)
            share = (_size(kit) - before) / calls / len(LARGE_PAGE)
    return {**figures, f"stored / payload, {calls:,} calls of 2 kB": share}


def _size(kit: Kit) -> int:
    with kit.store.database.engines.reading.connect() as connection:
        pages = connection.exec_driver_sql("PRAGMA page_count").scalar_one()
        size = connection.exec_driver_sql("PRAGMA page_size").scalar_one()
    return int(pages) * int(size)


async def _resuming(folder: Path, effort: Effort) -> dict[str, float]:
    model = Blocking()
    with _sqlite(folder, "NORMAL", model) as kit:
        async with kit.app:
            measures: dict[str, Measure] = {}
            for turns in effort.turns:
                handle = await kit.runs.start(Kept, str(turns))
                await model.reached.get()
                await kit.runs.stop()
                plain = await kit.plain.run(turns)
                measures[f"floor {turns}"] = repeated(partial(kit.plain.resume, plain), effort.times(20))
                measures[f"ours {turns}"] = partial(_seconds_to_next_action, kit.runs, handle.id, model)
            found = await medians(measures, effort.rounds)
    figures: dict[str, float] = {}
    for turns in effort.turns:
        plain_seconds, ours = found[f"floor {turns}"], found[f"ours {turns}"]
        figures[f"resume on SQLite behind {turns} turns: floor, us"] = plain_seconds * 1e6
        figures[f"resume on SQLite behind {turns} turns, us"] = ours * 1e6
        figures[f"resume on SQLite behind {turns} turns / floor"] = ours / plain_seconds
    return figures


async def _seconds_to_next_action(runs: AgentRuns, run_id: str, model: Blocking) -> float:
    started = perf_counter()
    await runs.resume(run_id)
    await model.reached.get()
    seconds = perf_counter() - started
    await runs.stop()
    return seconds


async def _cpu_of(act: Act, times: int) -> float:
    """The processor time of this process; what a database server does is its own."""
    before = getrusage(RUSAGE_SELF)
    for _ in range(times):
        await act()
    after = getrusage(RUSAGE_SELF)
    return after.ru_utime - before.ru_utime + after.ru_stime - before.ru_stime

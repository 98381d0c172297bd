"""Durable runs in a database, against a loop by hand that writes its rows with the plain driver."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory
from uuid import uuid4

from benchmarks.agents import LARGE_PAGE, THINKING_SECONDS, Asking, Blocking, Kept, Large, Thinking
from benchmarks.databases import POSTGRESQL
from benchmarks.plain_database import Plain, PlainPostgresql, PlainSqlite
from benchmarks.timing import CPU, FULL, WALL, Act, Clock, Effort, Measure, medians, repeated

from pilotage import Application, IAgentModel
from pilotage.adapters.sqlalchemy import DatabaseSettings
from pilotage.adapters.sqlalchemy.store import SqlAlchemyStore
from pilotage.runtime import AgentRuns
from pilotage.runtime.plugin import initialize
from pilotage.testing import FaultyJournal


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
        with _sqlite(Path(folder) / "slow", "NORMAL", Thinking()) as kit:
            async with kit.app:
                figures |= await _with_a_slow_model(kit, "SQLite", effort)
        figures |= await _stored(Path(folder) / "stored", effort)
        figures |= await _resuming(Path(folder) / "resumed", effort)
    return {**figures, **await _on_postgresql(effort)}


async def _on_postgresql(effort: Effort) -> dict[str, float]:
    """The same on a server, in a schema of its own; nothing where there is none."""
    plain = await PlainPostgresql.connected(POSTGRESQL, f"pilotage_benchmark_{uuid4().hex[:8]}")
    if plain is None:
        return {}
    figures: dict[str, float] = {}
    try:
        kit = Kit(DatabaseSettings(plain.url), plain, Asking())
        async with kit.app:
            figures |= await _one_run(kit, "PostgreSQL", effort)
            figures |= await _long_runs(kit, "PostgreSQL", replace(effort, turns=effort.turns[:1]))
            figures |= await _together(kit, "PostgreSQL", effort)
        kit.store.close()
        kit = Kit(DatabaseSettings(plain.url), plain, Thinking())
        async with kit.app:
            figures |= await _with_a_slow_model(kit, "PostgreSQL", effort)
        kit.store.close()
    finally:
        await plain.close()
    return figures


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
    plain, ours = partial(kit.plain.run, 1), partial(kit.run, 1)
    found = await _both(plain, ours, (effort.times(100), effort.times(30)), effort.rounds)
    many, before = effort.times(50), kit.journal.commits
    for _ in range(many):
        await ours()
    return {
        f"one run on {where}: floor, us": found["floor"] * 1e6,
        f"one run on {where}, us": found["ours"] * 1e6,
        f"one run on {where} / floor": found["ours"] / found["floor"],
        f"one run on {where}: CPU / floor": found["CPU ours"] / found["CPU floor"],
        f"one run on {where}: commits": (kit.journal.commits - before) / many,
    }


async def _long_runs(kit: Kit, where: str, effort: Effort) -> dict[str, float]:
    figures: dict[str, float] = {}
    took: dict[int, float] = {}
    for turns in effort.turns:
        plain, ours = partial(kit.plain.run, turns), partial(kit.run, turns)
        times = (effort.times(400 // turns), effort.times(100 // turns))
        found = await _both(plain, ours, times, max(1, effort.rounds // 2))
        took[turns] = found["ours"] / turns
        figures[f"per turn of {turns} on {where}: floor, us"] = found["floor"] / turns * 1e6
        figures[f"per turn of {turns} on {where}, us"] = took[turns] * 1e6
        figures[f"per turn of {turns} on {where} / floor"] = found["ours"] / found["floor"]
        figures[f"per turn of {turns} on {where}: CPU / floor"] = found["CPU ours"] / found["CPU floor"]
    first, last = effort.turns[0], effort.turns[-1]
    if last > first:
        figures[f"on {where}: per turn of {last} / per turn of {first}"] = took[last] / took[first]
    return figures


async def _both(plain: Act, ours: Act, times: tuple[int, int], rounds: int) -> dict[str, float]:
    """Seconds of the floor and of ours, by the clock on the wall and of this process; a server's own are left out."""
    measures: dict[str, Measure] = {}
    for name, clock in (("", WALL), ("CPU ", CPU)):
        measures[f"{name}floor"] = repeated(plain, times[0], clock)
        measures[f"{name}ours"] = repeated(ours, times[1], clock)
    return await medians(measures, rounds)


async def _with_a_slow_model(kit: Kit, where: str, effort: Effort) -> dict[str, float]:
    """Turns with a model that takes as long as a fast server: what is committed together then, and what it costs."""
    turns, times, counts = max(2, effort.turns[0]), effort.times(5), [0, 0]
    began = CPU()
    for number, length in enumerate((1, turns)):
        before = kit.journal.commits
        for _ in range(times):
            await kit.run(length)
        counts[number] = kit.journal.commits - before
    what = f"a model of {THINKING_SECONDS * 1e3:.0f} ms on {where}"
    return {
        f"{what}: commits of a run of one turn": counts[0] / times,
        f"{what}: commits of each further turn": (counts[1] - counts[0]) / times / (turns - 1),
        f"{what}: CPU of a turn, us": (CPU() - began) / times / (turns + 1) * 1e6,
    }


async def _together(kit: Kit, where: str, effort: Effort) -> dict[str, float]:
    """Many runs at once share commits."""
    runs = effort.side_by_side

    async def together() -> None:
        await asyncio.gather(*(kit.run(1) for _ in range(runs)))

    before = kit.journal.commits
    found = await medians({"ours": repeated(together, 1, WALL)}, effort.rounds)
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
                measures[f"floor {turns}"] = repeated(
                    partial(kit.plain.resume, plain), effort.times(20), WALL
                )
                measures[f"ours {turns}"] = partial(_seconds_to_next_action, kit.runs, handle.id, model, WALL)
                measures[f"CPU {turns}"] = partial(_seconds_to_next_action, kit.runs, handle.id, model, CPU)
            found = await medians(measures, effort.rounds)
    figures: dict[str, float] = {}
    for turns in effort.turns:
        plain_seconds, ours = found[f"floor {turns}"], found[f"ours {turns}"]
        figures[f"resume on SQLite behind {turns} turns: floor, us"] = plain_seconds * 1e6
        figures[f"resume on SQLite behind {turns} turns, us"] = ours * 1e6
        figures[f"resume on SQLite behind {turns} turns / floor"] = ours / plain_seconds
        figures[f"resume on SQLite behind {turns} turns: CPU, us"] = found[f"CPU {turns}"] * 1e6
    return figures


async def _seconds_to_next_action(runs: AgentRuns, run_id: str, model: Blocking, clock: Clock) -> float:
    started = clock()
    await runs.resume(run_id)
    await model.reached.get()
    seconds = clock() - started
    await runs.stop()
    return seconds

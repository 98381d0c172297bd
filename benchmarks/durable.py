"""What the runtime adds to a run that is kept: journaled into memory, JSON and hash chain included, no disk."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from functools import partial
from time import perf_counter

from benchmarks import floor
from benchmarks.agents import Asking, Blocking, Kept
from benchmarks.timing import FULL, Effort, Measure, function_calls, medians, repeated

from pilotage import Application, IAgentModel
from pilotage.agent.ports.persistence import JournalRow, RunKey
from pilotage.jsonvalue import canonical_json, to_bytes, to_json_value
from pilotage.runtime import AgentRuns
from pilotage.runtime.plugin import initialize
from pilotage.testing import FaultyJournal, MemoryStore

_STORED = (
    *("seq", "action_id", "kind", "stage", "attempt", "epoch", "fingerprint", "idempotency"),
    *("record", "view", "digest", "created_at", "salt"),
)


class Store:
    """A store in memory that counts its commits, and an application over it."""

    def __init__(self, model: IAgentModel) -> None:
        store = MemoryStore()
        self.journal = FaultyJournal(store.journal)
        self.app = Application("benchmark").add(Kept, model, self.journal, *store.ports[1:])
        initialize(self.app)

    @property
    def runs(self) -> AgentRuns:
        """The run service of the application."""
        return self.app.get(AgentRuns)

    async def run(self, turns: int) -> str:
        """Start a run and wait for its answer; the id of the run."""
        handle = await self.runs.start(Kept, str(turns))
        await handle.result()
        return handle.id

    async def rows(self, run_id: str) -> Sequence[JournalRow]:
        """The journal of a run."""
        return [row async for row in self.journal.read(RunKey("default", run_id))]


def measure(effort: Effort = FULL) -> dict[str, float]:
    """Times, ratios against the floor within this run, rows and bytes."""
    return asyncio.run(_measure(effort))


async def _measure(effort: Effort) -> dict[str, float]:
    store, blocking = Store(Asking()), Blocking()
    resumed = Store(blocking)
    async with store.app, resumed.app:
        return {
            **await _one_run(store, effort),
            **await _long_runs(store, effort),
            **await _stored(store, effort),
            **await _side_by_side(store, effort),
            **await _resuming(resumed, blocking, effort),
        }


async def _one_run(store: Store, effort: Effort) -> dict[str, float]:
    ours = partial(store.run, 1)
    found = await medians(
        {
            "floor": repeated(partial(floor.run_kept, 1), effort.times(500)),
            "ours": repeated(ours, effort.times(50)),
        },
        effort.rounds,
    )
    calls = await function_calls(ours, effort.times(20))
    before = store.journal.commits
    run_id = await store.run(1)
    return {
        "one run: floor with a journal in memory, us": found["floor"] * 1e6,
        "one run: durable agent, us": found["ours"] * 1e6,
        "one run: durable agent / floor": found["ours"] / found["floor"],
        "one run: functions called, durable agent": calls,
        "one run: commits": store.journal.commits - before,
        "one run: rows": len(await store.rows(run_id)),
    }


async def _long_runs(store: Store, effort: Effort) -> dict[str, float]:
    measures: dict[str, Measure] = {}
    for turns in effort.turns:
        measures[f"floor {turns}"] = repeated(partial(floor.run_kept, turns), effort.times(2_000 // turns))
        measures[f"ours {turns}"] = repeated(partial(store.run, turns), effort.times(200 // turns))
    found = await medians(measures, effort.rounds)
    figures: dict[str, float] = {}
    for turns in effort.turns:
        plain, ours = found[f"floor {turns}"], found[f"ours {turns}"]
        figures[f"per turn of {turns}: durable agent, us"] = ours / turns * 1e6
        figures[f"per turn of {turns}: durable agent / floor"] = ours / plain
    first, last = effort.turns[0], effort.turns[-1]
    growth = found[f"ours {last}"] / last / (found[f"ours {first}"] / first)
    return {**figures, f"durable, per turn of {last} / per turn of {first}": growth}


async def _stored(store: Store, effort: Effort) -> dict[str, float]:
    figures: dict[str, float] = {}
    for turns in (effort.turns[0], effort.turns[-1]):
        before = store.journal.commits
        rows = await store.rows(await store.run(turns))
        figures[f"commits per turn of {turns}"] = (store.journal.commits - before) / turns
        figures[f"rows per turn of {turns}"] = len(rows) / turns
        figures[f"bytes per turn of {turns}"] = sum(map(_size, rows)) / turns
    return figures


def _size(row: JournalRow) -> int:
    """What a store keeps of a row, names of columns included; a view that says the same as its record is kept once."""
    stored = {name: to_json_value(getattr(row, name)) for name in _STORED}
    if row.view == row.record:
        stored["view"] = None
    return len(to_bytes(canonical_json(stored)))


async def _side_by_side(store: Store, effort: Effort) -> dict[str, float]:
    runs = effort.side_by_side

    async def together() -> None:
        await asyncio.gather(*(store.run(1) for _ in range(runs)))

    before = store.journal.commits
    found = await medians({"ours": repeated(together, 1)}, effort.rounds)
    commits = (store.journal.commits - before) / (effort.rounds + 1) / runs
    return {
        f"{runs} durable runs side by side, runs/s": runs / found["ours"],
        f"{runs} durable runs side by side: group commits per run": commits,
    }


async def _resuming(store: Store, model: Blocking, effort: Effort) -> dict[str, float]:
    measures: dict[str, Measure] = {}
    for turns in effort.turns:
        handle = await store.runs.start(Kept, str(turns))
        await model.reached.get()
        await store.runs.stop()
        journal = await floor.run_kept(turns)
        measures[f"floor {turns}"] = repeated(partial(_plainly_resumed, journal), effort.times(20))
        measures[f"ours {turns}"] = partial(_seconds_to_next_action, store.runs, handle.id, model)
    found = await medians(measures, effort.rounds)
    figures: dict[str, float] = {}
    for turns in effort.turns:
        plain, ours = found[f"floor {turns}"], found[f"ours {turns}"]
        figures[f"resume behind {turns} turns: floor, us"] = plain * 1e6
        figures[f"resume behind {turns} turns, us"] = ours * 1e6
        figures[f"resume behind {turns} turns / floor"] = ours / plain
    return figures


async def _plainly_resumed(journal: list[str]) -> None:
    await floor.resume(journal, [])


async def _seconds_to_next_action(runs: AgentRuns, run_id: str, model: Blocking) -> float:
    started = perf_counter()
    await runs.resume(run_id)
    await model.reached.get()
    seconds = perf_counter() - started
    await runs.stop()
    return seconds

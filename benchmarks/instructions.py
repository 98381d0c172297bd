"""Count the machine instructions of runs, turns and resuming: `make instructions` writes instructions.json.

Times of a shared machine are noise; instructions are not. Valgrind's callgrind runs this module (`--measured`) and
writes its counter out at every call of getppid(2), which nothing else here calls: one process, one start-up, one count
for each block between two marks. Hashes are not random, and addresses are the same in every run under valgrind. Of
the blocks of a phase the median counts: in some a timer rings, or SQLite moves its log into the database. Ephemeral
figures are the same in every measurement; ids, times and timers move those of whole durable runs by up to three in a
hundred, and those of turns and of resuming by one.
"""

from __future__ import annotations

import asyncio
import gc
import json
import os
import platform
import re
import shutil
import subprocess
import sys
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass
from functools import partial
from itertools import count
from pathlib import Path
from statistics import median
from tempfile import TemporaryDirectory

from benchmarks.agents import Asking, Blocking, Declared, Kept
from benchmarks.timing import Act

from pilotage import Application, IAgentModel, RunAgentInput
from pilotage.adapters.sqlalchemy import DatabaseSettings
from pilotage.adapters.sqlalchemy.store import SqlAlchemyStore
from pilotage.runtime import AgentRunner, AgentRuns
from pilotage.testing import MemoryStore

HERE = Path(__file__).parent
RESULTS = HERE / "instructions.json"
SHORT, LONG = 1, 11
"""Turns of the two runs whose difference gives the cost of a turn."""
BEHIND = 10
"""Turns in the record of the run that is resumed."""
BLOCKS, TIMES, WARM_UP = 5, 4, 3
"""An act is done so many times in each of so many blocks, after a warm-up that is not counted."""
WHERE = ("memory", "SQLite NORMAL")


@dataclass(frozen=True)
class Phase:
    """An act whose instructions are counted."""

    name: str
    act: Act


def main() -> None:
    """Measure and write the figures, or say why that is not possible here."""
    if (reason := why_not()) is not None:
        print(f"skipped: {reason}")
        return
    figures = figures_of(counted())
    on = {"python": platform.python_version(), "machine": platform.machine()}
    RESULTS.write_text(json.dumps({"on": on, "thousands of instructions": figures}, indent=2) + "\n")
    for name, figure in figures.items():
        print(f"  {name:44} {figure:10,.0f}")


def why_not() -> str | None:
    """Why instructions cannot be counted on this machine; None where they can."""
    return None if shutil.which("valgrind") else "valgrind is not installed"


def counted() -> dict[str, float]:
    """Instructions of each phase, for one repetition of its act."""
    names = phase_names()
    with TemporaryDirectory() as folder:
        out = Path(folder) / "counts"
        _under_valgrind(out)
        # The count before the first mark of a phase is its warm-up, and in the first phase the start of the process.
        marks = range(1, len(names) * (BLOCKS + 1) + 1)
        totals = [_total(out.with_name(f"counts.{number}")) for number in marks]
    phases = [totals[start + 1 : start + 1 + BLOCKS] for start in range(0, len(totals), BLOCKS + 1)]
    return {name: median(blocks) / TIMES for name, blocks in zip(names, phases, strict=True)}


def figures_of(counts: dict[str, float]) -> dict[str, float]:
    """The figures that are published, in thousands, from the counts of the phases."""
    figures = {"ephemeral run of one turn": counts[f"ephemeral {SHORT}"]}
    figures["ephemeral turn"] = _turn(counts, "ephemeral")
    for where in WHERE:
        figures[f"durable run of one turn, {where}"] = counts[f"{where} {SHORT}"]
        figures[f"durable turn, {where}"] = _turn(counts, where)
    for where in WHERE:
        figures[f"resume behind {BEHIND} turns, {where}"] = counts[f"resume {where}"]
    return {name: round(figure / 1e3, 1) for name, figure in figures.items()}


def phase_names() -> list[str]:
    """The phases in the order in which they are counted."""
    runs = [f"{kind} {turns}" for kind in ("ephemeral", *WHERE) for turns in (SHORT, LONG)]
    return [*runs, *(f"resume {where}" for where in WHERE)]


def _turn(counts: dict[str, float], kind: str) -> float:
    return (counts[f"{kind} {LONG}"] - counts[f"{kind} {SHORT}"]) / (LONG - SHORT)


def _under_valgrind(out: Path) -> None:
    words = ["valgrind", "--tool=callgrind", "--dump-before=getppid", f"--callgrind-out-file={out}"]
    command = [*words, sys.executable, "-m", "benchmarks.instructions", "--measured"]
    fixed = {"PYTHONHASHSEED": "0", "PYTHONPATH": str(HERE.parent), "PYTHONDONTWRITEBYTECODE": "1"}
    done = subprocess.run(command, env=os.environ | fixed, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        raise RuntimeError(f"the measured process failed:\n{done.stderr}")


def _total(file: Path) -> int:
    found = re.search(r"^totals: (\d+)$", file.read_text(), re.MULTILINE)
    if found is None:
        raise RuntimeError(f"{file.name} has no total. Does this Python call getppid(2) by itself?")
    return int(found[1])


async def measured(blocks: int = BLOCKS, times: int = TIMES, warm_up: int = WARM_UP) -> None:
    """Carry the phases out, with a mark before and behind each block; this is what valgrind watches."""
    with TemporaryDirectory() as folder:
        async with AsyncExitStack() as stack:
            phases = [phase async for phase in _phases(Path(folder), stack)]
            assert [phase.name for phase in phases] == phase_names()
            for phase in phases:
                await _repeated(phase.act, warm_up)
                gc.collect()
                os.getppid()
                for _ in range(blocks):
                    await _repeated(phase.act, times)
                    os.getppid()


async def _repeated(act: Act, times: int) -> None:
    for _ in range(times):
        await act()


async def _phases(folder: Path, stack: AsyncExitStack) -> AsyncIterator[Phase]:
    ephemeral = await stack.enter_async_context(_application(Declared, Asking(), []))
    runner = AgentRunner.for_agent_instance(ephemeral.get(Declared))
    for turns in (SHORT, LONG):
        yield Phase(f"ephemeral {turns}", partial(_events, runner, turns))
    for where in WHERE:
        app = await stack.enter_async_context(
            _application(Kept, Asking(), _store(where, folder / "runs", stack))
        )
        for turns in (SHORT, LONG):
            yield Phase(f"{where} {turns}", partial(_run, app.get(AgentRuns), turns))
    for where in WHERE:
        model = Blocking()
        app = await stack.enter_async_context(
            _application(Kept, model, _store(where, folder / "resumed", stack))
        )
        runs = app.get(AgentRuns)
        handle = await runs.start(Kept, str(BEHIND))
        await model.reached.get()
        await runs.stop()
        yield Phase(f"resume {where}", partial(_resume, runs, handle.id, model))


@asynccontextmanager
async def _application(
    agent: type[object], model: IAgentModel, ports: list[object]
) -> AsyncIterator[Application]:
    async with Application("instructions").add(agent, model, *ports).load_plugins(include=["runtime"]) as app:
        yield app


def _store(where: str, folder: Path, stack: AsyncExitStack) -> list[object]:
    if where == "memory":
        return list(MemoryStore().ports)
    folder.mkdir()
    settings = DatabaseSettings(f"sqlite:///{folder / 'pilotage.db'}", may_lose_commits_on_power_failure=True)
    return list(stack.enter_context(SqlAlchemyStore.open(settings)).ports)


_names = map(str, count(1))


async def _events(runner: AgentRunner, turns: int) -> None:
    async for _ in runner.run_events(RunAgentInput(next(_names), str(turns))):
        pass


async def _run(runs: AgentRuns, turns: int) -> None:
    await (await runs.start(Kept, str(turns))).result()


async def _resume(runs: AgentRuns, run_id: str, model: Blocking) -> None:
    """From the call of resume() to the first action that is not in the record, and the stop of the attempt."""
    await runs.resume(run_id)
    await model.reached.get()
    await runs.stop()


if __name__ == "__main__":
    if sys.argv[1:] == ["--measured"]:
        asyncio.run(measured())
    else:
        main()

"""Count the machine instructions of runs, turns and resuming: `make instructions` writes instructions.json.

Times of a shared machine are noise; instructions are not. Valgrind's callgrind runs this module (`--measured`) and
writes its counter out at every call of getppid(2), which nothing else here calls: one count for each block between two
marks. The process starts at a tenth of the cost, with counting off, and turns it on itself. Hashes are not random, and
addresses are the same in every run under valgrind. Of the blocks of a phase the median counts: in some a timer rings,
or SQLite moves its log into the database. Ephemeral figures are the same in every measurement; ids, times and timers
move those of whole durable runs by up to three in a hundred, and those of turns and of resuming by one.

`--check NAME...` counts again and fails where a figure is more than a twentieth over the recorded one, its budget.
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
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass
from functools import partial
from itertools import count
from pathlib import Path
from statistics import median
from tempfile import TemporaryDirectory

from benchmarks import floor, semantic_floor
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
BLOCKS, TIMES = 5, 4
"""An act is done so many times in each of so many blocks."""
WARM_UP = 3
"""How often it is done before: the interpreter adapts its code to what ran last."""
WHERE = ("memory", "SQLite NORMAL")
_NAMES = {
    "floor": ("the floor, run of one turn", "the floor, turn"),
    "semantic floor": ("the semantic floor, run of one turn", "the semantic floor, turn"),
    "ephemeral": ("ephemeral run of one turn", "ephemeral turn"),
    **{where: (f"durable run of one turn, {where}", f"durable turn, {where}") for where in WHERE},
}
RESUME = "resume"
KINDS = (*_NAMES, RESUME)
"""What is counted."""
TOLERANCE = 1.05
"""What a change may add to a figure without a word."""


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
    report = {"on": this_interpreter(), "thousands of instructions": figures}
    RESULTS.write_text(json.dumps(report, indent=2) + "\n")
    for name, figure in figures.items():
        print(f"  {name:44} {figure:10,.0f}")


def check(kinds: Sequence[str]) -> int:
    """Compare some kinds of runs with their budgets; return 1 where one of them takes more, as programs say it."""
    if (reason := why_not() or why_no_budget()) is not None:
        print(f"skipped: {reason}")
        return 0
    found = over_budget(figures_of(counted(kinds)), budgets())
    print("\n".join(found) or "within the budgets")
    return 1 if found else 0


def over_budget(figures: Mapping[str, float], known: Mapping[str, float]) -> list[str]:
    """What takes more instructions than its budget, in words."""
    return [
        f"{name} takes {figure:,.0f} thousand instructions, {figure / known[name] - 1:.1%} more than the recorded "
        f"{known[name]:,.0f}. Take them out again, or record them with `make instructions` and say why in the commit."
        for name, figure in figures.items()
        if figure > known[name] * TOLERANCE
    ]


def budgets() -> dict[str, float]:
    """The recorded figures."""
    known: dict[str, float] = json.loads(RESULTS.read_text())["thousands of instructions"]
    return known


def why_not() -> str | None:
    """Why instructions cannot be counted on this machine; None where they can."""
    missing = [tool for tool in ("valgrind", "vgdb") if shutil.which(tool) is None]
    return f"{missing[0]} is not installed" if missing else None


def why_no_budget() -> str | None:
    """Why the budgets do not apply here; None where they do: every build of an interpreter has counts of its own."""
    recorded = json.loads(RESULTS.read_text())["on"]
    return (
        None if recorded == this_interpreter() else f"the budgets are those of {' '.join(recorded.values())}"
    )


def this_interpreter() -> dict[str, str]:
    """What the figures depend on besides the code."""
    version, compiler = platform.python_version(), platform.python_compiler()
    return {"python": version, "machine": platform.machine(), "compiler": compiler}


def counted(kinds: Sequence[str] = ()) -> dict[str, float]:
    """Instructions of each phase of these kinds, all by default, for one repetition of its act.

    Each kind has a process of its own, so that its figures are the same with others and without.
    """
    return {name: count for kind in kinds or KINDS for name, count in _counted(kind).items()}


def _counted(kind: str) -> dict[str, float]:
    names = phase_names([kind])
    with TemporaryDirectory() as folder:
        out = Path(folder) / "counts"
        _under_valgrind(out, kind)
        # The count before the first mark of a phase is its warm-up.
        marks = range(1, len(names) * (BLOCKS + 1) + 1)
        totals = [_total(out.with_name(f"counts.{number}")) for number in marks]
    phases = [totals[start + 1 : start + 1 + BLOCKS] for start in range(0, len(totals), BLOCKS + 1)]
    return {name: median(blocks) / TIMES for name, blocks in zip(names, phases, strict=True)}


def figures_of(counts: Mapping[str, float]) -> dict[str, float]:
    """The figures that are published, in thousands, from the counts of the phases."""
    figures: dict[str, float] = {}
    for kind, (run, turn) in _NAMES.items():
        if f"{kind} {SHORT}" in counts:
            figures[run] = counts[f"{kind} {SHORT}"]
            figures[turn] = (counts[f"{kind} {LONG}"] - counts[f"{kind} {SHORT}"]) / (LONG - SHORT)
    for where in WHERE:
        if f"{RESUME} {where}" in counts:
            figures[f"resume behind {BEHIND} turns, {where}"] = counts[f"{RESUME} {where}"]
    return {name: round(figure / 1e3, 1) for name, figure in figures.items()}


def phase_names(kinds: Sequence[str] = ()) -> list[str]:
    """The phases of these kinds, all by default, in the order in which they are counted."""
    wanted = kinds or KINDS
    runs = [f"{kind} {turns}" for kind in _NAMES if kind in wanted for turns in (SHORT, LONG)]
    return [*runs, *(f"{RESUME} {where}" for where in WHERE if RESUME in wanted)]


def _under_valgrind(out: Path, kind: str) -> None:
    words = ["valgrind", "--tool=callgrind", "--instr-atstart=no", "--dump-before=getppid"]
    program = [sys.executable, "-m", "benchmarks.instructions", "--measured", kind]
    command = [*words, f"--callgrind-out-file={out}", *program]
    fixed = {"PYTHONHASHSEED": "0", "PYTHONPATH": str(HERE.parent), "PYTHONDONTWRITEBYTECODE": "1"}
    done = subprocess.run(command, env=os.environ | fixed, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        raise RuntimeError(f"the measured process failed:\n{done.stderr}")


def _total(file: Path) -> int:
    found = re.search(r"^totals: (\d+)$", file.read_text(), re.MULTILINE)
    if found is None:
        raise RuntimeError(f"{file.name} has no total. Does this Python call getppid(2) by itself?")
    return int(found[1])


def count_from_here() -> None:
    """Turn counting on for this process, which runs under valgrind."""
    order = subprocess.Popen(
        [shutil.which("vgdb") or "vgdb", f"--pid={os.getpid()}", "instrumentation", "on"],
        stdout=subprocess.DEVNULL,
    )
    # Valgrind looks for orders while the process is at work, not while it waits.
    while order.poll() is None:
        pass


async def measured(
    kinds: Sequence[str] = (),
    begin: Callable[[], None] = count_from_here,
    blocks: int = BLOCKS,
    times: int = TIMES,
    warm_up: int = WARM_UP,
) -> None:
    """Carry the phases out, with a mark before and behind each block; this is what valgrind watches."""
    with TemporaryDirectory() as folder:
        async with AsyncExitStack() as stack:
            phases = [phase async for phase in _phases(kinds, Path(folder), stack)]
            assert [phase.name for phase in phases] == phase_names(kinds)
            begin()
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


async def _phases(kinds: Sequence[str], folder: Path, stack: AsyncExitStack) -> AsyncIterator[Phase]:
    for kind in kinds or KINDS:
        if kind == RESUME:
            for where in WHERE:
                yield await _resuming(where, folder, stack)
            continue
        run = await _runs_of(kind, folder, stack)
        for turns in (SHORT, LONG):
            yield Phase(f"{kind} {turns}", partial(run, turns))


async def _runs_of(kind: str, folder: Path, stack: AsyncExitStack) -> Callable[[int], Awaitable[None]]:
    """Return the function that makes a run of so many turns."""
    match kind:
        case "floor":
            return floor.run
        case "semantic floor":
            return _straight
        case "ephemeral":
            app = await stack.enter_async_context(_application(Declared, Asking(), []))
            return partial(_events, AgentRunner.for_agent_instance(app.get(Declared)))
        case _:
            store = _store(kind, folder / "runs", stack)
            app = await stack.enter_async_context(_application(Kept, Asking(), store))
            return partial(_run, app.get(AgentRuns))


async def _resuming(where: str, folder: Path, stack: AsyncExitStack) -> Phase:
    model, store = Blocking(), _store(where, folder / "resumed", stack)
    runs = (await stack.enter_async_context(_application(Kept, model, store))).get(AgentRuns)
    handle = await runs.start(Kept, str(BEHIND))
    await model.reached.get()
    await runs.stop()
    return Phase(f"{RESUME} {where}", partial(_resume, runs, handle.id, model))


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


async def _straight(turns: int) -> None:
    async for _ in semantic_floor.events(RunAgentInput(next(_names), str(turns))):
        pass


async def _run(runs: AgentRuns, turns: int) -> None:
    await (await runs.start(Kept, str(turns))).result()


async def _resume(runs: AgentRuns, run_id: str, model: Blocking) -> None:
    """From the call of resume() to the first action that is not in the record, and the stop of the attempt."""
    await runs.resume(run_id)
    await model.reached.get()
    await runs.stop()


if __name__ == "__main__":
    match sys.argv[1:]:
        case ["--measured", *wanted]:
            asyncio.run(measured(wanted))
        case ["--check", *wanted]:
            sys.exit(check(wanted))
        case _:
            main()

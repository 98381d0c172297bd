"""What a process pays before its first run: its first start, further ones, defining agents, the help of the command.

All by processor time. Cold starts are processes of their own, with bytecode, as installed.
"""

from __future__ import annotations

import asyncio
import subprocess
import sys
from compileall import compile_dir
from pathlib import Path
from resource import RUSAGE_CHILDREN, getrusage
from statistics import median
from tempfile import TemporaryDirectory

from benchmarks.agents import Asking, Kept
from benchmarks.imports import PACKAGE
from benchmarks.timing import CPU, FULL, Effort

from pilotage import Agent, Application, ToolEffects, agent_tool
from pilotage.adapters.sqlalchemy import DatabaseSettings

_COLD = """
import asyncio
from pilotage import Agent, AgentRuns, Application, agent_tool
from pilotage.adapters.sqlalchemy import DatabaseSettings
from pilotage.models import OfflineModel

@Agent(durable=True)
class Answerer:
    "Answer in one sentence."

async def main():
    app = Application("cold").add(Answerer, OfflineModel, DatabaseSettings("sqlite:///cold.db"))
    async with app.load_plugins() as started:
        await (await started.get(AgentRuns).start(Answerer, "Good day.")).result()

asyncio.run(main())
"""
_HELP = "from pilotage.cli.main import main; main(['--help'])"


def measure(effort: Effort = FULL) -> dict[str, float]:
    """Milliseconds and microseconds of processor time."""
    compile_dir(str(PACKAGE), quiet=1)
    with TemporaryDirectory() as folder:
        cold = _of_processes(_COLD, Path(folder), effort.times(15))
        shown = _of_processes(_HELP, Path(folder), effort.times(15))
        warm = asyncio.run(_warm(Path(folder), effort.times(40)))
    return {
        "first start of a durable application, with its tables and a run: CPU, ms": cold * 1e3,
        "further start of a durable application in the process: CPU, ms": warm * 1e3,
        "pilotage --help: CPU, ms": shown * 1e3,
        "define an agent with three tools: CPU, us": _defining(effort.times(300)) * 1e6,
    }


def _of_processes(program: str, folder: Path, times: int) -> float:
    found: list[float] = []
    for number in range(times):
        place = folder / f"{number}-{len(program)}"
        place.mkdir()
        before = getrusage(RUSAGE_CHILDREN)
        subprocess.run([sys.executable, "-c", program], cwd=place, check=True, stdout=subprocess.DEVNULL)
        after = getrusage(RUSAGE_CHILDREN)
        found.append(after.ru_utime - before.ru_utime + after.ru_stime - before.ru_stime)
    return median(found)


async def _warm(folder: Path, times: int) -> float:
    settings, found = DatabaseSettings(f"sqlite:///{folder / 'warm.db'}"), list[float]()
    for _ in range(times + 1):
        began = CPU()
        async with Application("warm").add(Kept, Asking, settings).load_plugins():
            found.append(CPU() - began)
    return median(found[1:])


def _defining(times: int) -> float:
    found: list[float] = []
    for _ in range(times + 1):
        began = CPU()
        _define()
        found.append(CPU() - began)
    return median(found[1:])


def _define() -> type[object]:
    @Agent
    class Clerk:
        """Serve the customers."""

        @agent_tool(effects=ToolEffects.read_only())
        async def search(self, words: str, limit: int = 10) -> list[str]:
            """Search for texts."""
            return [words] * limit

        @agent_tool
        async def refund(self, order: str, amount: int) -> str:
            """Refund an order."""
            return f"{order}: {amount}"

        @agent_tool
        async def write(self, to: str, text: str, urgent: bool = False) -> str:
            """Write to a customer."""
            return f"{to}: {text}, {urgent}"

    return Clerk

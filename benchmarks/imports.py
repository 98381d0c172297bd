"""What importing costs, against `from pydantic import BaseModel`, interleaved in fresh interpreters."""

from __future__ import annotations

import subprocess
import sys
from compileall import compile_dir
from pathlib import Path
from statistics import median

from benchmarks.timing import FULL, Effort

PACKAGE = Path(__file__).parent.parent / "src" / "pilotage"
FLOOR = "from pydantic import BaseModel"
STATEMENTS = {
    "import pilotage.container": "import pilotage.container",
    "import pilotage.agent": "import pilotage.agent",
    "import pilotage": "import pilotage",
    "import pilotage.runtime": "import pilotage.runtime",
}
_PROGRAM = """
import time
def size():
    with open("/proc/self/status") as status:
        return next(int(line.split()[1]) for line in status if line.startswith("VmHWM"))
before, started = size(), time.perf_counter()
{}
print(time.perf_counter() - started, size() - before)
"""
"""The peak of `resource` is that of the parent where the parent is larger."""


def measure(effort: Effort = FULL) -> dict[str, float]:
    """Ratios of medians, and the memory beyond that of pydantic."""
    # As installed: with bytecode, which an interpreter may be told not to write.
    compile_dir(str(PACKAGE), quiet=1)
    seconds: dict[str, list[float]] = {name: [] for name in ("floor", *STATEMENTS)}
    sizes: dict[str, list[float]] = {name: [] for name in ("floor", *STATEMENTS)}
    for _ in range(effort.times(15)):
        for name, statement in {"floor": FLOOR, **STATEMENTS}.items():
            took, grown = _imported(statement)
            seconds[name].append(took)
            sizes[name].append(grown)
    floor, size = median(seconds["floor"]), median(sizes["floor"])
    return {
        **{f"{name} / {FLOOR}": median(seconds[name]) / floor for name in STATEMENTS},
        f"{FLOOR}, ms": floor * 1e3,
        **{f"{name}, MB beyond pydantic": (median(sizes[name]) - size) / 1024 for name in STATEMENTS},
    }


def _imported(statement: str) -> tuple[float, float]:
    command = [sys.executable, "-c", _PROGRAM.format(statement)]
    told = subprocess.run(command, capture_output=True, text=True, check=True).stdout.split()
    return float(told[0]), float(told[1])

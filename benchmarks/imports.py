"""What importing costs, against `from pydantic import BaseModel`, interleaved in fresh interpreters."""

from __future__ import annotations

import statistics
import subprocess
import sys

ROUNDS = 15
FLOOR = "from pydantic import BaseModel"
STATEMENTS = {
    "import pilotage.container": "import pilotage.container",
    "import pilotage.agent": "import pilotage.agent",
    "import pilotage": "import pilotage",
}
_PROGRAM = "import time; t = time.perf_counter(); {}; print(time.perf_counter() - t)"


def measure() -> dict[str, float]:
    """Ratios of medians; at most 1.3 is the target for the first agent."""
    times: dict[str, list[float]] = {name: [] for name in ("floor", *STATEMENTS)}
    for _ in range(ROUNDS):
        for name, statement in {"floor": FLOOR, **STATEMENTS}.items():
            times[name].append(_time(statement))
    floor = statistics.median(times["floor"])
    ratios = {
        f"{name} / from pydantic import BaseModel": statistics.median(times[name]) / floor
        for name in STATEMENTS
    }
    return {**ratios, "from pydantic import BaseModel, ms": floor * 1000}


def _time(statement: str) -> float:
    command = [sys.executable, "-c", _PROGRAM.format(statement)]
    return float(subprocess.run(command, capture_output=True, text=True, check=True).stdout)


if __name__ == "__main__":
    for name, value in measure().items():
        print(f"{name:55} {value:10.2f}")

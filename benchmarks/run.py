"""Run every benchmark, print its figures beside their targets, write results.json.

Figures are ratios within one run wherever that is possible: machines are noisy, ratios hold.
"""

from __future__ import annotations

import json
import platform
import sys
from importlib import import_module
from pathlib import Path

HERE = Path(__file__).parent
SUITES = ("imports", "container", "tools", "redaction")
TARGETS: dict[str, float] = {
    "import pilotage.agent, against pydantic (x)": 1.3,
}


def main() -> None:
    """Measure everything there is."""
    sys.path.insert(0, str(HERE))
    results: dict[str, dict[str, float]] = {}
    for suite in SUITES:
        print(f"\n{suite}")
        results[suite] = import_module(suite).measure()
        for name, value in results[suite].items():
            print(f"  {name:60} {value:12.3f}{_against_target(name, value)}")
    machine = {"python": platform.python_version(), "machine": platform.machine()}
    (HERE / "results.json").write_text(json.dumps({"on": machine, "results": results}, indent=2) + "\n")


def _against_target(name: str, value: float) -> str:
    target = TARGETS.get(name)
    if target is None:
        return ""
    return f"   target <= {target:g}{'' if value <= target else '  OVER'}"


if __name__ == "__main__":
    main()

"""Run the benchmarks, print their figures beside their targets, write results.json and the page in the docs.

Figures are ratios within one run wherever that is possible: machines are noisy, ratios hold. Suites that are named
on the command line are measured alone; the figures of the others stay as they are.
"""

from __future__ import annotations

import json
import platform
import sys
from collections.abc import Sequence
from importlib import import_module
from pathlib import Path
from typing import Any

HERE = Path(__file__).parent
RESULTS = HERE / "results.json"
SUITES = (
    "imports",
    "starting",
    "container",
    "tools",
    "redaction",
    "models",
    "runtime",
    "architectures",
    "durable",
    "persistence",
    "waiting",
    "finding",
    "killed",
    "memory",
    "http_streams",
    "http_tokens",
    "comparison",
)


def main(wanted: Sequence[str]) -> None:
    """Measure what is wanted, everything by default."""
    sys.path.insert(0, str(HERE.parent))
    known: dict[str, Any] = json.loads(RESULTS.read_text()) if RESULTS.exists() else {"results": {}}
    results = {suite: _measure(suite) for suite in wanted or SUITES}
    merged = {suite: results.get(suite) or known["results"].get(suite) or [] for suite in SUITES}
    machine = {"python": platform.python_version(), "machine": platform.machine()}
    report = {"on": machine, "results": {suite: rows for suite, rows in merged.items() if rows}}
    RESULTS.write_text(json.dumps(report, indent=2) + "\n")
    import_module("benchmarks.page").write(report)


def _measure(suite: str) -> list[dict[str, object]]:
    print(f"\n{suite}")
    target_of = import_module("benchmarks.targets").target_of
    rows: list[dict[str, object]] = []
    for name, value in import_module(f"benchmarks.{suite}").measure().items():
        target, met = target_of(name, value)
        print(f"  {name:64} {value:12.3f}   {target}{'' if met else '  MISSED'}")
        rows.append({"name": name, "value": value, "target": target, "met": met})
    return rows


if __name__ == "__main__":
    main(sys.argv[1:])

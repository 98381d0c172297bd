"""Run every benchmark, print its figures beside their targets, write results.json and the page in the docs.

Figures are ratios within one run wherever that is possible: machines are noisy, ratios hold.
"""

from __future__ import annotations

import json
import platform
import sys
from importlib import import_module
from pathlib import Path

HERE = Path(__file__).parent
SUITES = ("imports", "container", "tools", "redaction", "runtime")
AT_MOST: dict[str, float] = {
    "import pilotage.agent / from pydantic import BaseModel": 1.3,
    "import pilotage / from pydantic import BaseModel": 1.3,
    "start of 1000 pods, ms": 500,
    "bind a small payload, us": 12,
    "chunk without a candidate, us": 10,
    "chunk with a word that may become an address, us": 30,
    "chunk of text full of secrets, us": 30,
}
AT_LEAST: dict[str, float] = {
    "plain text in 64 KB chunks, MB/s": 5,
}


def main() -> None:
    """Measure everything there is."""
    sys.path.insert(0, str(HERE))
    results = {suite: _measure(suite) for suite in SUITES}
    machine = {"python": platform.python_version(), "machine": platform.machine()}
    report = {"on": machine, "results": results}
    (HERE / "results.json").write_text(json.dumps(report, indent=2) + "\n")
    import_module("page").write(report)


def _measure(suite: str) -> list[dict[str, object]]:
    print(f"\n{suite}")
    rows: list[dict[str, object]] = []
    for name, value in import_module(suite).measure().items():
        target, met = _target(name, value)
        print(f"  {name:60} {value:12.3f}   {target}{'' if met else '  MISSED'}")
        rows.append({"name": name, "value": value, "target": target, "met": met})
    return rows


def _target(name: str, value: float) -> tuple[str, bool]:
    if name in AT_MOST:
        return f"at most {AT_MOST[name]:g}", value <= AT_MOST[name]
    if name in AT_LEAST:
        return f"at least {AT_LEAST[name]:g}", value >= AT_LEAST[name]
    return "", True


if __name__ == "__main__":
    main()

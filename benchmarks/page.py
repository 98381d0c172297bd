"""Writes the performance page of the docs from results.json."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

HERE = Path(__file__).parent
PAGE = HERE.parent / "docs" / "explanation" / "performance.md"
HEAD = """\
# Performance

Measured by `make bench` on Python {python}, {machine}; this page is written by it. Machines are noisy and absolute
figures move by a factor of two; the ratios, taken within one run, hold.
"""


def write(results: dict[str, Any]) -> None:
    """The page, a table per suite with the target beside each figure that has one."""
    parts = [HEAD.format(**results["on"])]
    for suite, rows in results["results"].items():
        lines = [f"| {row['name']} | {row['value']:.3g} | {row['target']} |" for row in rows]
        parts.append(
            "\n".join([f"## {suite.capitalize()}\n", "| what | figure | target |", "|---|---|---|", *lines])
        )
    PAGE.write_text("\n".join(f"{part.rstrip()}\n" for part in parts))


if __name__ == "__main__":
    write(json.loads((HERE / "results.json").read_text()))

"""Write the table of docs/explanation/threats.md: the attacks of the last complete run of `make attack`.

    python -m tools.attacks

The run writes its counts into tests/attack/results.json; this module adds the description of each kind.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[1]
PAGE = ROOT / "docs" / "explanation" / "threats.md"
RESULTS = ROOT / "tests" / "attack" / "results.json"
BEGIN = "<!-- written by tools/attacks.py from tests/attack/results.json -->\n"
END = "<!-- end of the written part -->\n"

KINDS = {
    "gate": "gate: calls that try to avoid it through threads, executors, callbacks, hooks and wrapped functions",
    "injection": "injection: obeyed instructions from 22 channels, in the twelve architectures and hand-written agents",
    "links": "links and images in answers",
    "approvals": "approvals: mutated, forged, outdated and contradicting answers; two processes that answer at the "
    "same time, 200 rounds for each of five interfaces, on both databases",
    "tenants": "tenants: every method of every port and service, and every route, called from another tenant",
    "canaries": "canaries: forty planted values, searched in every table, route, command, read, log and exporter; "
    "texts of exceptions; secrets of runs that another process resumes after a kill at every commit",
    "records": "records: cut, swapped, rewritten, moved, forged; every column of a database without a key filled "
    "with values that it cannot hold",
    "record mutations": "record mutations: random changes of any table, read by programs, over HTTP and by commands, "
    "on both databases",
    "model servers": "servers of models: mutated streams on three wires, keys in their errors",
    "limits": "limits: fan-outs, kills, false usage figures of models, prices, fallbacks",
    "wrong answers": "wrong answers of hooks, policies, guards and budgets",
    "aliases": "aliases of agents in rules that deny",
    "server abuse": "server abuse: headers, URLs, slow clients, half requests",
    "patterns": "patterns whose cost is not bounded",
    "workspace": "workspace: links, secret files, hard links",
}


def recorded() -> dict[str, Any] | None:
    """Return the counts of the last complete run; None if there is no record of one."""
    return json.loads(RESULTS.read_text()) if RESULTS.exists() else None


def written(results: dict[str, Any] | None) -> str:
    """Return the written part of the page for the counts of one run."""
    if results is None:
        return f"{BEGIN}\nNo complete run of this version is recorded.\n\n{END}"
    rows = "".join(_row(text, results["kinds"][kind]) for kind, text in KINDS.items())
    sums = [sum(each[name] for each in results["kinds"].values()) for name in ("tried", "held", "broken")]
    return (
        f"{BEGIN}\nCounts of the last complete run, of {results['date']}:\n\n"
        "| attack | tried | held | broken |\n|---|---|---|---|\n"
        f"{rows}| all | {' | '.join(f'{each:,}' for each in sums)} |\n\n{END}"
    )


def _row(text: str, counts: dict[str, int]) -> str:
    return f"| {text} | {counts['tried']:,} | {counts['held']:,} | {counts['broken']:,} |\n"


def replaced(page: str, part: str) -> str:
    """Return the page with a new written part."""
    before, _, rest = page.partition(BEGIN)
    _, _, after = rest.partition(END)
    return before + part + after


def main() -> None:
    PAGE.write_text(replaced(PAGE.read_text(), written(recorded())))


if __name__ == "__main__":
    main()

"""Writes the performance page of the docs from results.json."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from benchmarks import plots

HERE = Path(__file__).parent
PAGE = HERE.parent / "docs" / "explanation" / "performance.md"
HEAD = """\
# Performance

Measured by `make bench` on Python {python}, {machine}; this page is written by it. Machines are noisy and absolute
figures move by a factor of two; the ratios, taken within one run, hold. What only computes is timed by processor time,
what waits for a disk or a server by the clock, with the processor time beside it. All models are fake: what is measured
is what the framework itself costs. The *floor* is a loop written by hand, with dictionaries and nothing around it; the
*semantic floor* is one straight function that makes the same values and events as a run of ours.
"""
WORDS = {
    "imports": "In fresh interpreters, interleaved.",
    "starting": "Cold starts are processes of their own, with bytecode; the first of an application makes its tables "
    "and drives a run of the offline model. The interpreter itself takes some ten milliseconds of each.",
    "container": "",
    "tools": "",
    "redaction": "Five patterns.",
    "models": "A reply of 2,000 tokens through the OpenAI-compatible adapter, each token a piece of its own, from a "
    "server in memory; beside it httpx's lines with `json.loads`, and the official client.",
    "runtime": "Runs of agents that are not durable. One run is: a model call, a tool call, the answer. A turn is a "
    "model call and a tool call.",
    "architectures": "ReAct beside the same calls and events written out in one function. Then coming back to a run "
    "whose 3,000 model calls are in 100 finished branches, or in 100 children: with reading the journal of the store "
    "of the tests, and the replay alone.",
    "durable": "The same runs with a journal in memory: JSON, hash chain and the store of the tests included, no "
    "disk. The tool gives 256 bytes. The floor writes a JSON row before and after each action.",
    "persistence": "The same runs in a database. The floor writes a small row before and one after each action with "
    "the plain driver, each in a commit of its own; on PostgreSQL with the driver's connection for event loops. NORMAL "
    "and FULL are settings of SQLite: what is confirmed survives the death of the process, or that of the machine too; "
    "at FULL the floor commits as often as a run of ours. Resuming is reading the rows, up to the next action.",
    "waiting": "Durable runs that wait for their models, in one process with a worker; for half a minute.",
    "finding": "What a worker asks the database every two seconds, and after every hint. Nine of ten runs wait for "
    "people, the others are driven by other processes.",
    "killed": "A process has begun runs, is killed with SIGKILL while all of them call their models, and another one "
    "with a worker takes them up. Their model takes five seconds, a worker drives 200 runs at once.",
    "memory": "Per run, of {side_by_side} that wait in a model call; per reader of a run.",
    "http_streams": "One process serves, over SQLite; another one has the readers, all of them of one run, and every "
    "tenth of them reads nothing. The model says a hundred tokens in a second. A turn is a model call of 20 tokens and "
    "a tool call with its commits.",
    "http_tokens": "One reader of one durable run over SQLite, whose model says a thousand words in a second; beside "
    "it an ASGI application by hand under the same server, that writes each word as a line of JSON.",
    "comparison": "The same scenarios with the same fake model, each framework in an environment of its own, with the "
    "floor beside it, by processor time. Durable runs are in an SQLite file. `make bench-peers` measures this.",
}


def write(results: dict[str, Any]) -> None:
    """Write the page, a table per suite with the target beside each figure that has one, and its plots."""
    PAGE.write_text(page_of(results))
    drawn: dict[str, tuple[str, str]] = {}
    for suite, rows in results["results"].items():
        drawn |= plots.plots_of(suite, rows)
    plots.write(drawn)


def page_of(results: dict[str, Any]) -> str:
    """The text of the page."""
    parts = [HEAD.format(**results["on"])]
    for suite, rows in results["results"].items():
        table = _side_by_side(rows) if suite == "comparison" else _table(rows)
        words = WORDS[suite].format(side_by_side=200)
        drawn = plots.plots_of(suite, rows)
        images = "\n\n".join(
            f"![{title}](../images/performance/{file}.svg)" for file, (title, _) in drawn.items()
        )
        heading = f"## {suite.replace('_', ' ').capitalize()}"
        parts.append("\n\n".join(filter(None, [heading, words, images, table])))
    return "\n".join(f"{part.rstrip()}\n" for part in parts)


def _table(rows: Sequence[dict[str, Any]]) -> str:
    lines = [f"| {row['name']} | {_figure(row['value'])} | {_target(row)} |" for row in rows]
    return "\n".join(["| what | figure | target |", "|---|---|---|", *lines])


def _target(row: dict[str, Any]) -> str:
    return f"{row['target']}: {'met' if row['met'] else '**not met**'}" if row["target"] else ""


def _side_by_side(rows: Sequence[dict[str, Any]]) -> str:
    """A column for each framework; what a row is about stands behind its name."""
    named = [(*row["name"].split(": ", 1), row["value"]) for row in rows]
    frameworks = list(dict.fromkeys(who for who, _, _ in named))
    lines = [
        f"| {what} | {' | '.join(_figure(column.get(what)) for column in _columns(named, frameworks))} |"
        for what in dict.fromkeys(what for _, what, _ in named)
    ]
    head = f"| what | {' | '.join(frameworks)} |"
    return "\n".join([head, "|---" * (len(frameworks) + 1) + "|", *lines])


def _columns(named: Sequence[tuple[str, str, float]], frameworks: Sequence[str]) -> list[dict[str, float]]:
    return [{what: figure for who, what, figure in named if who == each} for each in frameworks]


def _figure(value: float | None) -> str:
    return "" if value is None else plots.figure(value)


if __name__ == "__main__":
    write(json.loads((HERE / "results.json").read_text()))

"""Plots of the performance page: one of bars for each scenario, drawn from results.json as SVG."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from html import escape
from math import ceil, floor, log10
from pathlib import Path
from typing import Any

PLOTS = Path(__file__).parent.parent / "docs" / "images" / "performance"
_WIDTH, _LABEL, _ROW, _HEAD = 720, 200, 24, 34
_RIGHT = 90
"""Room for the figure behind a bar."""
_OURS, _OTHERS = "#2f7ed8", "#9aa5b1"
_FONT = 'font-family="sans-serif" font-size="13" fill="#808890"'


@dataclass(frozen=True)
class Plot:
    """A scenario: the figures with these names in a suite, by the labels of their bars."""

    file: str
    suite: str
    title: str
    names: Mapping[str, str]


@dataclass(frozen=True)
class Bar:
    """One figure of a plot."""

    label: str
    value: float
    is_ours: bool


_LENGTHS = (10, 50, 200)
_COMPARED = {
    "one run, us": "One run, microseconds of processor time",
    "per turn of 10, us": "A turn of a run of 10, microseconds",
    "per turn of 200, us": "A turn of a run of 200, microseconds",
    "streamed deltas, k/s": "Streamed deltas, thousands a second (more is better)",
    "durable one run, us": "One durable run in SQLite, microseconds",
    "durable per turn of 10, us": "A turn of a durable run of 10 in SQLite, microseconds",
}
_WHERE = ("SQLite", "PostgreSQL")
_PLOTS = (
    Plot(
        "turns",
        "persistence",
        "A durable turn in SQLite by the length of the run, microseconds",
        {
            **{
                f"plain driver, {turns} turns": f"per turn of {turns} on SQLite: floor, us"
                for turns in _LENGTHS
            },
            **{f"{turns} turns": f"per turn of {turns} on SQLite, us" for turns in _LENGTHS},
        },
    ),
    Plot(
        "resume",
        "persistence",
        "Resuming in SQLite by the length of the history, microseconds",
        {f"behind {turns} turns": f"resume on SQLite behind {turns} turns, us" for turns in _LENGTHS},
    ),
    Plot(
        "finding",
        "finding",
        "A worker's claim by the number of open runs, milliseconds",
        {
            f"{where}, {count:,}": f"a claim among {count:,} open runs on {where}, ms"
            for where in _WHERE
            for count in (100, 10_000, 100_000)
        },
    ),
    Plot(
        "waiting",
        "waiting",
        "1,000 runs that wait, per cent of a core",
        {where: f"1,000 waiting runs on {where}: CPU, % of a core" for where in _WHERE},
    ),
    Plot(
        "killed",
        "killed",
        "1,000 killed runs, seconds until the last is driven again",
        {where: f"1,000 killed runs on {where}: until the last is driven, s" for where in _WHERE},
    ),
)


def plots_of(suite: str, rows: Sequence[Mapping[str, Any]]) -> dict[str, tuple[str, str]]:
    """The plots of a suite by their files: the title, and the drawing. Plots without figures are left out."""
    known = {str(row["name"]): float(row["value"]) for row in rows}
    drawn: dict[str, tuple[str, str]] = {}
    if suite == "comparison":
        for number, (what, title) in enumerate(_COMPARED.items(), start=1):
            bars = [
                Bar(who, value, who.startswith("pilotage"))
                for who, name, value in ((*name.split(": ", 1), value) for name, value in known.items())
                if name == what
            ]
            if bars:
                drawn[f"comparison-{number}"] = title, draw(title, bars)
    for plot in _PLOTS:
        bars = [
            Bar(label, known[name], not label.startswith("plain"))
            for label, name in plot.names.items()
            if plot.suite == suite and name in known
        ]
        if bars:
            drawn[plot.file] = plot.title, draw(plot.title, bars)
    return drawn


def draw(title: str, bars: Sequence[Bar]) -> str:
    """Draw bars; where the longest is more than thirty times the shortest, their lengths are logarithms."""
    values = [bar.value for bar in bars]
    is_log = min(values) > 0 and max(values) > 30 * min(values)
    low, high = (
        (floor(log10(min(values))) - 0.2, ceil(log10(max(values)))) if is_log else (0.0, max(values) or 1.0)
    )
    height, room = _HEAD + _ROW * len(bars) + 8, _WIDTH - _LABEL - _RIGHT
    lines = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {_WIDTH} {height}" {_FONT}>',
        f"<title>{escape(title)}</title>",
        f'<text x="0" y="18" font-weight="bold">{escape(title)}{", logarithmic" if is_log else ""}</text>',
    ]
    for number, bar in enumerate(bars):
        top, colour = _HEAD + _ROW * number, _OURS if bar.is_ours else _OTHERS
        length = room * ((log10(bar.value) if is_log else bar.value) - low) / (high - low)
        lines += [
            f'<text x="{_LABEL - 8}" y="{top + 15}" text-anchor="end">{escape(bar.label)}</text>',
            f'<rect x="{_LABEL}" y="{top + 3}" width="{max(length, 1):.1f}" height="{_ROW - 8}" fill="{colour}"/>',
            f'<text x="{_LABEL + max(length, 1) + 6:.1f}" y="{top + 15}">{figure(bar.value)}</text>',
        ]
    return "\n".join([*lines, "</svg>", ""])


def write(drawn: Mapping[str, tuple[str, str]]) -> None:
    """Write the drawings, and remove those of scenarios that are measured no more."""
    PLOTS.mkdir(parents=True, exist_ok=True)
    for old in PLOTS.glob("*.svg"):
        if old.stem not in drawn:
            old.unlink()
    for file, (_, drawing) in drawn.items():
        (PLOTS / f"{file}.svg").write_text(drawing)


def figure(value: float) -> str:
    """Return a figure with three digits, or all of those before the point."""
    return f"{value:,.0f}" if value >= 100 else f"{value:.3g}"

"""Reads a tool's docstring: its summary and what it says about each parameter.

Understands the Google style (`Args:`), the NumPy style (`Parameters` over a rule) and reST (`:param x:`).
"""

from __future__ import annotations

import inspect
import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import field
from itertools import pairwise

from pilotage.values import value

_GOOGLE_SECTION = re.compile(r"(Args|Arguments|Parameters):$")
_GOOGLE_ENTRY = re.compile(r"(?P<name>\w+)(?: *\([^)]*\))?:(?P<text>.*)$")
_NUMPY_ENTRY = re.compile(r"(?P<name>\w+)(?: *:.*)?(?P<text>)$")
_REST_ENTRY = re.compile(r":param(?: [^:]*?)? (?P<name>\w+):(?P<text>.*)$")
_ENDS_SUMMARY = re.compile(r"$|:\w+|[A-Z]\w+:$")


@value
class Docstring:
    """A summary, and descriptions by parameter name."""

    summary: str | None = None
    parameters: Mapping[str, str] = field(default_factory=dict[str, str])


def read_docstring(documented: object) -> Docstring:
    """Return the contents of a function's docstring; those of an absent one are empty."""
    lines = (inspect.getdoc(documented) or "").splitlines()
    found = {**_google(lines), **_numpy(lines), **_entries(lines, _REST_ENTRY)}
    return Docstring(_summary(lines), {name: text for name, text in found.items() if text})


def _summary(lines: list[str]) -> str | None:
    summary: list[str] = []
    for line in lines:
        if _ENDS_SUMMARY.match(line):
            break
        summary.append(line.strip())
    return " ".join(summary) or None


def _google(lines: list[str]) -> dict[str, str]:
    for number, line in enumerate(lines):
        if _GOOGLE_SECTION.match(line):
            return _entries(_indented(lines[number + 1 :]), _GOOGLE_ENTRY)
    return {}


def _numpy(lines: list[str]) -> dict[str, str]:
    for number, (heading, rule) in enumerate(pairwise(lines)):
        if heading == "Parameters" and rule and not rule.strip("-"):
            return _entries(_until_heading(lines[number + 2 :]), _NUMPY_ENTRY)
    return {}


def _entries(lines: Iterable[str], entry: re.Pattern[str]) -> dict[str, str]:
    """Return each line at the outer indent that opens an entry, with the deeper lines that follow it."""
    found: dict[str, str] = {}
    outer: int | None = None
    current: str | None = None
    for line in lines:
        indent = len(line) - len(line.lstrip())
        outer = indent if outer is None else outer
        if not line.strip() or indent > outer:
            if current is not None:
                found[current] = f"{found[current]} {line.strip()}".strip()
            continue
        match = entry.match(line.strip())
        current = match["name"] if match else None
        if match:
            found[match["name"]] = match["text"].strip()
    return found


def _indented(lines: list[str]) -> Iterator[str]:
    for line in lines:
        if line and not line.startswith(" "):
            return
        yield line


def _until_heading(lines: list[str]) -> Iterator[str]:
    for line, following in zip(lines, [*lines[1:], ""], strict=True):
        if following and not following.strip("-"):
            return
        yield line

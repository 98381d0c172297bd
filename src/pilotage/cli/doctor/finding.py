"""What a check found, and findings as text and JSON. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from enum import StrEnum

from pilotage.cli.exit_codes import ExitCode
from pilotage.cli.screen.words import Line, Span, Tone, cleaned, columns, line
from pilotage.jsonvalue import JsonObject
from pilotage.values import value


class Health(StrEnum):
    """Whether something is to be done."""

    WELL = "well"
    NOTE = "note"
    OFF = "off"


@value
class Finding:
    """One thing that was looked at: how it is, and the way out where it is off."""

    what: str
    health: Health
    words: str
    remedy: str = ""


_MARKS = {
    Health.WELL: Span("✓", Tone.GOOD),
    Health.NOTE: Span("·", Tone.QUIET),
    Health.OFF: Span("✗", Tone.BAD),
}


def well(what: str, words: str) -> Finding:
    """All is well."""
    return Finding(what, Health.WELL, words)


def note(what: str, words: str, remedy: str = "") -> Finding:
    """Good to know; whether it is meant to be so, only the reader knows."""
    return Finding(what, Health.NOTE, words, remedy)


def off(what: str, words: object, remedy: str = "") -> Finding:
    """Something is to be done."""
    return Finding(what, Health.OFF, str(words), remedy)


def finding_lines(findings: Sequence[Finding]) -> list[Line]:
    """All findings, one below the other, with what to do."""
    lines: list[Line] = []
    names = columns([[_MARKS[each.health], Span(each.what, Tone.STRONG), Span("")] for each in findings])
    for name, each in zip(names, findings, strict=True):
        first, *rest = cleaned(each.words).splitlines() or [""]
        indent = " " * sum(len(span.text) for span in name)
        lines.append((*name, Span(first)))
        lines += [line(indent, more) for more in rest]
        if each.remedy:
            lines.append(line(indent, Span(cleaned(each.remedy), Tone.NAME)))
    return lines


def finding_json(finding: Finding) -> JsonObject:
    """A finding for programs."""
    return {
        "what": finding.what,
        "health": finding.health.value,
        "words": finding.words,
        "remedy": finding.remedy,
    }


def code_of_findings(findings: Iterable[Finding]) -> ExitCode:
    """Whether something is off."""
    is_off = any(each.health is Health.OFF for each in findings)
    return ExitCode.WRONG if is_off else ExitCode.DONE

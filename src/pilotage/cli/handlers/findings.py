"""What the doctor found: one line for each thing that was checked, with the remedy of a problem."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from enum import StrEnum

from pilotage.cli.exit_codes import ExitCode
from pilotage.cli.text import Line, TextSpan, Tone, cleaned, columns, line
from pilotage.jsonvalue import JsonObject
from pilotage.values import value


class Health(StrEnum):
    """Whether there is something to do."""

    WELL = "well"
    NOTE = "note"
    OFF = "off"


@value
class Finding:
    """One thing that was checked: its state, and the remedy if there is a problem."""

    what: str
    health: Health
    words: str
    remedy: str = ""


_MARKS = {
    Health.WELL: TextSpan("✓", Tone.GOOD),
    Health.NOTE: TextSpan("·", Tone.QUIET),
    Health.OFF: TextSpan("✗", Tone.BAD),
}


def well(what: str, words: str) -> Finding:
    """Return a finding without a problem."""
    return Finding(what, Health.WELL, words)


def note(what: str, words: str, remedy: str = "") -> Finding:
    """Return a finding that may be intended."""
    return Finding(what, Health.NOTE, words, remedy)


def off(what: str, words: object, remedy: str = "") -> Finding:
    """Return a problem."""
    return Finding(what, Health.OFF, str(words), remedy)


def finding_lines(findings: Sequence[Finding]) -> list[Line]:
    """Return all findings with their remedies."""
    lines: list[Line] = []
    names = columns(
        [[_MARKS[each.health], TextSpan(each.what, Tone.STRONG), TextSpan("")] for each in findings]
    )
    for name, each in zip(names, findings, strict=True):
        first, *rest = cleaned(each.words).splitlines() or [""]
        indent = " " * sum(len(span.text) for span in name)
        lines.append((*name, TextSpan(first, hangs=True)))
        lines += [line(indent, TextSpan(more, hangs=True)) for more in rest]
        if each.remedy:
            lines.append(line(indent, TextSpan(cleaned(each.remedy), Tone.NAME, hangs=True)))
    return lines


def finding_json(finding: Finding) -> JsonObject:
    """Return a finding for programs."""
    return {
        "what": finding.what,
        "health": finding.health.value,
        "words": finding.words,
        "remedy": finding.remedy,
    }


def code_of_findings(findings: Iterable[Finding]) -> ExitCode:
    """Return the exit code: 1 if there is a problem."""
    is_off = any(each.health is Health.OFF for each in findings)
    return ExitCode.WRONG if is_off else ExitCode.DONE

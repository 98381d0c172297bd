"""A diverged run: the recorded call beside the one that the program asks for, and what to do about it. Pure."""

from __future__ import annotations

import json
from collections.abc import Mapping

from pilotage.agent.state import AgentState, AgentStateReason
from pilotage.cli.words import Hints, Line, TextSpan, Tone, cleaned, columns, line, one_line, short
from pilotage.jsonvalue import JsonObject, JsonValue, object_or_empty

_HEADINGS = ("", "RECORDED", "ASKED")
_FACTS = ("kind", "label", "number", "arguments", "row")
_NOTHING = "-"


def divergence_of(state: AgentState) -> JsonObject | None:
    """Return the divergence of a run that has diverged; None for any other run."""
    if state.reason is not AgentStateReason.DIVERGED:
        return None
    found = state.metadata.get("divergence")
    return found if isinstance(found, Mapping) else None


def divergence_lines(state: AgentState, hints: Hints) -> list[Line]:
    """Return both sides of a divergence, the line of the program, and what to do; nothing for any other run."""
    found = divergence_of(state)
    if found is None:
        return []
    recorded, asked = object_or_empty(found.get("recorded")), object_or_empty(found.get("asked"))
    rows = [[TextSpan(each, Tone.STRONG) for each in _HEADINGS]]
    for name in _FACTS:
        if name in recorded or name in asked:
            sides = (_shown(recorded.get(name)), _shown(asked.get(name)))
            rows.append([TextSpan(name, Tone.QUIET), *(TextSpan(each) for each in sides)])
    lines = [(), line(TextSpan("diverged", Tone.STRONG)), line(TextSpan(_words(found), Tone.BAD))]
    lines += columns(rows) if len(rows) > 1 else []
    if isinstance(where := found.get("line"), str):
        lines.append(line(TextSpan("asked at ", Tone.QUIET), one_line(where)))
    return [*lines, *_ways_out(state, recorded, hints)]


def _words(found: JsonObject) -> str:
    return cleaned(f"{found.get('action')}: {found.get('difference')}")


def _shown(value: JsonValue) -> str:
    if value is None:
        return _NOTHING
    return one_line(value if isinstance(value, str) else json.dumps(value, ensure_ascii=False), 80)


def _ways_out(state: AgentState, recorded: JsonObject, hints: Hints) -> list[Line]:
    run, action = short(state.id), recorded.get("action")
    commands = [hints.command("runs", "resume", run)]
    if isinstance(action, str):
        options = (f"--skip {action}", f"--done {action} --result '…'")
        commands += [hints.command("runs", "resolve", run, each, "--reason '…'") for each in options]
    if isinstance(row := recorded.get("row"), int):
        commands.append(hints.command("runs", "resolve", run, f"--fork-at {row}", "--reason '…'"))
    return [
        line(TextSpan("mend the program and resume the run, or decide about the record:", Tone.QUIET)),
        *(line("  ", TextSpan(each, Tone.NAME)) for each in commands),
    ]

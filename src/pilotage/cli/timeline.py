"""The actions of a run as text: one line for each attempt, and how many there were. Pure."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from datetime import datetime

from pilotage.agent.evidence import AgentEvidence
from pilotage.agent.recovery import AgentActionKind
from pilotage.agent.tools.metadata import Idempotency
from pilotage.cli.text import (
    Line,
    TextSpan,
    Tone,
    columns,
    fits_columns,
    line,
    one_line,
    time_between,
    time_of,
)
from pilotage.jsonvalue import JsonValue
from pilotage.values import value

_RESULT = "run/result#1"
_OPEN = "open"
_LEAST_WORDS = 24
_REPEATED = frozenset(
    {AgentActionKind.STEP.value, AgentActionKind.TOOL_CALL.value, AgentActionKind.MODEL_CALL.value}
)
_COUNTED = (AgentActionKind.MODEL_CALL, AgentActionKind.TOOL_CALL, AgentActionKind.STEP)


@value
class TimelineEntry:
    """One attempt of one action: when it began, how long it took, its name and its outcome."""

    at: datetime | None
    took: str
    kind: str
    name: str
    words: str
    is_open: bool = False
    is_retried: bool = False


def timeline_of(
    evidence: Iterable[AgentEvidence], taken_over: Collection[tuple[str, int]] = ()
) -> list[TimelineEntry]:
    """Return the actions of a run in the order they began.

    `taken_over` has the action and attempt of outcomes that another owner wrote than the one that began the action:
    such an action was repeated after a crash, if it may be repeated.
    """
    rows: dict[tuple[object, object], list[AgentEvidence]] = {}
    for each in evidence:
        action = each.payload.get("action_id")
        if action is not None and action != _RESULT:
            rows.setdefault((action, each.payload.get("attempt")), []).append(each)
    return [_entry(each, key in taken_over) for key, each in rows.items()]


def timeline_lines(entries: Sequence[TimelineEntry], room: int | None = None) -> list[Line]:
    """Return one line for each action; where the room is small, its name and outcome are on lines of their own."""
    rows = [_cells(each) for each in entries]
    if room is None or not rows or fits_columns(rows, room, _LEAST_WORDS):
        return columns(rows, room)
    lines: list[Line] = []
    for at, kind, name, took, words in rows:
        lines += [line(at, "  ", kind, "  ", took), line("    ", name)]
        lines += [line("    ", TextSpan(words.text, words.tone, hangs=True))] if words.text else []
    return lines


def counted(entries: Sequence[TimelineEntry]) -> str:
    """Return how many model calls, tool calls and steps there were, and how many of all actions were retried."""
    kinds = Counter(each.kind for each in entries)
    names = [(kinds[_kind(kind.value)], _kind(kind.value)) for kind in _COUNTED]
    words = [count_words(count, name) for count, name in names if count]
    retried = sum(each.is_retried for each in entries)
    return ", ".join([*words, *([f"{retried} retried"] if retried else [])])


def count_words(count: int, thing: str) -> str:
    """Return a count with its noun: `1 tool call`, `2 tool calls`."""
    return f"{count} {thing}{'' if count == 1 else 's'}"


def call_arguments(arguments: Mapping[str, JsonValue]) -> str:
    """Return arguments as they are written in a call."""
    return ", ".join(f"{name}={json.dumps(each, ensure_ascii=False)}" for name, each in arguments.items())


def _kind(kind: str) -> str:
    return kind.replace("_", " ")


def _entry(rows: Sequence[AgentEvidence], is_taken_over: bool) -> TimelineEntry:
    first, last = rows[0], rows[-1]
    attempt, kind = first.payload.get("attempt"), str(first.payload.get("action_kind", ""))
    may_be_repeated = last.payload.get("idempotency") == Idempotency.IDEMPOTENT.value
    is_repeated = is_taken_over and kind in _REPEATED and may_be_repeated
    return TimelineEntry(
        at=first.created_at,
        took="" if len(rows) == 1 else time_between(first.created_at, last.created_at),
        kind=_kind(kind),
        name=str(first.payload["action_id"]).removeprefix("run/") + _attempt_words(attempt, is_repeated),
        words=_words(rows),
        is_open=last.payload.get("stage") == "before",
        is_retried=is_repeated or attempt not in (1, None),
    )


def _attempt_words(attempt: object, is_repeated: bool) -> str:
    if attempt not in (1, None):
        return f" (retried, attempt {attempt})"
    return " (retried after a crash)" if is_repeated else ""


def _words(rows: Sequence[AgentEvidence]) -> str:
    """Return the decision and the person, or the arguments and the result."""
    facts: dict[str, JsonValue] = {}
    for row in rows:
        facts.update(row.payload)
    if facts.get("erased"):
        return "erased"
    if "decision" in facts:
        by, comment = facts.get("decided_by"), facts.get("comment")
        remark = f": {comment}" if isinstance(comment, str) else ""
        return f"{facts['decision']}{f' by {by}' if by else ''}{remark}"
    asked = facts.get("asked", facts.get("arguments"))
    arguments = call_arguments(asked) if isinstance(asked, Mapping) and asked else ""
    error = facts.get("error")
    result = _shown(facts["result"]) if "result" in facts else "" if error is None else _shown(error)
    return " → ".join(each for each in (arguments, result) if each)


def _shown(result: JsonValue) -> str:
    """Return a result; of a model's reply its text, or the tools that it calls."""
    if isinstance(result, Mapping):
        content, calls = result.get("content"), result.get("tool_calls")
        if isinstance(content, str) and content:
            return content
        if isinstance(calls, Sequence) and calls and not isinstance(calls, str):
            names = [str(each.get("name", "?")) for each in calls if isinstance(each, Mapping)]
            return f"calls {', '.join(names)}"
    return json.dumps(result, ensure_ascii=False)


def _cells(entry: TimelineEntry) -> list[TextSpan]:
    tone = Tone.ASKING if entry.is_open else Tone.PLAIN
    return [
        TextSpan(time_of(entry.at), Tone.QUIET),
        TextSpan(entry.kind, tone),
        TextSpan(one_line(entry.name, 80), Tone.ASKING if entry.is_retried else Tone.NAME),
        TextSpan(_OPEN if entry.is_open else entry.took, tone),
        TextSpan(one_line(entry.words), Tone.QUIET),
    ]

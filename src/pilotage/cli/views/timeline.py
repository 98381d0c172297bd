"""What a run did, action by action, from its evidence. Pure."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime

from pilotage.agent.evidence import AgentEvidence
from pilotage.cli.words import Line, Span, Tone, columns, one_line, time_between, time_of
from pilotage.jsonvalue import JsonValue
from pilotage.values import value

_RESULT = "run/result#1"
_OPEN = "open"


@value
class Moment:
    """One attempt of one action: when it began, how long it took, what it was, what it came to."""

    at: datetime | None
    took: str
    kind: str
    name: str
    words: str
    is_open: bool = False


def moments_in(evidence: Iterable[AgentEvidence]) -> list[Moment]:
    """The actions of a run in the order they began."""
    rows: dict[tuple[object, object], list[AgentEvidence]] = {}
    for each in evidence:
        action = each.payload.get("action_id")
        if action is not None and action != _RESULT:
            rows.setdefault((action, each.payload.get("attempt")), []).append(each)
    return [_moment(each) for each in rows.values()]


def timeline_lines(moments: Sequence[Moment], room: int | None = None) -> list[Line]:
    """The actions of a run, one a line."""
    return columns([_row(each) for each in moments], room)


def _moment(rows: Sequence[AgentEvidence]) -> Moment:
    first, last = rows[0], rows[-1]
    is_open = last.payload.get("stage") == "before"
    action = str(first.payload["action_id"]).removeprefix("run/")
    attempt = first.payload.get("attempt")
    return Moment(
        first.created_at,
        "" if len(rows) == 1 else time_between(first.created_at, last.created_at),
        str(first.payload.get("action_kind", "")).replace("_", " "),
        action if attempt in (1, None) else f"{action} (attempt {attempt})",
        _words(rows),
        is_open,
    )


def _words(rows: Sequence[AgentEvidence]) -> str:
    """What a row says: who decided what, what was asked and what it gave."""
    facts: dict[str, JsonValue] = {}
    for row in rows:
        facts.update(row.payload)
    if facts.get("erased"):
        return "erased"
    if "decision" in facts:
        by = facts.get("decided_by")
        return f"{facts['decision']}{f' by {by}' if by else ''}{_comment(facts)}"
    asked = _asked(facts)
    result = _shown(facts["result"]) if "result" in facts else _failure(facts)
    return " → ".join(each for each in (asked, result) if each)


def _comment(facts: Mapping[str, JsonValue]) -> str:
    comment = facts.get("comment")
    return f": {comment}" if isinstance(comment, str) else ""


def _asked(facts: Mapping[str, JsonValue]) -> str:
    asked = facts.get("asked", facts.get("arguments"))
    return call_arguments(asked) if isinstance(asked, Mapping) and asked else ""


def _failure(facts: Mapping[str, JsonValue]) -> str:
    error = facts.get("error")
    return _shown(error) if error is not None else ""


def _shown(result: JsonValue) -> str:
    """A result; of a model's reply its text, or what it calls."""
    if isinstance(result, Mapping):
        content, calls = result.get("content"), result.get("tool_calls")
        if isinstance(content, str) and content:
            return content
        if isinstance(calls, Sequence) and calls and not isinstance(calls, str):
            names = [str(each.get("name", "?")) for each in calls if isinstance(each, Mapping)]
            return f"calls {', '.join(names)}"
    return json.dumps(result, ensure_ascii=False)


def call_arguments(arguments: Mapping[str, JsonValue]) -> str:
    """Arguments as a call has them."""
    return ", ".join(f"{name}={json.dumps(each, ensure_ascii=False)}" for name, each in arguments.items())


def _row(moment: Moment) -> list[Span]:
    tone = Tone.ASKING if moment.is_open else Tone.PLAIN
    return [
        Span(time_of(moment.at), Tone.QUIET),
        Span(moment.kind, tone),
        Span(one_line(moment.name, 60), Tone.NAME),
        Span(_OPEN if moment.is_open else moment.took, tone),
        Span(one_line(moment.words), Tone.QUIET),
    ]

"""Runs as text: a list, one run on one page with what it did, and how one came out. Pure."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime

from pilotage.agent.evidence import AgentEvidence
from pilotage.agent.ports.leases import NO_CLAIMS, ClaimRecord
from pilotage.agent.run_values import RunResult
from pilotage.agent.signals import AgentSignalKind
from pilotage.agent.state import AgentState, AgentStateReason, AgentStatus
from pilotage.cli.views.divergence import divergence_lines
from pilotage.cli.views.question import open_questions
from pilotage.cli.words import (
    Hints,
    Line,
    TextSpan,
    Tone,
    ago,
    cleaned,
    columns,
    day_and_time,
    line,
    one_line,
    short,
    time_between,
    time_of,
)
from pilotage.jsonvalue import JsonValue
from pilotage.runtime.answers import Question, StoredAnswer
from pilotage.values import value

_TONES = {
    AgentStatus.CREATED: Tone.QUIET,
    AgentStatus.ACTIVE: Tone.NAME,
    AgentStatus.INTERRUPTED: Tone.ASKING,
    AgentStatus.CANCELLING: Tone.ASKING,
    AgentStatus.COMPLETED: Tone.GOOD,
    AgentStatus.FAILED: Tone.BAD,
    AgentStatus.CANCELLED: Tone.QUIET,
}

_WAITS = {
    AgentStateReason.APPROVAL_REQUIRED: "waits for approval",
    AgentStateReason.APPROVAL_DEFERRED: "waits for approval, deferred",
    AgentStateReason.RECOVERY_REQUIRES_HITL: "waits: outcome unknown",
    AgentStateReason.USER_INTERRUPTED: "paused",
    AgentStateReason.POISONED: "quarantined",
    AgentStateReason.MODEL_UNAVAILABLE: "waits for its model",
    AgentStateReason.DIVERGED: "diverged from its record",
    AgentStateReason.LIMIT_REACHED: "stopped at a limit",
}
_RESULT = "run/result#1"
_OPEN = "open"
_HEADINGS = ("RUN", "AGENT", "STATUS", "STARTED", "ACTIVITY")


def standing(state: AgentState) -> TextSpan:
    """How a run stands, in a word or a few."""
    words = state.status.value
    if state.status is AgentStatus.INTERRUPTED:
        known = _WAITS.get(state.reason, words) if state.reason else words
        words = f"waits for {state.awaits}" if state.awaits else known
    elif state.status is AgentStatus.CANCELLING and state.awaits:
        words = f"{words}, {_WAITS[AgentStateReason.APPROVAL_REQUIRED]}"
    elif state.status is AgentStatus.FAILED and state.reason not in (None, AgentStateReason.EXECUTION_FAILED):
        words = f"failed: {state.reason.value.replace('_', ' ')}"
    return TextSpan(words, _TONES[state.status])


def run_lines(states: Sequence[AgentState], now: datetime, room: int | None = None) -> list[Line]:
    """Runs, one a line. On a terminal ids are abbreviated; where programs read, they are whole."""
    if not states:
        return [line(TextSpan("no runs", Tone.QUIET))]
    headings = [TextSpan(each, Tone.STRONG) for each in _HEADINGS]
    return columns([headings, *(_list_row(each, now, room is not None) for each in states)], room)


def _list_row(state: AgentState, now: datetime, is_short: bool) -> list[TextSpan]:
    return [
        TextSpan(short(state.id) if is_short else state.id, Tone.NAME),
        TextSpan(one_line(state.agent_type, 40)),
        standing(state),
        TextSpan(ago(state.created_at, now)),
        TextSpan("" if state.is_terminal else one_line(state.current_activity or ""), Tone.QUIET),
    ]


@value
class RunFacts:
    """What is known of a run when its page is made; `result` is None where it cannot be read, `why_not` says why."""

    state: AgentState
    questions: Sequence[Question]
    moments: Sequence[Moment]
    result: RunResult | None
    why_not: str = ""
    claims: ClaimRecord = NO_CLAIMS
    answers: Sequence[StoredAnswer] = ()


def run_page(facts: RunFacts, hints: Hints, now: datetime, room: int | None = None) -> list[Line]:
    """The page of a run."""
    state = facts.state
    about = [*_about(state, now), *_claims(facts.claims, now)]
    lines = columns([[TextSpan(name, Tone.QUIET), each] for name, each in about])
    lines += [*_problem(state, facts.claims), *divergence_lines(state, hints)]
    if facts.questions:
        lines += [(), line(TextSpan("waits for", Tone.STRONG)), *open_questions(facts.questions, hints)]
    lines += _stored_answers(facts.answers)
    if facts.moments:
        lines += [(), line(TextSpan("did", Tone.STRONG)), *timeline_lines(facts.moments, room)]
    lines += _came_to(facts)
    if (next_step := what_next(state, hints, is_asked=bool(facts.questions))) is not None:
        lines += [(), next_step]
    return lines


def what_next(state: AgentState, hints: Hints, *, is_asked: bool) -> Line | None:
    """What to do about a run that goes no further by itself."""
    run = short(state.id)
    if state.reason is AgentStateReason.DIVERGED:
        return None
    if state.awaits and state.status is AgentStatus.INTERRUPTED:
        is_steering = state.awaits == AgentSignalKind.STEERING_INSTRUCTION.value
        send = hints.command("runs", "send", run, "TEXT", *(["--steering"] if is_steering else []))
        return line("answer it: ", TextSpan(send, Tone.NAME))
    if state.status in (AgentStatus.INTERRUPTED, AgentStatus.CANCELLING) and is_asked:
        resume = hints.command("runs", "resume", run)
        return line("then, unless a worker does: ", TextSpan(resume, Tone.NAME))
    if state.status in (AgentStatus.INTERRUPTED, AgentStatus.ACTIVE, AgentStatus.CANCELLING):
        return line("if nobody drives it: ", TextSpan(hints.command("runs", "resume", run), Tone.NAME))
    return None


def output_text(output: object) -> str:
    """What a run came to, as text: a text as it is, everything else as JSON."""
    text = output if isinstance(output, str) else json.dumps(output, ensure_ascii=False, indent=2)
    return cleaned(text)


def _about(state: AgentState, now: datetime) -> list[tuple[str, TextSpan]]:
    about = [
        ("run", TextSpan(state.id, Tone.NAME)),
        ("agent", TextSpan(one_line(state.agent_type))),
        ("status", standing(state)),
        ("started", TextSpan(f"{day_and_time(state.created_at)} ({ago(state.created_at, now)})")),
        ("changed", TextSpan(f"{day_and_time(state.updated_at)} ({ago(state.updated_at, now)})")),
    ]
    if state.wake_at is not None:
        about.append(("wakes", TextSpan(day_and_time(state.wake_at))))
    if (parent := state.metadata.get("parent")) is not None:
        about.append(("part of", TextSpan(one_line(str(parent)), Tone.NAME)))
    return about


def _claims(claims: ClaimRecord, now: datetime) -> list[tuple[str, TextSpan]]:
    """The claims without progress of a run that has some."""
    if not claims.count:
        return []
    words = f"{claims.count} without progress, the last {ago(claims.last_claim, now)}"
    if claims.next_claim is not None and claims.next_claim > now:
        words += f", the next from {day_and_time(claims.next_claim)} on"
    return [("claims", TextSpan(words, Tone.BAD))]


def _problem(state: AgentState, claims: ClaimRecord) -> list[Line]:
    """The last error of a run that makes no progress, or is quarantined, with its stack."""
    poison = state.metadata.get("poison") if state.reason is AgentStateReason.POISONED else None
    known = poison.get("problem") if isinstance(poison, Mapping) else claims.count and claims.problem
    if not isinstance(known, str):
        return []
    first, *rest = known.splitlines() or [""]
    return [
        (),
        line(TextSpan("last error", Tone.STRONG)),
        line(TextSpan(cleaned(first), Tone.BAD)),
        *(line(TextSpan(cleaned(each), Tone.QUIET)) for each in rest),
    ]


def _stored_answers(answers: Sequence[StoredAnswer]) -> list[Line]:
    """The answers that are stored and wait for an owner of the run."""
    if not answers:
        return []
    heading = line(TextSpan("answered, and waits for a worker to take it up", Tone.STRONG))
    return [(), heading, *(_stored_answer(each) for each in answers)]


def _stored_answer(answer: StoredAnswer) -> Line:
    by = f" by {one_line(answer.decided_by)}" if answer.decided_by else ""
    prompt = one_line(answer.question.prompt)
    return line("  ", TextSpan(answer.decision, Tone.GOOD), f"{by} {day_and_time(answer.at)}: {prompt}")


def _came_to(facts: RunFacts) -> list[Line]:
    result = facts.result
    if result is None:
        return [(), line(TextSpan(facts.why_not, Tone.BAD))] if facts.why_not else []
    lines: list[Line] = []
    if result.error is not None:
        words = f"{result.error.get('message')} ({result.error.get('code')})"
        lines += [(), line(TextSpan("failed with", Tone.STRONG)), line(TextSpan(cleaned(words), Tone.BAD))]
    if result.output is not None:
        lines += [(), line(TextSpan("came to", Tone.STRONG))]
        lines += [line(each) for each in output_text(result.output).splitlines()]
    if result.turns or result.spent.tool_calls:
        lines += [(), line(TextSpan(spent_words(result), Tone.QUIET))]
    return lines


def spent_words(result: RunResult) -> str:
    """What a run took."""
    spent = result.spent
    counts = ((spent.steps, "step"), (spent.tool_calls, "tool call"), (spent.tokens, "token"))
    words = [f"{count} {thing}{'' if count == 1 else 's'}" for count, thing in counts]
    return ", ".join([*words, *([f"cost {spent.cost}"] if spent.cost else [])])


def ending_lines(result: RunResult, hints: Hints, *, is_kept: bool, is_asked: bool) -> list[Line]:
    """The end of a run, and what to do where it is none."""
    match result.state.status:
        case AgentStatus.COMPLETED:
            lines = [
                line(TextSpan("✓ completed", Tone.GOOD), TextSpan(f": {spent_words(result)}", Tone.QUIET))
            ]
        case AgentStatus.CANCELLED:
            lines = [line(TextSpan("cancelled", Tone.ASKING), TextSpan(_why(result), Tone.QUIET))]
        case AgentStatus.FAILED:
            lines = [line(TextSpan(f"✗ failed{_why(result)}", Tone.BAD))]
        case _:
            next_step = what_next(result.state, hints, is_asked=is_asked)
            lines = [next_step] if next_step is not None else divergence_lines(result.state, hints)
    return [*lines, _where(result, hints)] if is_kept else lines


def _why(result: RunResult) -> str:
    error = result.error or {}
    words = str(error.get("message") or result.state.current_activity or "")
    code = error.get("code")
    known = f" ({code})" if code and code != "cancelled" else ""
    return f": {cleaned(words)}{known}" if words else ""


def _where(result: RunResult, hints: Hints) -> Line:
    return line(
        TextSpan(f"look into it: {hints.command('runs', 'show', short(result.state.id))}", Tone.QUIET)
    )


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
    return columns([_moment_row(each) for each in moments], room)


def _moment(rows: Sequence[AgentEvidence]) -> Moment:
    first, last = rows[0], rows[-1]
    is_open = last.payload.get("stage") == "before"
    action = str(first.payload["action_id"]).removeprefix("run/")
    attempt = first.payload.get("attempt")
    return Moment(
        at=first.created_at,
        took="" if len(rows) == 1 else time_between(first.created_at, last.created_at),
        kind=str(first.payload.get("action_kind", "")).replace("_", " "),
        name=action if attempt in (1, None) else f"{action} (attempt {attempt})",
        words=_words(rows),
        is_open=is_open,
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


def _moment_row(moment: Moment) -> list[TextSpan]:
    tone = Tone.ASKING if moment.is_open else Tone.PLAIN
    return [
        TextSpan(time_of(moment.at), Tone.QUIET),
        TextSpan(moment.kind, tone),
        TextSpan(one_line(moment.name, 60), Tone.NAME),
        TextSpan(_OPEN if moment.is_open else moment.took, tone),
        TextSpan(one_line(moment.words), Tone.QUIET),
    ]

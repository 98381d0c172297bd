"""Runs as text: a list, one run on one page, a divergence, and how a run ended. Pure."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from datetime import datetime

from pilotage.agent.ports.leases import NO_CLAIMS, ClaimRecord
from pilotage.agent.run_values import RunResult
from pilotage.agent.signals import AgentSignalKind
from pilotage.agent.state import AgentState, AgentStateReason, AgentStatus
from pilotage.cli.question_view import open_questions
from pilotage.cli.text import (
    Hints,
    Line,
    TextSpan,
    Tone,
    ago,
    cleaned,
    columns,
    day_and_time,
    fits_columns,
    line,
    one_line,
    short,
)
from pilotage.cli.timeline import TimelineEntry, count_words, counted, timeline_lines
from pilotage.jsonvalue import JsonObject, JsonValue, object_or_empty
from pilotage.runtime.open_questions import Question, StoredAnswer
from pilotage.runtime.reading import RunOutline
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
_HEADINGS = ("RUN", "AGENT", "STATUS", "STARTED", "INPUT", "CONVERSATION", "ACTIVITY")
_CONVERSATION = _HEADINGS.index("CONVERSATION")
_LONGEST_INPUT = 32
_LEAST_ACTIVITY = 12
_LONGEST_ERROR = 500
_SIDES = ("", "RECORDED", "ASKED")
_COMPARED = ("kind", "label", "number", "arguments", "row")


def status_of(state: AgentState) -> TextSpan:
    """Return the status of a run in a few words."""
    words = state.status.value
    if state.status is AgentStatus.INTERRUPTED:
        known = _WAITS.get(state.reason, words) if state.reason else words
        words = f"waits for {state.awaits}" if state.awaits else known
    elif state.status is AgentStatus.CANCELLING and state.awaits:
        words = f"{words}, {_WAITS[AgentStateReason.APPROVAL_REQUIRED]}"
    elif state.status is AgentStatus.FAILED and state.reason not in (None, AgentStateReason.EXECUTION_FAILED):
        words = f"failed: {state.reason.value.replace('_', ' ')}"
    return TextSpan(words, _TONES[state.status])


def run_lines(
    listed: Sequence[tuple[AgentState, RunOutline]], now: datetime, room: int | None = None
) -> list[Line]:
    """Return one line for each run, two where the room is small. On a terminal ids are abbreviated."""
    if not listed:
        return [line(TextSpan("no runs", Tone.QUIET))]
    rows = [_list_row(state, outline, now, room is not None) for state, outline in listed]
    table = [[TextSpan(each, Tone.STRONG) for each in _HEADINGS], *rows]
    if not any(outline.conversation for _, outline in listed):
        table = [[*row[:_CONVERSATION], *row[_CONVERSATION + 1 :]] for row in table]
    if room is None or fits_columns(table, room, _LEAST_ACTIVITY):
        return columns(table, room)
    lines: list[Line] = []
    for run, agent, status, *rest in rows:
        about = ", ".join(each.text for each in rest if each.text)
        lines.append(line(run, "  ", agent, "  ", status))
        lines.append(line("    ", TextSpan(about, Tone.QUIET, hangs=True)))
    return lines


def _list_row(state: AgentState, outline: RunOutline, now: datetime, is_short: bool) -> list[TextSpan]:
    activity = "" if state.is_terminal else one_line(state.current_activity or "")
    status = status_of(state)
    if outline.is_driven is False:
        status = TextSpan(f"{status.text}, no process drives it", Tone.BAD)
    return [
        TextSpan(short(state.id) if is_short else state.id, Tone.NAME),
        TextSpan(one_line(state.agent_type, 40)),
        status,
        TextSpan(ago(state.created_at, now)),
        TextSpan(one_line(outline.input, _LONGEST_INPUT)),
        TextSpan(one_line(outline.conversation or "", _LONGEST_INPUT), Tone.QUIET),
        TextSpan(activity, Tone.QUIET),
    ]


@value
class RunFacts:
    """The content of a run's page; `result` is None if it cannot be read, and `why_not` says why."""

    state: AgentState
    questions: Sequence[Question]
    timeline: Sequence[TimelineEntry]
    result: RunResult | None
    why_not: str = ""
    claims: ClaimRecord = NO_CLAIMS
    answers: Sequence[StoredAnswer] = ()


def run_page(facts: RunFacts, hints: Hints, now: datetime, room: int | None = None) -> list[Line]:
    """Return the page of a run."""
    state = facts.state
    about = [*_about(state, now), *_claims(facts.claims, now)]
    lines = columns([[TextSpan(name, Tone.QUIET), each] for name, each in about])
    lines += [*_problem(state, facts.claims), *divergence_lines(state, hints)]
    if facts.questions:
        lines += [(), line(TextSpan("questions", Tone.STRONG)), *open_questions(facts.questions, hints)]
    lines += _stored_answers(facts.answers)
    if facts.timeline:
        counts = counted(facts.timeline)
        heading = line(
            TextSpan("actions", Tone.STRONG), TextSpan(f": {counts}" if counts else "", Tone.QUIET)
        )
        lines += [(), heading, *timeline_lines(facts.timeline, room)]
    lines += _result_lines(facts)
    if (next_step := what_next(state, hints, is_asked=bool(facts.questions))) is not None:
        lines += [(), next_step]
    return lines


def what_next(state: AgentState, hints: Hints, *, is_asked: bool) -> Line | None:
    """Return what to do about a run that does not continue by itself."""
    run = short(state.id)
    if state.reason is AgentStateReason.DIVERGED:
        return None
    if state.awaits and state.status is AgentStatus.INTERRUPTED:
        is_steering = state.awaits == AgentSignalKind.STEERING_INSTRUCTION.value
        send = hints.command("runs", "send", run, "TEXT", *(["--steering"] if is_steering else []))
        return line("answer it: ", send)
    if state.status in (AgentStatus.INTERRUPTED, AgentStatus.CANCELLING) and is_asked:
        return None
    if state.status in (AgentStatus.INTERRUPTED, AgentStatus.ACTIVE, AgentStatus.CANCELLING):
        return line("if no process drives it: ", hints.command("runs", "resume", run))
    return None


def output_text(output: object) -> str:
    """Return the output of a run as text: a text as it is, any other value as JSON."""
    text = output if isinstance(output, str) else json.dumps(output, ensure_ascii=False, indent=2)
    return cleaned(text)


def _about(state: AgentState, now: datetime) -> list[tuple[str, TextSpan]]:
    about = [
        ("run", TextSpan(state.id, Tone.NAME)),
        ("agent", TextSpan(one_line(state.agent_type))),
        ("status", status_of(state)),
        ("started", TextSpan(f"{day_and_time(state.created_at)} ({ago(state.created_at, now)})")),
        ("changed", TextSpan(f"{day_and_time(state.updated_at)} ({ago(state.updated_at, now)})")),
    ]
    if state.wake_at is not None:
        about.append(("wakes", TextSpan(day_and_time(state.wake_at))))
    if (parent := state.metadata.get("parent")) is not None:
        about.append(("part of", TextSpan(one_line(str(parent)), Tone.NAME)))
    return about


def _claims(claims: ClaimRecord, now: datetime) -> list[tuple[str, TextSpan]]:
    """Return the claims of a run without progress."""
    if not claims.count:
        return []
    words = f"{claims.count} without progress, the last {ago(claims.last_claim, now)}"
    if claims.next_claim is not None and claims.next_claim > now:
        words += f", the next from {day_and_time(claims.next_claim)} on"
    return [("claims", TextSpan(words, Tone.BAD))]


def _problem(state: AgentState, claims: ClaimRecord) -> list[Line]:
    """Return the last error, with its stack, of a run that makes no progress or is quarantined."""
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
    """Return the stored answers that wait for an owner of the run."""
    if not answers:
        return []
    heading = line(TextSpan("answered; waits for a worker", Tone.STRONG))
    return [(), heading, *(_stored_answer(each) for each in answers)]


def _stored_answer(answer: StoredAnswer) -> Line:
    by = f" by {one_line(answer.decided_by)}" if answer.decided_by else ""
    prompt = one_line(answer.question.prompt)
    return line("  ", TextSpan(answer.decision, Tone.GOOD), f"{by} {day_and_time(answer.at)}: {prompt}")


def _result_lines(facts: RunFacts) -> list[Line]:
    result = facts.result
    if result is None:
        return [(), line(TextSpan(facts.why_not, Tone.BAD))] if facts.why_not else []
    lines: list[Line] = []
    if result.error is not None:
        words = f"{result.error.get('message')} ({result.error.get('code')})"
        lines += [(), line(TextSpan("failed with", Tone.STRONG)), line(TextSpan(cleaned(words), Tone.BAD))]
    if result.output is not None:
        lines += [(), line(TextSpan("result", Tone.STRONG))]
        lines += [line(each) for each in output_text(result.output).splitlines()]
    if words := spent_words(result):
        lines += [(), line(TextSpan(words, Tone.QUIET))]
    return lines


def spent_words(result: RunResult) -> str:
    """Return what a run has spent; what it has not is left out."""
    spent = result.spent
    counts = ((spent.steps, "model call"), (spent.tool_calls, "tool call"), (spent.tokens, "token"))
    words = [count_words(count, thing) for count, thing in counts if count]
    return ", ".join([*words, *([f"cost {spent.cost}"] if spent.cost else [])])


def ending_lines(result: RunResult, hints: Hints, *, is_durable: bool, is_asked: bool) -> list[Line]:
    """Return how a run ended, or what to do if it waits."""
    match result.state.status:
        case AgentStatus.COMPLETED:
            words = spent_words(result)
            lines = [
                line(TextSpan("✓ completed", Tone.GOOD), TextSpan(f": {words}" if words else "", Tone.QUIET))
            ]
        case AgentStatus.CANCELLED:
            lines = [line(TextSpan("cancelled", Tone.ASKING), TextSpan(_why(result), Tone.QUIET))]
        case AgentStatus.FAILED:
            lines = [line(TextSpan(f"✗ failed{_why(result)}", Tone.BAD))]
        case _:
            next_step = what_next(result.state, hints, is_asked=is_asked)
            if next_step is None:
                lines = divergence_lines(result.state, hints)
            else:
                lines = [line(status_of(result.state), TextSpan(_why(result), Tone.QUIET)), next_step]
    if not is_durable:
        return lines
    show = hints.command("runs", "show", short(result.state.id))
    return [*lines, line(TextSpan("details: ", Tone.QUIET), show)]


def _why(result: RunResult) -> str:
    error = result.error or {}
    words = str(error.get("message") or result.state.current_activity or "")
    code = error.get("code")
    known = f" ({code})" if code and code != "cancelled" else ""
    return f": {one_line(words, _LONGEST_ERROR)}{known}" if words else ""


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
    rows = [[TextSpan(each, Tone.STRONG) for each in _SIDES]]
    for name in _COMPARED:
        if name in recorded or name in asked:
            sides = (_side(recorded.get(name)), _side(asked.get(name)))
            rows.append([TextSpan(name, Tone.QUIET), *(TextSpan(each) for each in sides)])
    words = cleaned(f"{found.get('action')}: {found.get('difference')}")
    lines = [(), line(TextSpan("diverged", Tone.STRONG)), line(TextSpan(words, Tone.BAD))]
    lines += columns(rows) if len(rows) > 1 else []
    if isinstance(where := found.get("line"), str):
        lines.append(line(TextSpan("asked at ", Tone.QUIET), one_line(where)))
    return [*lines, *_ways_out(state, recorded, hints)]


def _side(value: JsonValue) -> str:
    if value is None:
        return "-"
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
        line(TextSpan("correct the program and resume the run, or decide about the record:", Tone.QUIET)),
        *(line("  ", each) for each in commands),
    ]

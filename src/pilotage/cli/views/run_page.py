"""One run on one page: how it stands, what it waits for, what it did. Pure."""

from __future__ import annotations

import json
from collections.abc import Sequence
from datetime import datetime

from pilotage.agent.run_values import RunResult
from pilotage.agent.state import AgentState, AgentStatus
from pilotage.cli.screen.words import Line, Span, Tone, cleaned, columns, line, one_line
from pilotage.cli.views.hints import Hints, short
from pilotage.cli.views.moments import ago, day_and_time
from pilotage.cli.views.question import open_questions
from pilotage.cli.views.run_list import standing
from pilotage.cli.views.timeline import Moment, timeline_lines
from pilotage.runtime.answers import Question
from pilotage.values import value


@value
class RunFacts:
    """What is known of a run when its page is made; `result` is None where it cannot be read, `why_not` says why."""

    state: AgentState
    questions: Sequence[Question]
    moments: Sequence[Moment]
    result: RunResult | None
    why_not: str = ""


def run_page(facts: RunFacts, hints: Hints, now: datetime, room: int | None = None) -> list[Line]:
    """The page of a run."""
    state = facts.state
    lines = columns([[Span(name, Tone.QUIET), each] for name, each in _about(state, now)])
    if facts.questions:
        lines += [(), line(Span("waits for", Tone.STRONG)), *open_questions(facts.questions, hints)]
    if facts.moments:
        lines += [(), line(Span("did", Tone.STRONG)), *timeline_lines(facts.moments, room)]
    lines += _came_to(facts)
    if (next_step := what_next(state, hints, is_asked=bool(facts.questions))) is not None:
        lines += [(), next_step]
    return lines


def what_next(state: AgentState, hints: Hints, *, is_asked: bool) -> Line | None:
    """What to do about a run that goes no further by itself."""
    run = short(state.id)
    if state.awaits:
        return line("answer it: ", Span(hints.command("runs", "send", run, "TEXT"), Tone.NAME))
    if state.status is AgentStatus.INTERRUPTED and is_asked:
        resume = hints.command("runs", "resume", run)
        return line("then, unless a worker does: ", Span(resume, Tone.NAME))
    if state.status in (AgentStatus.INTERRUPTED, AgentStatus.ACTIVE, AgentStatus.CANCELLING):
        return line("if nobody drives it: ", Span(hints.command("runs", "resume", run), Tone.NAME))
    return None


def output_text(output: object) -> str:
    """What a run came to, as text: a text as it is, everything else as JSON."""
    text = output if isinstance(output, str) else json.dumps(output, ensure_ascii=False, indent=2)
    return cleaned(text)


def _about(state: AgentState, now: datetime) -> list[tuple[str, Span]]:
    about = [
        ("run", Span(state.id, Tone.NAME)),
        ("agent", Span(one_line(state.agent_type))),
        ("status", standing(state)),
        ("started", Span(f"{day_and_time(state.created_at)} ({ago(state.created_at, now)})")),
        ("changed", Span(f"{day_and_time(state.updated_at)} ({ago(state.updated_at, now)})")),
    ]
    if state.wake_at is not None:
        about.append(("wakes", Span(day_and_time(state.wake_at))))
    if (parent := state.metadata.get("parent")) is not None:
        about.append(("part of", Span(one_line(str(parent)), Tone.NAME)))
    return about


def _came_to(facts: RunFacts) -> list[Line]:
    result = facts.result
    if result is None:
        return [(), line(Span(facts.why_not, Tone.BAD))] if facts.why_not else []
    lines: list[Line] = []
    if result.error is not None:
        words = f"{result.error.get('message')} ({result.error.get('code')})"
        lines += [(), line(Span("failed with", Tone.STRONG)), line(Span(cleaned(words), Tone.BAD))]
    if result.output is not None:
        lines += [(), line(Span("came to", Tone.STRONG))]
        lines += [line(each) for each in output_text(result.output).splitlines()]
    if result.turns or result.spent.tool_calls:
        lines += [(), line(Span(spent_words(result), Tone.QUIET))]
    return lines


def spent_words(result: RunResult) -> str:
    """What a run took."""
    spent = result.spent
    counts = ((spent.steps, "step"), (spent.tool_calls, "tool call"), (spent.tokens, "token"))
    words = [f"{count} {thing}{'' if count == 1 else 's'}" for count, thing in counts]
    return ", ".join([*words, *([f"cost {spent.cost}"] if spent.cost else [])])

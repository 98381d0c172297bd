"""How a run that somebody followed came out, in a line or two. Pure."""

from __future__ import annotations

from pilotage.agent.run_values import RunResult
from pilotage.agent.state import AgentStatus
from pilotage.cli.screen.words import Line, Span, Tone, cleaned, line
from pilotage.cli.views.hints import Hints, short
from pilotage.cli.views.run_page import spent_words, what_next


def ending_lines(result: RunResult, hints: Hints, *, is_kept: bool, is_asked: bool) -> list[Line]:
    """The end of a run, and what to do where it is none."""
    match result.state.status:
        case AgentStatus.COMPLETED:
            lines = [line(Span("✓ completed", Tone.GOOD), Span(f": {spent_words(result)}", Tone.QUIET))]
        case AgentStatus.CANCELLED:
            lines = [line(Span("cancelled", Tone.ASKING), Span(_why(result), Tone.QUIET))]
        case AgentStatus.FAILED:
            lines = [line(Span(f"✗ failed{_why(result)}", Tone.BAD))]
        case _:
            next_step = what_next(result.state, hints, is_asked=is_asked)
            lines = [next_step] if next_step is not None else []
    return [*lines, _where(result, hints)] if is_kept else lines


def _why(result: RunResult) -> str:
    error = result.error or {}
    words = str(error.get("message") or result.state.current_activity or "")
    code = error.get("code")
    known = f" ({code})" if code and code != "cancelled" else ""
    return f": {cleaned(words)}{known}" if words else ""


def _where(result: RunResult, hints: Hints) -> Line:
    return line(Span(f"look into it: {hints.command('runs', 'show', short(result.state.id))}", Tone.QUIET))

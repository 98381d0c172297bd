"""How runs stand, in words, and a list of them. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime

from pilotage.agent.state import AgentState, AgentStateReason, AgentStatus
from pilotage.cli.screen.words import Line, Span, Tone, columns, line, one_line
from pilotage.cli.views.hints import short
from pilotage.cli.views.moments import ago

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
}
_HEADINGS = ("RUN", "AGENT", "STATUS", "STARTED", "ACTIVITY")


def standing(state: AgentState) -> Span:
    """How a run stands, in a word or a few."""
    words = state.status.value
    if state.status is AgentStatus.INTERRUPTED:
        known = _WAITS.get(state.reason, words) if state.reason else words
        words = f"waits for {state.awaits}" if state.awaits else known
    elif state.status is AgentStatus.FAILED and state.reason not in (None, AgentStateReason.EXECUTION_FAILED):
        words = f"failed: {state.reason.value.replace('_', ' ')}"
    return Span(words, _TONES[state.status])


def run_lines(states: Sequence[AgentState], now: datetime, room: int | None = None) -> list[Line]:
    """Runs, one a line. On a terminal ids are abbreviated; where programs read, they are whole."""
    if not states:
        return [line(Span("no runs", Tone.QUIET))]
    headings = [Span(each, Tone.STRONG) for each in _HEADINGS]
    return columns([headings, *(_row(each, now, room is not None) for each in states)], room)


def _row(state: AgentState, now: datetime, is_short: bool) -> list[Span]:
    return [
        Span(short(state.id) if is_short else state.id, Tone.NAME),
        Span(one_line(state.agent_type, 40)),
        standing(state),
        Span(ago(state.created_at, now)),
        Span("" if state.is_terminal else one_line(state.current_activity or ""), Tone.QUIET),
    ]

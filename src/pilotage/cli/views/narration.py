"""`Narrator`: the events of a run as what a person reads along. Pure."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from typing import TypeAlias

from pilotage.agent.events import (
    AgentEvent,
    ArtifactEvent,
    MessageDeltaEvent,
    ReasoningDeltaEvent,
    RunPausedEvent,
    RunStartedEvent,
    StepStartedEvent,
    ToolCallArgsDeltaEvent,
    ToolCallEndEvent,
    ToolCallResultEvent,
    ToolCallStartEvent,
)
from pilotage.cli.screen.words import Line, Span, Tone, cleaned, line, one_line
from pilotage.cli.views.timeline import call_arguments
from pilotage.jsonvalue import JsonValue
from pilotage.runtime.events.projections import ITEM_FIELDS

Told: TypeAlias = Span | Line
"""A piece of text that goes on where the last one ended, or a line of its own."""


class Narrator:
    """Tells one run and its children; remembers calls whose arguments are on their way, and the open message."""

    def __init__(self, run_id: str, *, tells_reasoning: bool = False) -> None:
        self._run_id = run_id
        self._tells_reasoning = tells_reasoning
        self._arguments: dict[tuple[str, str], list[str]] = {}
        self._names: dict[tuple[str, str], str] = {}
        self._message: str | None = None

    def told(self, event: AgentEvent) -> Iterator[Told]:
        """What an event says to a reader; many say nothing."""
        match event:
            case MessageDeltaEvent():
                yield from self._piece(event, event.message_id, event.delta, Tone.PLAIN)
            case ReasoningDeltaEvent() if self._tells_reasoning:
                yield from self._piece(event, event.reasoning_id, event.delta, Tone.QUIET)
            case ToolCallStartEvent() | ToolCallArgsDeltaEvent() | ToolCallEndEvent() | ToolCallResultEvent():
                yield from self._call(event)
            case _:
                yield from self._fact(event)

    def _piece(self, event: AgentEvent, message_id: str, delta: str, tone: Tone) -> Iterator[Told]:
        if message_id != self._message:
            self._message = message_id
            yield self._line(event) if self._is_child(event) else ()
        yield Span(cleaned(delta), tone)

    def _call(
        self, event: ToolCallStartEvent | ToolCallArgsDeltaEvent | ToolCallEndEvent | ToolCallResultEvent
    ) -> Iterator[Told]:
        call = (event.attribution.run_id, event.call_id)  # each run counts its own calls
        match event:
            case ToolCallStartEvent():
                self._names[call] = event.tool_name
                self._arguments[call] = []
            case ToolCallArgsDeltaEvent():
                self._arguments.setdefault(call, []).append(event.args_delta)
            case ToolCallEndEvent():
                words = _arguments("".join(self._arguments.pop(call, [])))
                name = Span(one_line(self._names.get(call, "a tool")), Tone.NAME)
                yield self._line(event, Span("● ", Tone.NAME), name, Span(f"({words})", Tone.QUIET))
            case ToolCallResultEvent():
                known = self._names.pop(call, None)
                if known is None:  # it was asked for before this reader came
                    yield self._line(event, Span("● ", Tone.NAME), Span(one_line(event.tool_name), Tone.NAME))
                yield self._line(event, Span(f"  └ {_json(event.result)}", Tone.QUIET))

    def _fact(self, event: AgentEvent) -> Iterator[Told]:
        match event:
            case StepStartedEvent() if ITEM_FIELDS in event.metadata:
                yield self._line(event, Span(f"· {one_line(event.step_name)}", Tone.QUIET))
            case ArtifactEvent():
                name = one_line(event.name or event.artifact_id)
                yield self._line(event, Span(f"· {name}: {_json(event.content)}", Tone.QUIET))
            case RunStartedEvent() if self._is_child(event):
                yield self._line(event, Span("begins", Tone.QUIET))
            case RunPausedEvent() if self._is_child(event):
                yield self._line(event, Span("waits", Tone.ASKING))
            case _:
                return

    def _line(self, event: AgentEvent, *spans: Span) -> Line:
        """A line; what a child does stands in behind its name."""
        self._message = self._message if isinstance(event, MessageDeltaEvent) else None
        child = Span(f"  [{one_line(event.attribution.agent_id)}] ", Tone.STRONG)
        return line(*((child,) if self._is_child(event) else ()), *spans)

    def _is_child(self, event: AgentEvent) -> bool:
        return event.attribution.run_id != self._run_id


def _arguments(text: str) -> str:
    """The arguments of a call as a person writes them; what is no object stays as it came."""
    try:
        read: JsonValue = json.loads(text or "{}")
    except ValueError:
        return one_line(text)
    return one_line(call_arguments(read)) if isinstance(read, Mapping) else one_line(text)


def _json(value: JsonValue) -> str:
    return one_line(value if isinstance(value, str) else json.dumps(value, ensure_ascii=False))

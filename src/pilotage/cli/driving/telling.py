"""Tell what a run does and came to: to a person at a terminal, through a pipe, or to a program."""

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
from pilotage.agent.run_values import RunResult
from pilotage.agent.state import AgentStatus
from pilotage.cli.screen import Screen
from pilotage.cli.views.json_forms import event_json, result_json
from pilotage.cli.views.question import open_questions, question_json
from pilotage.cli.views.run_page import call_arguments, ending_lines, output_text
from pilotage.cli.words import Hints, Line, TextSpan, Tone, cleaned, line, one_line
from pilotage.jsonvalue import JsonValue, to_json_value
from pilotage.runtime.answers import Question
from pilotage.runtime.events.projections import ITEM_FIELDS

Told: TypeAlias = TextSpan | Line
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
        yield TextSpan(cleaned(delta), tone)

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
                name = TextSpan(one_line(self._names.get(call, "a tool")), Tone.NAME)
                yield self._line(event, TextSpan("● ", Tone.NAME), name, TextSpan(f"({words})", Tone.QUIET))
            case ToolCallResultEvent():
                known = self._names.pop(call, None)
                if known is None:  # it was asked for before this reader came
                    yield self._line(
                        event, TextSpan("● ", Tone.NAME), TextSpan(one_line(event.tool_name), Tone.NAME)
                    )
                yield self._line(event, TextSpan(f"  └ {_json(event.result)}", Tone.QUIET))

    def _fact(self, event: AgentEvent) -> Iterator[Told]:
        match event:
            case StepStartedEvent() if ITEM_FIELDS in event.metadata:
                yield self._line(event, TextSpan(f"· {one_line(event.step_name)}", Tone.QUIET))
            case ArtifactEvent():
                name = one_line(event.name or event.artifact_id)
                yield self._line(event, TextSpan(f"· {name}: {_json(event.content)}", Tone.QUIET))
            case RunStartedEvent() if self._is_child(event):
                yield self._line(event, TextSpan("begins", Tone.QUIET))
            case RunPausedEvent() if self._is_child(event):
                yield self._line(event, TextSpan("waits", Tone.ASKING))
            case _:
                return

    def _line(self, event: AgentEvent, *spans: TextSpan) -> Line:
        """A line; what a child does stands in behind its name."""
        self._message = self._message if isinstance(event, MessageDeltaEvent) else None
        child = TextSpan(f"  [{one_line(event.attribution.agent_id)}] ", Tone.STRONG)
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


class Telling:
    """Tells one run. Text is streamed to terminals, or where `streams` says so; a pipe gets the answer, once."""

    def __init__(
        self,
        screen: Screen,
        hints: Hints,
        run_id: str,
        *,
        as_json: bool = False,
        reasoning: bool = False,
        streams: bool | None = None,
    ) -> None:
        self._screen = screen
        self._hints = hints
        self._run_id = run_id
        self._as_json = as_json
        self._streams = screen.is_terminal if streams is None else streams
        self._narrator = Narrator(run_id, tells_reasoning=reasoning)
        self._message: tuple[str, str] = ("", "")

    def tell(self, event: AgentEvent, cursor: str | None) -> None:
        """Tell an event."""
        if self._as_json:
            self._screen.say_json(event_json(event, cursor))
            return
        if isinstance(event, MessageDeltaEvent):
            if not self._streams:
                return
            if event.attribution.run_id == self._run_id:
                same, said = self._message
                said = said + event.delta if same == event.message_id else event.delta
                self._message = (event.message_id, said)
        for each in self._narrator.told(event):
            if isinstance(each, TextSpan):
                self._screen.stream(each)
            elif each:
                self._screen.tell(each)
            else:
                self._screen.end_line()

    def cancelling(self) -> None:
        """Say that Ctrl-C was heard."""
        if not self._as_json:
            self._screen.tell(line(TextSpan("cancelling; Ctrl-C again leaves at once", Tone.ASKING)))

    def end(
        self, result: RunResult | None, questions: tuple[Question, ...] = (), *, is_kept: bool = True
    ) -> None:
        """Tell what became of the run, and what to do where it waits."""
        if self._as_json:
            self._screen.say_json(_ending_json(result, questions))
            return
        if result is None:
            self._screen.tell(line(TextSpan("cancelled", Tone.ASKING), ": nothing of the run was kept"))
            return
        if result.state.status is AgentStatus.COMPLETED:
            self._say_output(result.output)
        if questions:
            self._screen.tell(*open_questions(questions, self._hints))
        is_asked = bool(questions)
        self._screen.tell(*ending_lines(result, self._hints, is_kept=is_kept, is_asked=is_asked))

    def _say_output(self, output: object) -> None:
        """The answer, unless it was the last thing that was streamed to this terminal."""
        text = output_text(to_json_value(output))
        if output is None or (self._streams and text.strip() == cleaned(self._message[1]).strip()):
            return
        self._screen.say(*(line(each) for each in text.splitlines()))


def _ending_json(result: RunResult | None, questions: tuple[Question, ...]) -> object:
    asked = [question_json(each) for each in questions]
    if result is None:
        return {"kind": "result", "run": None, "questions": asked}
    return {"kind": "result", **result_json(result), "questions": asked}

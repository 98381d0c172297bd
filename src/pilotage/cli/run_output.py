"""The events and the result of a run as output: on a terminal, through a pipe, or as JSON."""

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
from pilotage.cli.json_view import event_json, view_json
from pilotage.cli.question_view import open_questions
from pilotage.cli.run_view import ending_lines, output_text, spent_words
from pilotage.cli.screen import Screen
from pilotage.cli.spinner import Spinner
from pilotage.cli.text import Hints, Line, TextSpan, Tone, cleaned, line, one_line
from pilotage.cli.timeline import call_arguments
from pilotage.inbound.questions import QuestionView
from pilotage.inbound.views import ResultView
from pilotage.jsonvalue import JsonValue, to_json_value
from pilotage.runtime.events.projections import ITEM_FIELDS
from pilotage.runtime.open_questions import Question

Output: TypeAlias = TextSpan | Line
"""Text that continues the current line, or a line of its own."""


class EventFormatter:
    """Formats the events of one run and its child runs; remembers calls that are under way, and the open message."""

    def __init__(self, run_id: str, *, has_reasoning: bool = False) -> None:
        self._run_id = run_id
        self._has_reasoning = has_reasoning
        self._arguments: dict[tuple[str, str], list[str]] = {}
        self._names: dict[tuple[str, str], str] = {}
        self._message: str | None = None

    @property
    def calls(self) -> list[str]:
        """The names of the tools that are called and have no result yet."""
        return [name for call, name in self._names.items() if call not in self._arguments]

    def format(self, event: AgentEvent) -> Iterator[Output]:
        """Return the output of an event; many have none."""
        match event:
            case MessageDeltaEvent():
                yield from self._piece(event, event.message_id, event.delta, Tone.PLAIN)
            case ReasoningDeltaEvent() if self._has_reasoning:
                yield from self._piece(event, event.reasoning_id, event.delta, Tone.QUIET)
            case ToolCallStartEvent() | ToolCallArgsDeltaEvent() | ToolCallEndEvent() | ToolCallResultEvent():
                yield from self._call(event)
            case _:
                yield from self._fact(event)

    def _piece(self, event: AgentEvent, message_id: str, delta: str, tone: Tone) -> Iterator[Output]:
        if message_id != self._message:
            self._message = message_id
            yield self._line(event) if self._is_child(event) else ()
        yield TextSpan(cleaned(delta), tone)

    def _call(
        self, event: ToolCallStartEvent | ToolCallArgsDeltaEvent | ToolCallEndEvent | ToolCallResultEvent
    ) -> Iterator[Output]:
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
                if known is None:  # the call was made before this reader subscribed
                    yield self._line(
                        event, TextSpan("● ", Tone.NAME), TextSpan(one_line(event.tool_name), Tone.NAME)
                    )
                yield self._line(event, TextSpan(f"  └ {_json(event.result)}", Tone.QUIET))

    def _fact(self, event: AgentEvent) -> Iterator[Output]:
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
        """Return a line; lines of a child run begin with its agent."""
        self._message = self._message if isinstance(event, MessageDeltaEvent) else None
        child = TextSpan(f"  [{one_line(event.attribution.agent_id)}] ", Tone.STRONG)
        return line(*((child,) if self._is_child(event) else ()), *spans)

    def _is_child(self, event: AgentEvent) -> bool:
        return event.attribution.run_id != self._run_id


def _arguments(text: str) -> str:
    """Return the arguments of a call; a text that is no object is returned as it is."""
    try:
        read: JsonValue = json.loads(text or "{}")
    except ValueError:
        return one_line(text)
    return one_line(call_arguments(read)) if isinstance(read, Mapping) else one_line(text)


def _json(value: JsonValue) -> str:
    return one_line(value if isinstance(value, str) else json.dumps(value, ensure_ascii=False))


class RunOutput:
    """Writes the events and the result of one run. Text is streamed to terminals, or where `streams` says so.

    `waits_for` names what a run waits for while no tool is called. A `brief` ending has no command to look into the
    run.
    """

    def __init__(
        self,
        screen: Screen,
        hints: Hints,
        run_id: str,
        *,
        as_json: bool = False,
        reasoning: bool = False,
        streams: bool | None = None,
        waits_for: str = "working",
        brief: bool = False,
    ) -> None:
        self.spinner = Spinner(screen)
        self.spinner.wait_for("" if as_json else waits_for)
        self._waits_for = waits_for
        self._screen = screen
        self._hints = hints
        self._run_id = run_id
        self._as_json = as_json
        self._is_brief = brief
        self._streams = screen.is_terminal if streams is None else streams
        self._formatter = EventFormatter(run_id, has_reasoning=reasoning)
        self._message: tuple[str, str] = ("", "")

    def write(self, event: AgentEvent, cursor: str | None) -> None:
        """Write an event."""
        if self._as_json:
            self._screen.print_json(event_json(event, cursor))
            return
        if isinstance(event, MessageDeltaEvent):
            if not self._streams:
                return
            if event.attribution.run_id == self._run_id:
                last_id, text = self._message
                text = text + event.delta if last_id == event.message_id else event.delta
                self._message = (event.message_id, text)
        for each in self._formatter.format(event):
            if isinstance(each, TextSpan):
                self._screen.stream(each)
            elif each:
                self._screen.message(each)
            else:
                self._screen.end_line()
        calls = self._formatter.calls
        self.spinner.wait_for(", ".join(map(one_line, calls)) if calls else self._waits_for)

    def write_cancelling(self) -> None:
        """Confirm Ctrl-C."""
        self.spinner.wait_for("" if self._as_json else "cancelling")
        if not self._as_json:
            self._screen.message(line(TextSpan("cancelling; Ctrl-C again leaves at once", Tone.ASKING)))

    def end(
        self, result: RunResult | None, questions: tuple[Question, ...] = (), *, is_durable: bool = True
    ) -> None:
        """Write the result of the run, or what to do if it waits; None is a cancelled ephemeral run."""
        if self._as_json:
            self._screen.print_json(_ending_json(result, questions))
            return
        if result is None:
            self._screen.message(line(TextSpan("cancelled", Tone.ASKING), ": the run was ephemeral"))
            return
        is_completed = result.state.status is AgentStatus.COMPLETED
        if is_completed:
            self._write_output(result.output)
        if questions:
            self._screen.message(*open_questions(questions, self._hints))
        if is_completed and self._is_brief:
            self._screen.message(line(TextSpan(f"✓ {spent_words(result)}".rstrip(), Tone.QUIET)))
            return
        is_asked = bool(questions)
        self._screen.message(*ending_lines(result, self._hints, is_durable=is_durable, is_asked=is_asked))

    def _write_output(self, output: object) -> None:
        """Write the output, unless it was the last message that was streamed to this terminal."""
        text = output_text(to_json_value(output))
        if output is None or (self._streams and text.strip() == cleaned(self._message[1]).strip()):
            return
        self._screen.print_text(text)


def _ending_json(result: RunResult | None, questions: tuple[Question, ...]) -> object:
    asked = [view_json(QuestionView.of(each)) for each in questions]
    if result is None:
        return {"kind": "result", "run": None, "questions": asked}
    return {"kind": "result", **view_json(ResultView.of(result)), "questions": asked}

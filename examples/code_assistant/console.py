"""A run as lines for a terminal: what the model says as it says it, each call, each result, each question."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Mapping
from typing import TextIO, cast

from pilotage import AgentEvent, MessageDeltaEvent, RunPausedEvent
from pilotage.agent import RunFinishedEvent, ToolCallResultEvent, ToolCallStartEvent
from pilotage.agent.events import RunStartedEvent, ToolCallArgsDeltaEvent
from pilotage.jsonvalue import JsonValue, canonical_json

_MOST_LINES = 6
_WIDTH = 96
_COLOURS = {"bold": "1", "dim": "2", "red": "31", "green": "32", "yellow": "33", "blue": "34", "cyan": "36"}


class Console:
    """Writes lines; in colour where somebody sees it, or where FORCE_COLOR asks for it."""

    def __init__(self, out: TextIO = sys.stdout) -> None:
        self._out = out
        wanted = out.isatty() or bool(os.environ.get("FORCE_COLOR"))
        self._is_coloured = wanted and not os.environ.get("NO_COLOR")

    def styled(self, text: str, *styles: str) -> str:
        """The text in these colours."""
        if not self._is_coloured or not text or not styles:
            return text
        codes = ";".join(_COLOURS[style] for style in styles)
        return f"\x1b[{codes}m{text}\x1b[0m"

    def line(self, text: str = "", *styles: str) -> None:
        """Write a line."""
        self.piece(f"{self.styled(text, *styles)}\n")

    def piece(self, text: str) -> None:
        """Write a part of a line at once."""
        self._out.write(text)
        self._out.flush()


class RunView:
    """Shows the events of a run as they come."""

    def __init__(self, console: Console, indent: str = "  ") -> None:
        self._console = console
        self._indent = indent
        self._calls: dict[str, tuple[str, str]] = {}
        self._is_speaking = False

    def show(self, event: AgentEvent) -> None:
        """Show one event."""
        match event:
            case MessageDeltaEvent(delta=delta):
                self._speak(delta)
            case ToolCallStartEvent(call_id=call_id, tool_name=name):
                self._calls[call_id] = (name, "")
            case ToolCallArgsDeltaEvent(call_id=call_id, args_delta=delta):
                name, arguments = self._calls.get(call_id, ("", ""))
                self._calls[call_id] = (name, arguments + delta)
            case ToolCallResultEvent(call_id=call_id, tool_name=name, result=result):
                _, arguments = self._calls.pop(call_id, (name, ""))
                self._called(name, arguments, result)
            case RunStartedEvent(attribution=who) if who.parent_run_id:
                self._say(f"{who.agent_id} begins", "blue")
            case RunFinishedEvent(attribution=who) if who.parent_run_id:
                self._say(f"{who.agent_id} is done", "blue")
            case RunPausedEvent() | RunFinishedEvent():
                self._end_of_speech()
            case _:
                pass

    def _called(self, name: str, arguments: str, result: JsonValue) -> None:
        self._end_of_speech()
        title = self._console.styled(name, "bold", "cyan")
        self._console.line(f"{self._indent}{title} {_as_spelled(arguments)}".rstrip())
        for line in _lines(result):
            self._say(f"  {line}", "dim")

    def _say(self, text: str, *styles: str) -> None:
        self._end_of_speech()
        self._console.line(f"{self._indent}{text}".rstrip(), *styles)

    def _speak(self, delta: str) -> None:
        text = delta.replace("\n", f"\n{self._indent}")
        self._console.piece(text if self._is_speaking else f"{self._indent}{text}")
        self._is_speaking = True

    def _end_of_speech(self) -> None:
        if self._is_speaking:
            self._console.line()
        self._is_speaking = False


def spelled(arguments: Mapping[str, JsonValue]) -> str:
    """Arguments in one line: `path=a.txt content=...`."""
    return _shortened(" ".join(f"{name}={_text(each)}" for name, each in arguments.items()))


def _as_spelled(arguments: str) -> str:
    """Arguments as a model wrote them; what is no JSON is shown as it is."""
    try:
        found: object = json.loads(arguments or "{}")
    except ValueError:
        return _shortened(arguments)
    return (
        spelled(cast("Mapping[str, JsonValue]", found)) if isinstance(found, dict) else _shortened(arguments)
    )


def _lines(result: JsonValue) -> list[str]:
    """The first lines of a result, and how many there are besides."""
    match result:
        case list() | tuple():
            lines = [_text(each) for each in result]
        case Mapping():
            fields = cast("Mapping[str, JsonValue]", result)
            lines = [f"{name}: {_text(each)}" for name, each in fields.items()]
        case _:
            lines = _text(result).splitlines()
    more = len(lines) - _MOST_LINES
    shown = [_shortened(line) for line in lines[:_MOST_LINES]]
    return [*shown, f"... {more} more lines"] if more > 0 else shown or ["(nothing)"]


def _text(value: JsonValue) -> str:
    return value if isinstance(value, str) else canonical_json(value)


def _shortened(text: str) -> str:
    line = " ".join(text.split())
    return line if len(line) <= _WIDTH else f"{line[: _WIDTH - 3]}..."

"""A run as lines for a terminal: streamed text, calls, results, questions."""

from __future__ import annotations

import json
import os
import shutil
import sys
import textwrap
from collections.abc import Mapping
from typing import TextIO, cast

from pilotage import AgentEvent, MessageDeltaEvent, RunPausedEvent
from pilotage.agent import (
    AgentApprovalRequest,
    AgentRecoveryRequest,
    RunFinishedEvent,
    ToolCallResultEvent,
    ToolCallStartEvent,
)
from pilotage.agent.events import RunStartedEvent, ToolCallArgsDeltaEvent
from pilotage.jsonvalue import JsonValue, canonical_json

COLUMNS = "ASSISTANT_COLUMNS"
"""The environment variable with the width of a console that is no terminal."""
_MOST_LINES = 6
_WIDEST = 100
_LONGEST = 120
_COLOURS = {"bold": "1", "dim": "2", "red": "31", "green": "32", "yellow": "33", "blue": "34", "cyan": "36"}


class Console:
    """Writes lines, wrapped at words; in colour on a terminal, or if FORCE_COLOR is set."""

    def __init__(self, out: TextIO = sys.stdout) -> None:
        self._out = out
        wanted = out.isatty() or bool(os.environ.get("FORCE_COLOR"))
        self._is_coloured = wanted and not os.environ.get("NO_COLOR")
        columns = shutil.get_terminal_size().columns if out.isatty() else int(os.environ.get(COLUMNS, "80"))
        self.width = min(columns, _WIDEST)

    def styled(self, text: str, *styles: str) -> str:
        """Return the text in these colours."""
        if not self._is_coloured or not text or not styles:
            return text
        codes = ";".join(_COLOURS[style] for style in styles)
        return f"\x1b[{codes}m{text}\x1b[0m"

    def line(self, text: str = "", *styles: str) -> None:
        """Write a line; a long one is continued on lines that are indented further."""
        indent = " " * (len(text) - len(text.lstrip()) + 4)
        for each in textwrap.wrap(
            text,
            self.width,
            subsequent_indent=indent,
            drop_whitespace=True,
            break_long_words=False,
            break_on_hyphens=False,
            replace_whitespace=False,
        ) or [""]:
            self.piece(f"{self.styled(each, *styles)}\n")

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
        self._asked: set[str] = set()
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

    def ask(self, question: AgentApprovalRequest | AgentRecoveryRequest) -> None:
        """Show a question; the call that it is about is not shown again with its result."""
        self._end_of_speech()
        self._asked.add(str(question.metadata.get("tool_name")))
        self._say(f"? {question.prompt} {spelled(question.arguments)}", "yellow")

    def _called(self, name: str, arguments: str, result: JsonValue) -> None:
        self._end_of_speech()
        if name not in self._asked:
            self._say(f"{name} {_as_spelled(arguments)}", "cyan")
        self._asked.discard(name)
        room = self._console.width - len(self._indent) - 2
        for line in _lines(result, room):
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
    """Return arguments in one line: `path=a.txt content=...`."""
    return _shortened(" ".join(f"{name}={_text(each)}" for name, each in arguments.items()), _LONGEST)


def _as_spelled(arguments: str) -> str:
    """Return arguments as a model wrote them; a text that is no JSON is returned as it is."""
    try:
        found: object = json.loads(arguments or "{}")
    except ValueError:
        return _shortened(arguments, _LONGEST)
    return (
        spelled(cast("Mapping[str, JsonValue]", found))
        if isinstance(found, dict)
        else _shortened(arguments, _LONGEST)
    )


def _lines(result: JsonValue, room: int) -> list[str]:
    """Return the first lines of a result, and how many more there are."""
    match result:
        case list() | tuple():
            lines = [_text(each) for each in result]
        case Mapping():
            fields = cast("Mapping[str, JsonValue]", result)
            lines = [f"{name}: {_text(each)}" for name, each in fields.items()]
        case _:
            lines = _text(result).splitlines()
    more = len(lines) - _MOST_LINES
    shown = [_shortened(line, room) for line in lines[:_MOST_LINES]]
    return [*shown, f"... {more} more lines"] if more > 0 else shown or ["(nothing)"]


def _text(value: JsonValue) -> str:
    return value if isinstance(value, str) else canonical_json(value)


def _shortened(text: str, room: int) -> str:
    line = " ".join(text.split())
    return line if len(line) <= room else f"{line[: room - 3]}..."

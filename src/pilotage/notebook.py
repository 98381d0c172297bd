"""Shows a run in the cell of a notebook while it is under way. Does nothing outside of an IPython kernel.

IPython is no dependency: a program that runs in a kernel has it already.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from importlib import import_module
from time import monotonic
from typing import Any

from pilotage.agent.events import AgentEvent, MessageDeltaEvent, ToolCallStartEvent
from pilotage.markdown import code, fenced

_SECONDS_BETWEEN = 0.1
"""Each update sends the whole text: a stream of many pieces must not send it with each of them."""


class CellView:
    """The text and the tool calls of a run so far, in one output of a cell, which is empty when the run is over."""

    def __init__(self, show: Callable[[str], None], clock: Callable[[], float] = monotonic) -> None:
        self._show = show
        self._clock = clock
        self._next = 0.0
        self._tools: list[str] = []
        self._texts: dict[str, str] = {}

    def add(self, event: AgentEvent) -> None:
        """Show an event of the run."""
        match event:
            case MessageDeltaEvent(message_id=message, delta=delta):
                self._texts[message] = self._texts.get(message, "") + delta
            case ToolCallStartEvent(tool_name=tool):
                self._tools.append(code(tool))
            case _:
                return
        if self._clock() < self._next:
            return
        self._next = self._clock() + _SECONDS_BETWEEN
        tools = [f"calls {', '.join(self._tools)}"] if self._tools else []
        self._show("\n\n".join([*tools, *map(fenced, list(self._texts.values())[-1:])]))

    def close(self) -> None:
        """Clear the output; the cell shows the result itself."""
        self._show("")


def cell_view() -> CellView | None:
    """Return a view in the current cell, or None where no IPython kernel runs the program."""
    ipython: Any = sys.modules.get("IPython")
    if ipython is None or getattr(ipython.get_ipython(), "kernel", None) is None:
        return None
    display: Any = import_module("IPython.display")
    output: Any = display.display(_bundle(""), raw=True, display_id=True)

    def show(text: str) -> None:
        output.update(_bundle(text), raw=True)

    return CellView(show)


def _bundle(text: str) -> dict[str, str]:
    return {"text/markdown": text, "text/plain": text}

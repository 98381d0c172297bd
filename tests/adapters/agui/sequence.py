"""What AG-UI wants of a sequence of events, written down by us: who breaks it is told where."""

from __future__ import annotations

import json
from collections.abc import Iterable
from typing import Any

_BEGINS = {
    "TEXT_MESSAGE_START": ("text", "messageId"),
    "REASONING_START": ("reasoning", "messageId"),
    "REASONING_MESSAGE_START": ("thought", "messageId"),
    "TOOL_CALL_START": ("call", "toolCallId"),
    "STEP_STARTED": ("step", "stepName"),
    "SUBAGENT_STARTED": ("sub-agent", "subagentRunId"),
}
_GOES_ON = {
    "TEXT_MESSAGE_CONTENT": ("text", "messageId"),
    "REASONING_MESSAGE_CONTENT": ("thought", "messageId"),
    "TOOL_CALL_ARGS": ("call", "toolCallId"),
}
_ENDS = {
    "TEXT_MESSAGE_END": ("text", "messageId"),
    "REASONING_END": ("reasoning", "messageId"),
    "REASONING_MESSAGE_END": ("thought", "messageId"),
    "TOOL_CALL_END": ("call", "toolCallId"),
    "STEP_FINISHED": ("step", "stepName"),
    "SUBAGENT_FINISHED": ("sub-agent", "subagentRunId"),
    "SUBAGENT_ERROR": ("sub-agent", "subagentRunId"),
}


class _Checked:
    """What the official client does not notice: other ids, results and sub-agents of nobody, arguments that are no JSON."""

    def __init__(self, thread_id: str | None, calls: set[str] | None) -> None:
        self.ids = {"threadId": thread_id, "runId": None}
        self.calls = calls
        self.agents: set[str] = set()
        self.arguments: dict[str, str] = {}

    def fault(self, frame: dict[str, Any]) -> str | None:
        kind, by = frame["type"], frame.get("subagentRunId")
        for name in self.ids.keys() & frame.keys():
            self.ids[name] = self.ids[name] or frame[name]
            if frame[name] != self.ids[name]:
                return f"{name} is {frame[name]!r}, not {self.ids[name]!r}"
        if kind == "SUBAGENT_STARTED":
            self.agents.add(str(by))
        elif by is not None and by not in self.agents:
            return f"nobody knows the sub-agent {by!r}"
        return self._fault_of_call(kind, str(frame.get("toolCallId")), frame)

    def _fault_of_call(self, kind: str, call_id: str, frame: dict[str, Any]) -> str | None:
        if kind == "TOOL_CALL_START":
            self.arguments[call_id] = ""
            if self.calls is not None:
                self.calls.add(call_id)
        elif kind == "TOOL_CALL_ARGS" and call_id in self.arguments:
            self.arguments[call_id] += frame["delta"]
        elif (
            kind == "TOOL_CALL_END"
            and self.calls is not None
            and not _is_json(self.arguments.get(call_id) or "{}")
        ):
            return f"the arguments of {call_id!r} are no JSON"
        elif kind == "TOOL_CALL_RESULT" and self.calls is not None and call_id not in self.calls:
            return f"a result of a call that nobody made: {call_id!r}"
        return None


def _is_json(text: str) -> bool:
    try:
        json.loads(text)
    except ValueError:
        return False
    return True


def fault_in(
    frames: Iterable[dict[str, Any]], *, thread_id: str | None = None, calls: set[str] | None = None
) -> str | None:
    """The first thing that is wrong with a whole stream; None where nothing is.

    `calls` are those of earlier streams of the thread, and gets those of this one. Without it results may be of any
    call, and a call may break off.
    """
    checked = _Checked(thread_id, calls)
    course = _Course()
    for position, frame in enumerate(frames):
        fault = course.fault(frame) or checked.fault(frame)
        if fault is not None:
            return f"{position} {frame['type']}: {fault}"
    return None if course.end is not None else "the stream has no end"


class _Course:
    """One start, one end, and everything that is open closed before it."""

    def __init__(self) -> None:
        self.end: str | None = None
        self._has_begun = False
        self._open: set[tuple[str, str | None, str]] = set()

    def fault(self, frame: dict[str, Any]) -> str | None:
        kind = frame["type"]
        if self.end is not None:
            return f"after {self.end}"
        if kind == "RUN_STARTED":
            fault = "not the first" if self._has_begun else None
            self._has_begun = True
            return fault
        if kind == "RUN_ERROR":
            self.end = kind
            return None
        if not self._has_begun:
            return "before the run has begun"
        if kind == "RUN_FINISHED":
            self.end = kind
            return f"while these are open: {sorted(map(str, self._open))}" if self._open else None
        return _tracked(self._open, frame)


def _tracked(open_frames: set[tuple[str, str | None, str]], frame: dict[str, Any]) -> str | None:
    for table, must_be_open in ((_BEGINS, False), (_GOES_ON, True), (_ENDS, True)):
        if frame["type"] not in table:
            continue
        what, name = table[frame["type"]]
        if name not in frame:
            return f"it has no {name}"
        by = None if what == "sub-agent" else frame.get("subagentRunId")
        key = (what, by, frame[name])
        if (key in open_frames) is not must_be_open:
            return f"{key} is {'not open' if must_be_open else 'open already'}"
        if table is _BEGINS:
            open_frames.add(key)
        elif table is _ENDS:
            open_frames.discard(key)
    return None

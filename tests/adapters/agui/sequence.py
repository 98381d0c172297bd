"""What AG-UI wants of a sequence of events, written down by us: who breaks it is told where."""

from __future__ import annotations

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


def fault_in(frames: Iterable[dict[str, Any]]) -> str | None:
    """The first thing that is wrong with a whole stream; None where nothing is."""
    open_frames: set[tuple[str, str | None, str]] = set()
    has_begun, end = False, None
    for position, frame in enumerate(frames):
        kind = frame["type"]
        where = f"{position} {kind}"
        if end is not None:
            return f"{where} after {end}"
        if kind == "RUN_STARTED":
            if position:
                return f"{where}: not the first"
            has_begun = True
        elif kind == "RUN_ERROR":
            end = kind
        elif not has_begun:
            return f"{where} before the run has begun"
        elif kind == "RUN_FINISHED":
            end = kind
            if open_frames:
                return f"{where} while these are open: {sorted(map(str, open_frames))}"
        elif (fault := _tracked(open_frames, frame)) is not None:
            return f"{where}: {fault}"
    return None if end is not None else "the stream has no end"


def _tracked(open_frames: set[tuple[str, str | None, str]], frame: dict[str, Any]) -> str | None:
    for table, must_be_open in ((_BEGINS, False), (_GOES_ON, True), (_ENDS, True)):
        if frame["type"] not in table:
            continue
        what, name = table[frame["type"]]
        by = None if what == "sub-agent" else frame.get("subagentRunId")
        key = (what, by, frame[name])
        if (key in open_frames) is not must_be_open:
            return f"{key} is {'not open' if must_be_open else 'open already'}"
        if table is _BEGINS:
            open_frames.add(key)
        elif table is _ENDS:
            open_frames.discard(key)
    return None

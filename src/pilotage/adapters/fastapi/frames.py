"""Frames: events and values as server-sent events, and as messages of a WebSocket. Pure."""

from __future__ import annotations

import json
from collections.abc import Sequence
from functools import cached_property
from typing import cast

from pilotage.adapters.asgi.problems import ProblemView, json_text
from pilotage.adapters.asgi.streaming_response import EVENT_STREAM, StreamFormat
from pilotage.agent.events import AgentEvent, AgentEventKind
from pilotage.agent.yields import AgentYield, AgentYieldJsonEncoder
from pilotage.jsonvalue import to_json_value
from pilotage.values import value

SOCKET_HEARTBEAT = '{"event":"heartbeat"}'
_RETRY_MILLISECONDS = 1_000


@value(slots=False)
class Frame:
    """One frame: its event name, its JSON text, and the cursor after it, if there is one."""

    event: str | None
    data: str
    id: str | None = None

    @cached_property
    def sse(self) -> str:
        """As a frame of a server-sent stream."""
        retry = f"retry: {_RETRY_MILLISECONDS}\n" if self is RECONNECT_FRAME else ""
        named = f"id: {self.id}\n" if self.id is not None else ""
        called = f"event: {self.event}\n" if self.event is not None else ""
        return f"{named}{retry}{called}data: {self.data}\n\n"

    @cached_property
    def message(self) -> str:
        """As one message over a WebSocket: an object with `event`, `id` and `data`."""
        named = f'"id":"{self.id}",' if self.id is not None else ""
        called = f'"event":"{self.event}",' if self.event is not None else ""
        return f'{{{called}{named}"data":{self.data}}}'


RECONNECT_FRAME = Frame(
    "reconnect", '{"detail":"The stream ends here and the run goes on. Come back with the last id."}'
)
"""The last frame of a stream that ends before its run does."""


def event_frame(event: AgentEvent, cursor: str) -> Frame:
    """Return an event with the cursor after it."""
    return Frame(event.kind.value, text_of(event), cursor)


def problem_frame(problem: ProblemView) -> Frame:
    """Return why a stream ends early. It has no id: a client that reconnects continues after the last event."""
    return Frame("problem", json_text(problem).decode())


def item_frame(item: object) -> Frame:
    """Return an item of an agent's stream, an event of a run, or any value that has a JSON form."""
    if isinstance(item, AgentYield):
        said = cast("AgentYield[object]", item)
        return Frame(said.kind.value, text_of(AgentYieldJsonEncoder.encode(said)))
    kind: object = getattr(item, "kind", None)
    return Frame(kind.value if isinstance(kind, AgentEventKind) else None, text_of(item))


def text_of(item: object) -> str:
    """Return JSON on one line, all of it ASCII: lone surrogates have no other form on the wire."""
    return json.dumps(to_json_value(item), separators=(",", ":"), allow_nan=False)


def sse_of(frames: Sequence[Frame]) -> bytes:
    """Return frames as a piece of a server-sent stream."""
    return "".join([frame.sse for frame in frames]).encode()


SSE_FORMAT: StreamFormat[Sequence[Frame]] = StreamFormat(
    EVENT_STREAM,
    encode=sse_of,
    problem=lambda problem: sse_of([problem_frame(problem)]),
    reconnect=sse_of([RECONNECT_FRAME]),
)
"""Frames that go out together, as server-sent events."""

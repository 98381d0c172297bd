"""What is told, as frames: of a server-sent stream, and as messages over a WebSocket. Pure."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import cast

from pilotage.adapters.fastapi.answers import json_text
from pilotage.adapters.fastapi.problems import ProblemView
from pilotage.agent.events import AgentEvent, AgentEventKind
from pilotage.agent.yields import AgentYield, AgentYieldJsonEncoder
from pilotage.jsonvalue import to_json_value
from pilotage.values import value

HEARTBEAT = b":\n\n"
SOCKET_HEARTBEAT = '{"event":"heartbeat"}'
_RETRY_MILLISECONDS = 1_000


@value
class Frame:
    """Something that is told: what it is called, its JSON text, and the cursor behind it, if there is one."""

    event: str | None
    data: str
    id: str | None = None


RECONNECT = Frame(
    "reconnect", '{"detail":"The stream ends here and the run goes on. Come back with the last id."}'
)
"""The last frame of a stream that ends before its run does."""


def event_frame(event: AgentEvent, cursor: str, data: str | None = None) -> Frame:
    """An event and the cursor behind it; `data` is its JSON text, where somebody has it already."""
    return Frame(event.kind.value, data or text_of(event), cursor)


def problem_frame(problem: ProblemView) -> Frame:
    """Why a stream ends early. It has no id: whoever comes back goes on behind the last event."""
    return Frame("problem", json_text(problem).decode())


def item_frame(item: object) -> Frame:
    """An item of an agent's stream, an event of a run, or any value that has a JSON form."""
    if isinstance(item, AgentYield):
        said = cast("AgentYield[object]", item)
        return Frame(said.kind.value, text_of(AgentYieldJsonEncoder.encode(said)))
    kind: object = getattr(item, "kind", None)
    return Frame(kind.value if isinstance(kind, AgentEventKind) else None, text_of(item))


def text_of(told: object) -> str:
    """JSON on one line, all of it ASCII: lone surrogates have no other form on the wire."""
    return json.dumps(to_json_value(told), separators=(",", ":"), allow_nan=False)


def sse_bytes(frames: Sequence[Frame]) -> bytes:
    """Frames of a server-sent stream, one behind the other."""
    return "".join(map(_sse, frames)).encode()


def _sse(frame: Frame) -> str:
    retry = f"retry: {_RETRY_MILLISECONDS}\n" if frame is RECONNECT else ""
    named = f"id: {frame.id}\n" if frame.id is not None else ""
    called = f"event: {frame.event}\n" if frame.event is not None else ""
    return f"{named}{retry}{called}data: {frame.data}\n\n"


def socket_text(frame: Frame) -> str:
    """A frame as one message over a WebSocket: an object with `event`, `id` and `data`."""
    named = f'"id":"{frame.id}",' if frame.id is not None else ""
    called = f'"event":"{frame.event}",' if frame.event is not None else ""
    return f'{{{called}{named}"data":{frame.data}}}'

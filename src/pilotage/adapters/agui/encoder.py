"""AG-UI events as text: SSE frames, and lines of JSON. Pure."""

from __future__ import annotations

import json
from typing import Protocol

from ag_ui.core import BaseEvent
from pydantic_core import PydanticSerializationError

SSE = "text/event-stream"
NDJSON = "application/x-ndjson"
CURSOR = "cursor"
"""The key in the metadata of an event that has the id of the frame, where the transport has no other place for it."""
_DATA = "data: "


class AgUiEncoder(Protocol):
    """Turns events into pieces of a stream; `cursor` is the id of the frame, if it has one."""

    content_type: str

    def encode(self, event: BaseEvent, cursor: str | None = None) -> str:
        """The text of one event."""
        ...


class SseEncoder:
    """Server-sent events; a cursor becomes the frame's `id`."""

    content_type = SSE

    def encode(self, event: BaseEvent, cursor: str | None = None) -> str:
        """One frame, which ends with an empty line."""
        line = f"id: {cursor}\n" if cursor else ""
        return f"{line}{_DATA}{json_of(event)}\n\n"


class NdjsonEncoder:
    """One JSON text a line; a cursor goes into the event's metadata."""

    content_type = NDJSON

    def encode(self, event: BaseEvent, cursor: str | None = None) -> str:
        """One line."""
        if cursor is not None:
            event = event.model_copy(update={"metadata": {**(event.metadata or {}), CURSOR: cursor}})
        return f"{json_of(event)}\n"


def encoder_for(accept: str | None) -> AgUiEncoder:
    """The encoder for what a client accepts: lines where it asks for them, else SSE."""
    return NdjsonEncoder() if NDJSON in (accept or "") else SseEncoder()


def line_of(frame: str) -> str:
    """A piece of a stream as one line of JSON, whichever encoder made it."""
    found = next((each for each in frame.split("\n") if each.startswith(_DATA)), frame)
    return f"{found.removeprefix(_DATA).strip()}\n"


def json_of(event: BaseEvent) -> str:
    """The JSON text of an event, on one line."""
    try:
        return event.model_dump_json(by_alias=True)
    except PydanticSerializationError:
        # Text of a model may hold half of a surrogate pair, which has no UTF-8: JSON can still hold it, escaped.
        return json.dumps(event.model_dump(by_alias=True), separators=(",", ":"))

"""Encoders of AG-UI events: server-sent events, and lines of JSON. Pure."""

from __future__ import annotations

import json
from typing import Protocol, runtime_checkable

from ag_ui.core import BaseEvent
from pydantic_core import PydanticSerializationError

SSE = "text/event-stream"
NDJSON = "application/x-ndjson"
CURSOR = "cursor"
"""The key in the metadata of an event that has the id of the frame, where the transport has no other place for it."""
_DATA = "data: "


@runtime_checkable
class AgUiEncoder(Protocol):
    """Turns events into pieces of a stream; `cursor` is the id of the frame, if it has one."""

    content_type: str

    def encode(self, event: BaseEvent, cursor: str | None = None) -> str:
        """Return the text of one event."""
        ...


class SseEncoder:
    """Server-sent events; a cursor becomes the frame's `id`."""

    content_type = SSE

    def encode(self, event: BaseEvent, cursor: str | None = None) -> str:
        """Return one frame, which ends with an empty line."""
        line = f"id: {cursor}\n" if cursor else ""
        return f"{line}{_DATA}{json_of(event)}\n\n"


class NdjsonEncoder:
    """One JSON text a line; a cursor goes into the event's metadata."""

    content_type = NDJSON

    def encode(self, event: BaseEvent, cursor: str | None = None) -> str:
        """Return one line."""
        if cursor is not None:
            event = event.model_copy(update={"metadata": {**(event.metadata or {}), CURSOR: cursor}})
        return f"{json_of(event)}\n"


def encoder_for(accept: str | None) -> AgUiEncoder:
    """Return the encoder for the `Accept` header of a client: lines if it asks for them, else SSE."""
    return NdjsonEncoder() if NDJSON in (accept or "") else SseEncoder()


def line_of(frame: str) -> str:
    """Return a piece of a stream as one line of JSON, whichever encoder made it."""
    found = next((each for each in frame.split("\n") if each.startswith(_DATA)), frame)
    return f"{found.removeprefix(_DATA).strip()}\n"


def json_of(event: BaseEvent) -> str:
    """Return the JSON text of an event, on one line."""
    try:
        return event.model_dump_json(by_alias=True)
    except PydanticSerializationError:
        # Text of a model may contain half of a surrogate pair, which has no UTF-8: JSON can escape it.
        return json.dumps(event.model_dump(by_alias=True), separators=(",", ":"))


class PlainEncoder(Protocol):
    """An encoder without cursors, as `ag_ui.encoder.EventEncoder` is."""

    def encode(self, event: BaseEvent) -> str:
        """Return the text of one event."""
        ...


class CursorEncoder:
    """Adds the ids of frames to the server-sent events of an encoder that knows none."""

    content_type = SSE

    def __init__(self, encoder: PlainEncoder) -> None:
        self._encoder = encoder

    def encode(self, event: BaseEvent, cursor: str | None = None) -> str:
        """Return one frame."""
        frame = self._encoder.encode(event)
        return f"id: {cursor}\n{frame}" if cursor and frame.startswith(_DATA) else frame


def with_cursors(encoder: AgUiEncoder | PlainEncoder) -> AgUiEncoder:
    """Return an encoder that takes cursors."""
    return encoder if isinstance(encoder, AgUiEncoder) else CursorEncoder(encoder)

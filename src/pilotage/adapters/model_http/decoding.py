"""Decoding of JSON and server-sent events, without I/O."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from functools import cache
from math import isfinite

from pilotage.adapters.model_http.errors import failed
from pilotage.agent.model_failure import ModelFailure
from pilotage.jsonvalue import JsonObject, JsonValue, object_or_empty
from pilotage.values import value

_BOM = b"\xef\xbb\xbf"
LONGEST_EVENT = 16 * 1024 * 1024


@cache
def json_decoder() -> Callable[..., JsonValue]:
    """Return the decoder: strict UTF-8, bounded depth; it raises ValueError for everything that is no JSON."""
    # Imported with the first reply, so that other applications do not wait for it.
    from pydantic_core import from_json  # noqa: PLC0415

    return from_json


def read_json(text: str | bytes, *, allow_inf_nan: bool = False, keeps_halves: bool = False) -> JsonValue:
    """Return the JSON in a text; raw control characters within its strings are read as they are.

    Half a character is replaced, unless the caller joins it with its other half.

    Raises:
        ValueError: it is no JSON.
    """
    try:
        return json_decoder()(text, allow_inf_nan=allow_inf_nan)
    except (ValueError, TypeError):
        # Half of a surrogate pair is a TypeError. The decoder of the standard library reads all of it, and is slower.
        decoded = text.decode() if isinstance(text, bytes) else text
    try:
        parsed: JsonValue = json.loads(
            decoded, strict=False, parse_constant=None if allow_inf_nan else _refuse_constant
        )
    except RecursionError as error:
        raise ValueError("it is nested too deeply") from error
    return parsed if keeps_halves else storable(parsed)


def storable(value: JsonValue) -> JsonValue:
    """Return a JSON value without what has no JSON text in UTF-8: halves of characters, NaN and infinite numbers."""
    if isinstance(value, str):
        return value if _HALF.search(value) is None else whole_characters(value)
    if isinstance(value, float):
        return value if isfinite(value) else None
    if isinstance(value, dict):
        return {whole_characters(name): storable(each) for name, each in value.items()}
    if isinstance(value, list):
        return [storable(each) for each in value]
    return value


def storable_event(data: bytes, *, has_piece: Callable[[JsonObject], bool]) -> JsonObject:
    """Return the JSON object of an event that can be stored; one that has a piece of a text may begin or end in halves.

    Raises:
        ModelServerError: the bytes are no JSON object.
    """
    event = parsed_object(data)
    if _NOT_STORABLE.search(data) is None or has_piece(event):
        return event
    return object_or_empty(storable(event))


_NOT_STORABLE = re.compile(rb"\\u[dD][89a-fA-F]|NaN|Infinity|[eE]\+?[0-9]{3}")
_HALF = re.compile("[\ud800-\udfff]")
_HIGH = re.compile("[\ud800-\udbff]$")


class HalvesJoiner:
    """Joins the halves of characters that a server cut apart; a half that stays alone becomes U+FFFD.

    Half a character has no UTF-8, so it can be neither stored nor sent.
    """

    def __init__(self) -> None:
        self._held = ""

    def push(self, text: str) -> str:
        """Return the text that can be read now."""
        if not self._held and (text.isascii() or _HALF.search(text) is None):
            return text
        text, self._held = self._held + text, ""
        if _HIGH.search(text):
            text, self._held = text[:-1], text[-1]
        return whole_characters(text)

    def finish(self) -> str:
        """Return what was held back."""
        held, self._held = self._held, ""
        return whole_characters(held)


def whole_characters(text: str) -> str:
    """Return a text whose halves of characters are joined, or replaced where the other half is missing."""
    return text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")


def _refuse_constant(name: str) -> JsonValue:
    raise ValueError(f"{name} is no JSON")


def read_arguments(text: str, *, may_be_empty: bool) -> JsonObject | None:
    """Return the arguments of a call, or None if they are no complete object; an empty text may mean no arguments."""
    if not text.strip():
        return {} if may_be_empty else None
    try:
        parsed = read_json(text)
    except ValueError:
        return None
    if parsed is None and may_be_empty:
        return {}
    return parsed if isinstance(parsed, dict) else None


def parsed_object(data: bytes) -> dict[str, JsonValue]:
    """Return the JSON object in some bytes.

    Raises:
        ModelServerError: they are none.
    """
    try:
        parsed = read_json(data, allow_inf_nan=True, keeps_halves=True)
    except ValueError as error:
        raise failed(ModelFailure.UNREADABLE, f"{data[:200]!r} is no JSON ({error})") from error
    if not isinstance(parsed, dict):
        raise failed(ModelFailure.UNREADABLE, f"{data[:200]!r} is no JSON object")
    return parsed


@value
class SseEvent:
    """One event, with its `data` as bytes."""

    data: bytes
    name: str = ""
    id: str = ""


class SseParser:
    """Parser of server-sent events; `close` returns the event that the end of the stream cut short.

    Invariant: the events depend on the bytes alone, never on their chunks. Lines end with LF, CR or CRLF; several
    `data` lines are one text; comments and unknown fields are skipped. A line that grows beyond the limit is refused,
    so that memory is bounded.
    """

    def __init__(self, longest_event: int = LONGEST_EVENT) -> None:
        self._longest = longest_event
        self._line: list[bytes] = []
        self._data: list[bytes] = []
        self._size = 0
        self._name = ""
        self._id = ""
        self._is_first_line = True
        self._after_cr = False

    def feed(self, piece: bytes) -> list[SseEvent]:
        """Return the events that are complete with this piece.

        Raises:
            ModelServerError: an event is longer than the limit.
        """
        piece = self._with_plain_line_ends(piece)
        first, *more = piece.split(b"\n")
        self._append(first)
        if not more:
            return []
        events: list[SseEvent] = []
        self._take_line(self._joined(), events)
        *whole, rest = more
        for line in whole:
            self._take_line(line, events)
        self._append(rest)
        return events

    def close(self) -> list[SseEvent]:
        """Return the last event if the stream ended without the empty line after it."""
        events: list[SseEvent] = []
        self._take_line(self._joined(), events)
        self._dispatch(events)
        return events

    def _with_plain_line_ends(self, piece: bytes) -> bytes:
        if self._after_cr:
            self._after_cr = not piece
            piece = piece.removeprefix(b"\n")
        if b"\r" in piece:
            # A CR ends its line at once; an LF at the start of the next piece belongs to it.
            self._after_cr = piece.endswith(b"\r")
            piece = piece.replace(b"\r\n", b"\n").replace(b"\r", b"\n")
        return piece

    def _append(self, part: bytes) -> None:
        if part:
            self._line.append(part)
            self._count(len(part))

    def _joined(self) -> bytes:
        line = self._line[0] if len(self._line) == 1 else b"".join(self._line)
        self._line.clear()
        self._size -= len(line)
        return line

    def _count(self, size: int) -> None:
        self._size += size
        if self._size > self._longest:
            raise failed(ModelFailure.UNREADABLE, f"one event is longer than {self._longest:,} bytes")

    def _take_line(self, line: bytes, events: list[SseEvent]) -> None:
        if self._is_first_line:
            self._is_first_line = False
            line = line.removeprefix(_BOM)
        if line.startswith(b"data:"):
            self._data.append(line[6:] if line.startswith(b" ", 5) else line[5:])
            self._count(len(line))
        elif not line:
            self._dispatch(events)
        else:
            self._take_field(line)

    def _take_field(self, line: bytes) -> None:
        field, _, text = line.partition(b":")
        decoded = text.removeprefix(b" ").decode(errors="replace")
        if field == b"data":
            self._data.append(b"")
        elif field == b"event":
            self._name = decoded
        elif field == b"id" and "\0" not in decoded:
            self._id = decoded

    def _dispatch(self, events: list[SseEvent]) -> None:
        self._size = 0
        if self._data:
            data = self._data[0] if len(self._data) == 1 else b"\n".join(self._data)
            self._data.clear()
            if data:
                events.append(SseEvent(data, self._name, self._id))
        self._name = ""

"""Media where a wire has no place for them, and files that are text. Pure."""

from __future__ import annotations

from base64 import b64decode

from pilotage.agent.media import size_of
from pilotage.agent.messages import MediaPart

_TEXTS = frozenset({"application/json", "application/x-ndjson", "application/yaml", "application/toml"})


def text_in_file(part: MediaPart) -> str | None:
    """Return a file of text as text, in a frame with its name; None for every other part."""
    kind = part.media_type.partition(";")[0].strip().lower()
    if part.data is None or not (kind.startswith("text/") or kind in _TEXTS):
        return None
    name = "" if part.name is None else f" name={part.name!a}"
    return f"<file type={kind!r}{name}>\n{b64decode(part.data).decode(errors='replace')}\n</file>"


def not_carried(part: MediaPart, place: str) -> str:
    """Return the text for media that a wire does not carry in a place, so that the model knows what it does not see."""
    if part.url is not None:
        return f"[{part.media_type} at {part.url}: not sent, because it is {place}]"
    name = "" if part.name is None else f" {part.name!a}"
    return f"[{part.media_type}{name}, {size_of(part):,} bytes: not sent, because it is {place}]"


IN_REPLY = "part of an earlier reply, which this wire sends as text only"
IN_RESULT = "in the result of a tool, which this wire sends as text only"

"""How the payloads of journal rows are written down, each text once, and read back. Pure.

| stored view | means |
|---|---|
| nothing | the view is the record |
| `+{...}` | the view says all of the record, and this |
| `=seq.start.length.at;...` | at `at` in this text belongs a piece of what row `seq` of the same commit records |
| anything else | the view itself |

A text from `BLOB_LENGTH` on is a blob.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from hashlib import sha256
from typing import NamedTuple

from pilotage.agent.ports.journal import JournalRow, SealedRecord
from pilotage.agent.recovery import AgentActionKind
from pilotage.jsonvalue import JsonValue, as_object, canonical_json, parsed, to_bytes

BLOB_LENGTH = 8192
"""Texts from this length on are stored as blobs: once per tenant, however often they occur."""

_ADDED, _ECHO = "+", "="
_SHORTEST_ECHO = 64
_RESULT = "result"
_MODEL_CALL = AgentActionKind.MODEL_CALL


class Payloads(NamedTuple):
    """The texts of a row as they are stored."""

    record: str
    view: str | None
    key_id: str | None = None


class Echo(NamedTuple):
    """A piece of a record that stands in a view again."""

    seq: int
    start: int
    length: int
    at: int


def payloads_of(rows: Sequence[JournalRow]) -> list[Payloads]:
    """The texts of the rows of one commit.

    Raises:
        TypeError, ValueError, RecursionError: a payload has no JSON form.
    """
    pieces = [piece for row in rows if (piece := _piece_of(row)) is not None]
    return [_payloads_of(row, pieces) for row in rows]


def _payloads_of(row: JournalRow, pieces: Sequence[tuple[JournalRow, str]]) -> Payloads:
    texts = row.texts
    if isinstance(row.record, SealedRecord):
        return Payloads(row.record.ciphertext, texts.view_json, row.record.key_id)
    if texts.view_json == texts.record_json:
        return Payloads(texts.record_json, None)
    if texts.added_json is not None:
        return Payloads(texts.record_json, _ADDED + texts.added_json)
    added = _what_is_added(row)
    if added is not None:
        return Payloads(texts.record_json, _ADDED + canonical_json(added))
    echoes = _echoes_in(texts.view_json, row, pieces) if pieces else []
    return Payloads(texts.record_json, _without(texts.view_json, echoes))


def _what_is_added(row: JournalRow) -> JsonValue | None:
    """What a view says beyond its record; None where it does not say all of the record."""
    if not (isinstance(row.record, dict) and isinstance(row.view, dict)):
        return None
    shown = row.view
    if any(name not in shown or shown[name] is not said for name, said in row.record.items()):
        return None
    return {name: said for name, said in shown.items() if name not in row.record}


def _piece_of(row: JournalRow) -> tuple[JournalRow, str] | None:
    """The result that a row records: what a run does it also tells; of a model's reply only pieces, as it comes."""
    if row.kind is _MODEL_CALL or not isinstance(row.record, dict) or _RESULT not in row.record:
        return None
    if len(row.texts.record_json) < _SHORTEST_ECHO:
        return None
    piece = canonical_json(row.record[_RESULT])
    return (row, piece) if len(piece) >= _SHORTEST_ECHO else None


def _echoes_in(view: str, row: JournalRow, pieces: Sequence[tuple[JournalRow, str]]) -> list[Echo]:
    found: list[Echo] = []
    end = 0
    for source, piece in pieces:
        # Told in the order of their rows: whatever comes in another order is just stored.
        at = view.find(piece, end) if source is not row else -1
        if at >= 0:
            end = at + len(piece)
            found.append(Echo(source.seq, source.texts.record_json.find(piece), len(piece), at))
    return found


def _without(view: str, echoes: Sequence[Echo]) -> str:
    if not echoes:
        return view
    kept: list[str] = []
    end = 0
    for echo in echoes:
        kept.append(view[end : echo.at])
        end = echo.at + echo.length
    head = ",".join(".".join(map(str, echo)) for echo in echoes)
    return f"{_ECHO}{head};{''.join(kept)}{view[end:]}"


def echoed_rows(stored_view: str | None) -> Iterator[int]:
    """The numbers of the rows that a stored view points to."""
    if stored_view is not None and stored_view.startswith(_ECHO):
        head, _, _ = stored_view[1:].partition(";")
        yield from (int(echo.partition(".")[0]) for echo in head.split(","))


def view_text(stored_view: str, text_of: Callable[[int], str]) -> str:
    """The text of a view; what it repeats is looked up."""
    if not stored_view.startswith(_ECHO):
        return stored_view
    head, _, rest = stored_view[1:].partition(";")
    parts: list[str] = []
    end = used = 0
    for echo in head.split(","):
        seq, start, length, at = map(int, echo.split("."))
        between = rest[used : used + at - end]
        parts += (between, text_of(seq)[start : start + length])
        used += len(between)
        end = at + length
    return "".join((*parts, rest[used:]))


def record_of(text: str, key_id: str | None) -> JsonValue | SealedRecord:
    """What a row records by its text; a sealed one opens with a key."""
    return parsed(text) if key_id is None else SealedRecord(key_id, text)


def view_of(stored: Payloads, text_of: Callable[[int], str]) -> JsonValue:
    """What a row shows; `text_of` gives the record of another row.

    Read anew rather than shared with the record: what a reader changes in the one must not show in the other.
    """
    record, view, _ = stored
    if view is None:
        return parsed(record)
    if view.startswith(_ADDED):
        return {**as_object(parsed(record)), **as_object(parsed(view[1:]))}
    return parsed(view_text(view, text_of))


def blob_digest(tenant_id: str, content: str) -> str:
    """By what a blob is found; equal blobs of two tenants do not show that they are equal."""
    return sha256(to_bytes(f"{tenant_id}\n{content}")).hexdigest()

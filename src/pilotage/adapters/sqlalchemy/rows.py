"""Rows of journals as columns and back. Pure: no I/O.

Each text is stored once:

| stored view | means |
|---|---|
| nothing | the view is the record |
| `+{...}` | the view is the record with these members added |
| `=seq.start.length.at;...` | at `at` in this text belongs a piece of the record of row `seq` of the same commit |
| anything else | the view itself |

A text from `BLOB_LENGTH` on is a blob.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from datetime import datetime
from functools import lru_cache
from typing import Any, NamedTuple, TypeAlias

from pilotage.adapters.sqlalchemy.columns import (
    UNDECODABLE,
    as_moment,
    from_packed,
    from_stored,
    moment_text,
)
from pilotage.agent.ports.persistence import (
    ErasedRecord,
    JournalRow,
    JournalStage,
    SealedRecord,
    StoredRecord,
    UnreadableRecord,
    recorded_row,
    shown_row,
    stored_row,
)
from pilotage.agent.recovery import AgentActionKind
from pilotage.agent.tools.metadata import Idempotency
from pilotage.jsonvalue import JsonValue, as_object, canonical_json, parsed

BLOB_LENGTH = 8192
"""Texts from this length on are stored as blobs: once per tenant, however often they occur."""

_ADDED, _ECHO = "+", "="
_SHORTEST_ECHO = 64
_RESULT = "result"
_MODEL_CALL = AgentActionKind.MODEL_CALL
_EMPTY = "{}"


class Payloads(NamedTuple):
    """The texts of a row as they are stored."""

    record: str
    view: str | None
    key_id: str | None = None


class Echo(NamedTuple):
    """A piece of a record that a view repeats."""

    seq: int
    start: int
    length: int
    at: int


def payloads_of(rows: Sequence[JournalRow]) -> list[Payloads]:
    """Return the texts of the rows of one commit.

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
    added = _added_by_view(row)
    if added is not None:
        return Payloads(texts.record_json, _ADDED + canonical_json(added))
    echoes = _echoes_in(texts.view_json, row, pieces) if pieces else []
    return Payloads(texts.record_json, _without(texts.view_json, echoes))


def _added_by_view(row: JournalRow) -> JsonValue | None:
    """Return the members that a view adds to its record; None where the view lacks a part of the record."""
    if not (isinstance(row.record, dict) and isinstance(row.view, dict)):
        return None
    shown = row.view
    if any(name not in shown or shown[name] is not member for name, member in row.record.items()):
        return None
    return {name: member for name, member in shown.items() if name not in row.record}


def _piece_of(row: JournalRow) -> tuple[JournalRow, str] | None:
    """Return the result in a record, which a view may repeat; views repeat a model's reply only in parts."""
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
        # Only pieces in the order of their rows are found; others are stored again.
        at = view.find(piece, end) if source is not row else -1
        if at >= 0:
            end = at + len(piece)
            found.append(Echo(source.seq, source.texts.record_json.find(piece), len(piece), at))
    return found


def _without(view: str, echoes: Sequence[Echo]) -> str:
    if not echoes:
        return view
    parts: list[str] = []
    end = 0
    for echo in echoes:
        parts.append(view[end : echo.at])
        end = echo.at + echo.length
    head = ",".join(".".join(map(str, echo)) for echo in echoes)
    return f"{_ECHO}{head};{''.join(parts)}{view[end:]}"


def echoed_rows(stored_view: str | None) -> Iterator[int]:
    """Yield the numbers of the rows that a stored view points to."""
    if stored_view is not None and stored_view.startswith(_ECHO):
        head, _, _ = stored_view[1:].partition(";")
        yield from (int(echo.partition(".")[0]) for echo in head.split(","))


def record_of(text: str, key_id: str | None) -> JsonValue | SealedRecord:
    """Return the record of a row by its text; a sealed one opens with a key."""
    return parsed(text) if key_id is None else SealedRecord(key_id, text)


def view_of(stored: Payloads, text_of: Callable[[int], str]) -> JsonValue:
    """Return the view of a row; `text_of` gives the record of another row.

    The view shares no value with the record: a change to one must not show in the other.
    """
    record, view, _ = stored
    if view is None:
        return parsed(record)
    if view.startswith(_ADDED):
        return {**as_object(parsed(record)), **as_object(parsed(view[1:]))}
    return parsed(_view_text(view, text_of))


def _view_text(stored_view: str, text_of: Callable[[int], str]) -> str:
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


def _whole_view(record: str, view: str, text_of: Callable[[int], str]) -> str:
    """Return the canonical text of a view that is not equal to its record."""
    if not view.startswith(_ADDED):
        return _view_text(view, text_of)
    added = view[1:]
    if record == _EMPTY or added == _EMPTY:
        return added if record == _EMPTY else record
    # Names are sorted: where all added ones come first, the texts follow one another.
    members, first = as_object(parsed(added)), record[2 : record.find('":')]
    if "\\" not in first and max(members) < first:
        return f"{added[:-1]},{record[1:]}"
    return canonical_json({**as_object(parsed(record)), **members})


class Page:
    """What the rows of a page need besides their own columns."""

    __slots__ = ("blobs", "records")

    def __init__(self) -> None:
        self.blobs: dict[str, str] = {}
        self.records: dict[int, StoredPayloads] = {}
        """The payloads by the numbers of their rows; views may point to rows before the page."""

    def text(self, stored: str | None, blob: bytes | None) -> str | None:
        """Return a text that is in its column or in a blob.

        Raises:
            LookupError: the blob is missing.
        """
        if blob is not None:
            digest = from_packed(blob)
            if digest not in self.blobs:
                raise LookupError(f"its blob {digest[:12]!r} is missing")
            return self.blobs[digest]
        return None if stored is None else from_stored(stored)

    def record_text(self, seq: int) -> str:
        """Return the text of a row's record."""
        row = self.records[seq]
        return self.text(row.record_stored, row.record_blob) or ""


class StoredPayloads(NamedTuple):
    """The payloads and the time of a row: their columns as the database has them, and the page of the row."""

    seq: int
    stored_moment: int | datetime
    key: str | None
    record_stored: str | None
    record_blob: bytes | None
    view_stored: str | None
    view_blob: bytes | None
    erased: bytes | None
    page: Page

    @property
    def is_plain(self) -> bool:
        return self.key is None and self.erased is None

    @property
    def record(self) -> StoredRecord:
        try:
            if self.erased is not None:
                return ErasedRecord(from_packed(self.erased))
            return record_of(self.page.text(self.record_stored, self.record_blob) or "", self.key_id)
        except UNDECODABLE as error:
            return UnreadableRecord(str(error))

    @property
    def view(self) -> JsonValue:
        if self.erased is not None:
            return None
        page = self.page
        try:
            view = page.text(self.view_stored, self.view_blob)
            return view_of(Payloads(page.record_text(self.seq), view, self.key_id), page.record_text)
        except UNDECODABLE:
            return None

    @property
    def payloads(self) -> tuple[str, str]:
        page = self.page
        record = page.text(self.record_stored, self.record_blob) or ""
        if self.view_stored is None and self.view_blob is None:
            whole = record
        else:
            view = page.text(self.view_stored, self.view_blob) or ""
            whole = _whole_view(record, view, page.record_text)
        if self.key is None:
            return record, whole
        return canonical_json({"ciphertext": record, "key": self.key_id}), whole

    @property
    def created_at(self) -> datetime | None:
        try:
            return as_moment(self.stored_moment)
        except UNDECODABLE:
            return None

    @property
    def moment(self) -> str:
        try:
            return moment_text(self.stored_moment)
        except UNDECODABLE:
            return ""

    @property
    def key_id(self) -> str | None:
        """The key that a sealed record opens with."""
        return None if self.key is None else from_stored(self.key)


Columns: TypeAlias = tuple[Any, ...]
"""The columns of a row as the database has them, by `COLUMNS`."""

_OF_PAYLOADS = ("created_at", "key_id", "record", "record_blob", "view", "view_blob", "erased")
COLUMNS = (
    *("action_id", "kind", "stage", "attempt", "epoch", "fingerprint", "idempotency"),
    *("number", "turn", "digest", "salt", *_OF_PAYLOADS),
)
"""The columns that rows are read with, after their number."""
_PAYLOADS = slice(-len(_OF_PAYLOADS), None)
_PLACE = slice(0, -len(_OF_PAYLOADS))


def payloads_in(columns: Columns, page: Page) -> StoredPayloads:
    """Return the payloads in the columns of a row."""
    return StoredPayloads._make((columns[0], *columns[_PAYLOADS], page))


_KINDS: Mapping[str | None, AgentActionKind | None] = {
    None: None,
    **{kind.value: kind for kind in AgentActionKind},
}
_STAGES = {stage.value: stage for stage in JournalStage}
_CLASSES = {each.value: each for each in Idempotency}
_EVENT, _BEFORE = JournalStage.TOLD, JournalStage.BEFORE


def row_of(columns: Columns, payloads: StoredPayloads) -> JournalRow:
    """Return the journal row in these columns; one that they do not describe has an `UnreadableRecord`."""
    try:
        return _row_of(columns, payloads)
    except UNDECODABLE as error:
        reason = f"{type(error).__name__}: {error}"
        _, _, kind, stage, _, _, _, idempotency, *_ = columns
        known = (kind, _KINDS), (stage, _STAGES), (idempotency, _CLASSES)
        unknown = next((word for word, names in known if word not in names), None)
        if unknown is not None:
            reason = f"{unknown!r} is no kind, stage or class of actions"
        return _unreadable(columns, reason)


def _unreadable(columns: Columns, reason: str) -> JournalRow:
    """Return a row in place of one whose columns cannot be decoded: it belongs to no action."""
    seq, action, _, _, _, epoch, *_ = columns
    return JournalRow(
        max(seq, 1),
        str(action).strip() or "?",
        None,
        JournalStage.CLAIMED,
        attempt=1,
        epoch=max(epoch, 1) if type(epoch) is int else 1,
        fingerprint="",
        idempotency=Idempotency.IDEMPOTENT,
        record=UnreadableRecord(reason),
        view=None,
        digest="unreadable",
    )


def _row_of(columns: Columns, payloads: StoredPayloads) -> JournalRow:
    seq, action, kind, word, attempt, epoch, fingerprint, idempotency, number, turn, digest, salt = columns[
        _PLACE
    ]
    stage = _STAGES[word]
    # SQLite stores any value in any column, and a reader of the row computes with these.
    if not type(attempt) is type(epoch) is int:
        raise TypeError(f"attempt {attempt!r} and epoch {epoch!r} are no numbers")
    place = (
        *(seq, from_stored(action), _KINDS[kind], stage, attempt, epoch),
        *(from_packed(fingerprint), _CLASSES[idempotency]),
    )
    try:
        digest, salt = from_packed(digest), _salt_in(salt)
    except UNDECODABLE:
        # The check of the chain reports the damage.
        digest, salt = _decodable(digest), _decodable(salt)
    # Readers need the views of events and the records of outcomes: these are decoded at once, in the thread that
    # reads, so that an unreadable row is found before the run is claimed.
    if stage is _EVENT:
        return shown_row(*place, payloads.view, digest, salt, source=payloads)
    if stage is _BEFORE:
        return stored_row(*place, digest, salt, number or 0, source=payloads)
    return recorded_row(*place, payloads.record, digest, salt, number or 0, turn, source=payloads)


_salt_in = lru_cache(maxsize=256)(from_packed)


def _decodable(packed: bytes) -> str:
    try:
        return from_packed(packed)
    except UNDECODABLE:
        return ""

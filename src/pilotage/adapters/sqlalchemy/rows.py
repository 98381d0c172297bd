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
from contextlib import suppress
from datetime import datetime
from functools import lru_cache
from typing import Any, NamedTuple, TypeAlias

from pilotage.adapters.sqlalchemy.columns import (
    ESCAPED,
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
    stored = [_payloads_of(row) for row in rows]
    repeat = None in stored
    pieces = [piece for row in rows if (piece := _piece_of(row)) is not None] if repeat else []
    return [each or _with_echoes(row, pieces) for row, each in zip(rows, stored, strict=True)]


def _payloads_of(row: JournalRow) -> Payloads | None:
    """Return the texts of a row; None for a view that may repeat pieces of other rows."""
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
    return None


def _with_echoes(row: JournalRow, pieces: Sequence[tuple[JournalRow, str]]) -> Payloads:
    view = row.texts.view_json
    return Payloads(row.texts.record_json, _without(view, _echoes_in(view, row, pieces)))


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


def _with_added(record: str, added: str) -> str:
    """Return the canonical text of a record with members added."""
    if record == _EMPTY or added == _EMPTY:
        return added if record == _EMPTY else record
    # Names are sorted: where all added ones come first, the texts follow one another.
    members, first = as_object(parsed(added)), record[2 : record.find('":')]
    if "\\" not in first and max(members) < first:
        return f"{added[:-1]},{record[1:]}"
    return canonical_json({**as_object(parsed(record)), **members})


Columns: TypeAlias = tuple[Any, ...]
"""The columns of a row as the database has them: its number, then those of `COLUMNS`."""

COLUMNS = (
    *("action_id", "kind", "stage", "attempt", "epoch", "fingerprint", "idempotency"),
    *("number", "turn", "events", "costs", "digest", "salt"),
    *("created_at", "key_id", "record", "record_blob", "view", "view_blob", "erased"),
)
"""The columns that rows are read with, after their number."""
_PLACE = slice(0, 1 + COLUMNS.index("created_at"))
_MOMENT, _KEY, _RECORD, RECORD_BLOB, _VIEW, VIEW_BLOB, _ERASED = range(_PLACE.stop, 1 + len(COLUMNS))


class Page:
    """The rows of a page as the database has them, and the blobs and earlier rows that they need besides."""

    __slots__ = ("_by_number", "blobs", "earlier", "rows")

    def __init__(self, rows: Sequence[Columns]) -> None:
        self.rows = rows
        self.blobs: dict[str, str] = {}
        self.earlier: Sequence[Columns] = ()
        """Rows before the page that views in it point to."""
        self._by_number: dict[int, Columns] | None = None

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
        # Nearly all texts are stored as they are.
        return stored if stored is None or not stored.startswith(ESCAPED) else from_stored(stored)

    def record_text(self, seq: int) -> str:
        """Return the text of a row's record.

        Raises:
            LookupError: the row or its blob is missing.
        """
        if self._by_number is None:
            self._by_number = {columns[0]: columns for columns in (*self.rows, *self.earlier)}
        columns = self._by_number[seq]
        return self.text(columns[_RECORD], columns[RECORD_BLOB]) or ""

    def missing_rows(self) -> set[int]:
        """Return the numbers of the rows before the page that views in it point to."""
        missing: set[int] = set()
        for columns in self.rows:
            # A view that cannot be decoded points to none.
            with suppress(LookupError, ValueError):
                missing.update(echoed_rows(self.text(columns[_VIEW], columns[VIEW_BLOB])))
        return missing.difference(columns[0] for columns in self.rows)


class StoredPayloads:
    """The payloads and the time of a row: its columns as the database has them, and its page."""

    __slots__ = ("_columns", "_page", "_whole", "is_plain")

    def __init__(self, columns: Columns, page: Page) -> None:
        self._columns = columns
        self._page = page
        self.is_plain: bool = columns[_KEY] is None is columns[_ERASED]
        self._whole: str | None = None
        """The text of a view that points to other rows, once it is put together."""

    @property
    def record(self) -> StoredRecord:
        columns = self._columns
        try:
            if self.is_plain:
                return parsed(self._page.text(columns[_RECORD], columns[RECORD_BLOB]) or "")
            if columns[_ERASED] is not None:
                return ErasedRecord(from_packed(columns[_ERASED]))
            return record_of(self._page.text(columns[_RECORD], columns[RECORD_BLOB]) or "", self._key_id)
        except UNDECODABLE as error:
            return UnreadableRecord(str(error))

    @property
    def view(self) -> JsonValue:
        columns, page = self._columns, self._page
        if columns[_ERASED] is not None:
            return None
        try:
            record = page.text(columns[_RECORD], columns[RECORD_BLOB]) or ""
            view = page.text(columns[_VIEW], columns[VIEW_BLOB])
            if view is not None and view.startswith(_ECHO):
                view = self._put_together(view)
            return view_of(Payloads(record, view), page.record_text)
        except UNDECODABLE:
            return None

    @property
    def payloads(self) -> tuple[str, str]:
        columns, page = self._columns, self._page
        record = page.text(columns[_RECORD], columns[RECORD_BLOB]) or ""
        if columns[_VIEW] is None is columns[VIEW_BLOB]:
            whole = record
        else:
            view = page.text(columns[_VIEW], columns[VIEW_BLOB]) or ""
            if view.startswith(_ADDED):
                whole = _with_added(record, view[1:])
            else:
                whole = self._put_together(view) if view.startswith(_ECHO) else view
        if columns[_KEY] is None:
            return record, whole
        return canonical_json({"ciphertext": record, "key": self._key_id}), whole

    def _put_together(self, view: str) -> str:
        whole = self._whole
        if whole is None:
            whole = self._whole = _view_text(view, self._page.record_text)
        return whole

    @property
    def _key_id(self) -> str | None:
        """The key that a sealed record opens with."""
        key = self._columns[_KEY]
        return None if key is None else from_stored(key)

    @property
    def created_at(self) -> datetime | None:
        try:
            return as_moment(self._columns[_MOMENT])
        except UNDECODABLE:
            return None

    @property
    def moment(self) -> str:
        try:
            return moment_text(self._columns[_MOMENT])
        except UNDECODABLE:
            return ""


_KINDS: Mapping[str | None, AgentActionKind | None] = {
    None: None,
    **{kind.value: kind for kind in AgentActionKind},
}
_STAGES = {stage.value: stage for stage in JournalStage}
_CLASSES = {each.value: each for each in Idempotency}
_EVENT, _BEFORE = JournalStage.TOLD, JournalStage.BEFORE


def rows_of(page: Page) -> list[JournalRow]:
    """Return the journal rows of a page; one that its columns do not describe has an `UnreadableRecord`."""
    rows: list[JournalRow] = []
    for columns in page.rows:
        try:
            rows.append(_row_of(columns, StoredPayloads(columns, page)))
        except UNDECODABLE as error:
            rows.append(_unreadable(columns, _reason(columns, error)))
    return rows


def _reason(columns: Columns, error: Exception) -> str:
    """Return why columns describe no row."""
    _, _, kind, stage, _, _, _, idempotency, *_ = columns
    known = (kind, _KINDS), (stage, _STAGES), (idempotency, _CLASSES)
    unknown = next((word for word, names in known if word not in names), None)
    if unknown is not None:
        return f"{unknown!r} is no kind, stage or class of actions"
    return f"{type(error).__name__}: {error}"


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
    seq, action, kind, word, attempt, epoch, fingerprint, idempotency, *rest = columns[_PLACE]
    number, turn, stored_events, costs, digest, salt = rest
    stage = _STAGES[word]
    # SQLite stores any value in any column, and a reader of the row computes with these.
    if not type(attempt) is type(epoch) is int:
        raise TypeError(f"attempt {attempt!r} and epoch {epoch!r} are no numbers")
    if action.startswith(ESCAPED):
        action = from_stored(action)
    kind, fingerprint, idempotency = _KINDS[kind], from_packed(fingerprint), _CLASSES[idempotency]
    place = (seq, action, kind, stage, attempt, epoch, fingerprint, idempotency)
    try:
        digest, salt = from_packed(digest), _salt_in(salt)
    except UNDECODABLE:
        # The check of the chain reports the damage.
        digest, salt = _decodable(digest), _decodable(salt)
    # Readers need the views of events and the records of outcomes: these are decoded at once, in the thread that
    # reads, so that an unreadable row is found before the run is claimed.
    events = "" if stored_events is None else from_stored(stored_events)
    costs = costs or ""
    if stage is _EVENT:
        return shown_row(*place, payloads.view, digest, salt, events=events, costs=costs, source=payloads)
    if stage is _BEFORE:
        return stored_row(*place, digest, salt, number or 0, events=events, costs=costs, source=payloads)
    return recorded_row(
        *place, payloads.record, digest, salt, number or 0, turn, events, costs, source=payloads
    )


_salt_in = lru_cache(maxsize=256)(from_packed)


def _decodable(packed: bytes) -> str:
    try:
        return from_packed(packed)
    except UNDECODABLE:
        return ""

"""Rows of journals as columns and back. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import NamedTuple

from pilotage.adapters.sqlalchemy.columns import as_moment, from_packed, from_stored, to_packed
from pilotage.adapters.sqlalchemy.mapping import UnstorableError, Values
from pilotage.adapters.sqlalchemy.payloads import (
    BLOB_LENGTH,
    Payloads,
    blob_digest,
    payloads_of,
    record_of,
    view_of,
)
from pilotage.agent.ports.journal import (
    ErasedRecord,
    JournalRow,
    JournalStage,
    RunKey,
    SealedRecord,
    recorded_row,
    shown_row,
    stored_row,
)
from pilotage.agent.recovery import AgentActionKind
from pilotage.agent.tools.metadata import Idempotency
from pilotage.jsonvalue import JsonValue


def row_values(run: RunKey, rows: Sequence[JournalRow], token: str) -> list[Values]:
    """The rows of a commit as columns; texts that are large are still in their place (see `take_out_blobs`).

    Raises:
        UnstorableError: a payload has no JSON form.
    """
    values = [
        {
            "tenant_id": run.tenant_id,
            "run_id": run.run_id,
            "seq": row.seq,
            "action_id": row.action_id,
            "kind": row.kind and str(row.kind),
            "stage": str(row.stage),
            "attempt": row.attempt,
            "epoch": row.epoch,
            "fingerprint": to_packed(row.fingerprint),
            "idempotency": str(row.idempotency),
            "key_id": stored.key_id,
            "record": stored.record,
            "record_blob": None,
            "view": stored.view,
            "view_blob": None,
            "digest": to_packed(row.digest),
            "salt": to_packed(row.salt),
            "token": None,
        }
        for row, stored in zip(rows, _payloads_of(rows), strict=True)
    ]
    values[-1]["token"] = token
    return values


def _payloads_of(rows: Sequence[JournalRow]) -> list[Payloads]:
    try:
        return payloads_of(rows)
    except (TypeError, ValueError, RecursionError) as error:
        named = ", ".join(f"{row.seq} ({row.action_id!r})" for row in rows)
        raise UnstorableError(f"the payloads of row {named} cannot be stored as JSON: {error}") from error


def take_out_blobs(rows: Sequence[Values]) -> list[Values]:
    """Put the digests of large texts in their place, and give the texts."""
    return [
        _taken_out(values, column)
        for values in rows
        for column in ("record", "view")
        if (content := values[column]) is not None and len(content) >= BLOB_LENGTH
    ]


def _taken_out(values: Values, column: str) -> Values:
    tenant_id, content = values["tenant_id"], values[column]
    digest = to_packed(blob_digest(tenant_id, content))
    values[column], values[f"{column}_blob"] = None, digest
    return {"tenant_id": tenant_id, "digest": digest, "content": content}


class Page:
    """What the rows of a page are read from besides their own columns."""

    __slots__ = ("blobs", "records")

    def __init__(self) -> None:
        self.blobs: dict[str, str] = {}
        self.records: dict[int, tuple[str | None, bytes | None]] = {}
        """The columns of records by the numbers of their rows; views may point to rows before the page."""

    def text(self, stored: str | None, blob: bytes | None) -> str | None:
        """A text that stands in its column or is a blob."""
        if blob is not None:
            return self.blobs[from_packed(blob)]
        return None if stored is None else from_stored(stored)

    def record_text(self, seq: int) -> str:
        """The text that a row records."""
        return self.text(*self.records[seq]) or ""


class StoredRow(NamedTuple):
    """A row of a journal as it was read: its columns as the database has them, in this order, and its page."""

    seq: int
    action: str
    kind: str | None
    stage: str
    attempt: int
    epoch: int
    fingerprint: bytes
    idempotency: str
    key: str | None
    record_stored: str | None
    record_blob: bytes | None
    view_stored: str | None
    view_blob: bytes | None
    digest_packed: bytes
    salt_packed: bytes
    erased: bytes | None
    moment: int | datetime
    page: Page

    @property
    def is_plain(self) -> bool:
        return self.key is None and self.erased is None

    @property
    def record(self) -> JsonValue | SealedRecord | ErasedRecord:
        if self.erased is not None:
            return ErasedRecord(from_packed(self.erased))
        return record_of(self.page.text(self.record_stored, self.record_blob) or "", self.key_id)

    @property
    def view(self) -> JsonValue:
        if self.erased is not None:
            return None
        page = self.page
        payloads = Payloads(
            page.record_text(self.seq), page.text(self.view_stored, self.view_blob), self.key_id
        )
        return view_of(payloads, page.record_text)

    @property
    def digest(self) -> str:
        return from_packed(self.digest_packed)

    @property
    def created_at(self) -> datetime:
        return as_moment(self.moment)

    @property
    def salt(self) -> str:
        return from_packed(self.salt_packed)

    @property
    def key_id(self) -> str | None:
        """The key that a sealed record opens with."""
        return None if self.key is None else from_stored(self.key)


COLUMNS = (
    *("action_id", "kind", "stage", "attempt", "epoch", "fingerprint", "idempotency", "key_id"),
    *("record", "record_blob", "view", "view_blob", "digest", "salt", "erased", "created_at"),
)
"""The columns of a `StoredRow` behind its number."""

_KINDS: Mapping[str | None, AgentActionKind | None] = {
    None: None,
    **{kind.value: kind for kind in AgentActionKind},
}
_STAGES = {stage.value: stage for stage in JournalStage}
_CLASSES = {each.value: each for each in Idempotency}
_TOLD, _BEFORE = JournalStage.TOLD, JournalStage.BEFORE


def row_of(stored: StoredRow) -> JournalRow:
    """The journal row in these columns."""
    stage = _STAGES[stored.stage]
    place = (
        stored.seq,
        from_stored(stored.action),
        _KINDS[stored.kind],
        stage,
        stored.attempt,
        stored.epoch,
        from_packed(stored.fingerprint),
        _CLASSES[stored.idempotency],
    )
    # Whoever reads a journal wants what was told and what came of actions: that is decoded at once, in the thread that
    # reads, and what cannot be read is found out before anybody takes the run.
    if stage is _TOLD:
        return shown_row(*place, stored.view, source=stored)
    if stage is _BEFORE:
        return stored_row(*place, source=stored)
    return recorded_row(*place, stored.record, source=stored)

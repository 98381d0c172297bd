"""Rows of journals as columns and back. Pure."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from datetime import datetime
from functools import partial
from typing import NamedTuple

from pilotage.adapters.sqlalchemy.mapping import UnstorableError, Values
from pilotage.adapters.sqlalchemy.payloads import (
    BLOB_LENGTH,
    Payloads,
    blob_digest,
    payloads_of,
    record_of,
    view_of,
)
from pilotage.agent.ports.journal import ErasedRecord, JournalRow, JournalStage, RunKey, stored_row
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
            "fingerprint": row.fingerprint,
            "idempotency": str(row.idempotency),
            "key_id": stored.key_id,
            "record": stored.record,
            "record_blob": None,
            "view": stored.view,
            "view_blob": None,
            "digest": row.digest,
            "salt": row.salt,
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


def take_out_blobs(values: Values) -> list[Values]:
    """Put the digests of large texts in their place, and give the texts."""
    found: list[Values] = []
    for column in ("record", "view"):
        content: str | None = values[column]
        if content is not None and len(content) >= BLOB_LENGTH:
            digest = blob_digest(values["tenant_id"], content)
            values[column], values[f"{column}_blob"] = None, digest
            found.append({"tenant_id": values["tenant_id"], "digest": digest, "content": content})
    return found


class StoredRow(NamedTuple):
    """A row of a journal as it was read, its columns in this order."""

    seq: int
    action_id: str
    kind: str | None
    stage: str
    attempt: int
    epoch: int
    fingerprint: str
    idempotency: str
    key_id: str | None
    record: str
    record_blob: str | None
    view: str | None
    view_blob: str | None
    digest: str
    salt: str
    erased: str | None
    created_at: datetime

    def payloads(self, blobs: Mapping[str, str]) -> Payloads:
        """Its texts; those that are blobs are given."""
        record = self.record if self.record_blob is None else blobs[self.record_blob]
        return Payloads(record, self.view if self.view_blob is None else blobs[self.view_blob], self.key_id)


_KINDS: Mapping[str | None, AgentActionKind | None] = {
    None: None,
    **{kind.value: kind for kind in AgentActionKind},
}
_STAGES = {stage.value: stage for stage in JournalStage}
_CLASSES = {each.value: each for each in Idempotency}
_TOLD = JournalStage.TOLD.value


def row_of(stored: StoredRow, payloads: Payloads, text_of: Callable[[int], str]) -> JournalRow:
    """The journal row in these columns; `text_of` gives the record of another row of the run."""
    return stored_row(
        stored.seq,
        stored.action_id,
        _KINDS[stored.kind],
        _STAGES[stored.stage],
        stored.attempt,
        stored.epoch,
        stored.fingerprint,
        _CLASSES[stored.idempotency],
        record_of(payloads) if stored.erased is None else ErasedRecord(stored.erased),
        stored.digest,
        stored.created_at,
        stored.salt,
        read_view=_reader_of(stored, payloads, text_of),
    )


def _reader_of(
    stored: StoredRow, payloads: Payloads, text_of: Callable[[int], str]
) -> Callable[[], JsonValue] | None:
    """What reads a view when somebody asks for it.

    Whoever reads a journal wants what was told: that is decoded at once, in the thread that reads.
    """
    if stored.erased is not None:
        return None
    if stored.stage != _TOLD:
        return partial(view_of, payloads, text_of)
    told = view_of(payloads, text_of)
    return lambda: told

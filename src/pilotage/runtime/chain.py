"""The hash chain of a journal: each row carries the digest of the one before. Pure."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

from pilotage.agent.ports.journal import JournalHead, JournalRow, SealedRecord
from pilotage.jsonvalue import JsonValue, canonical_json, text_digest

NO_HEAD = JournalHead(seq=0, epoch=0, digest="start")


def chained(row: JournalRow, previous: str) -> JournalRow:
    """The row with its digest: of the digest before it, and of everything it says."""
    return replace(row, digest=text_digest(f"{previous}\n{canonical_json(_said(row))}"))


def first_broken(rows: Iterable[JournalRow]) -> JournalRow | None:
    """The first row that does not follow from the one before it; None for an unbroken chain."""
    digest = NO_HEAD.digest
    for seq, row in enumerate(rows, start=1):
        if row.seq != seq or chained(row, digest).digest != row.digest:
            return row
        digest = row.digest
    return None


def _said(row: JournalRow) -> JsonValue:
    kind = row.kind.value if row.kind else None
    place: list[JsonValue] = [row.seq, row.action_id, kind, row.stage.value, row.attempt, row.epoch]
    return [*place, row.fingerprint, row.idempotency.value, _record(row.record), row.view]


def _record(record: JsonValue | SealedRecord) -> JsonValue:
    if isinstance(record, SealedRecord):
        return {"sealed": record.ciphertext, "key": record.key_id}
    return record

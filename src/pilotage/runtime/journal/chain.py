"""The hash chain of a journal: each row carries the digest of the one before. Pure.

The chain covers the digest of a row's payloads, not the payloads themselves: where these were erased, it still holds.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace

from pilotage.agent.ports.journal import ErasedRecord, JournalHead, JournalRow, RowTexts, SealedRecord
from pilotage.jsonvalue import JsonValue, canonical_json, text_digest

NO_HEAD = JournalHead(seq=0, epoch=0, digest="start")


def digest_after(previous: str, place: Sequence[JsonValue], payloads: str) -> str:
    """The digest of a row: of the digest before it, and of everything it says.

    `place` is everything but the payloads, `payloads` the digest of these.
    """
    return text_digest(f"{previous}\n{canonical_json(place)}\n{payloads}")


def payload_digest(texts: RowTexts, salt: str) -> str:
    """The digest of a row's payloads; a sealed record cannot be taken for an open one that looks like it."""
    record = texts.record
    if isinstance(record, ErasedRecord):
        return record.digest
    kept = "sealed" if isinstance(record, SealedRecord) else "open"
    return text_digest(f"{salt}\n{kept}\n{texts.record_json}\n{texts.view_json}")


def chained(row: JournalRow, previous: str) -> JournalRow:
    """The row with its digest."""
    texts = row.texts
    digest = digest_after(previous, place_of(row), payload_digest(texts, row.salt))
    return replace(row, digest=digest, encoded=texts)


def erased(row: JournalRow) -> JournalRow:
    """The row without its payloads; its place in the chain stays."""
    return replace(
        row, record=ErasedRecord(payload_digest(row.texts, row.salt)), view=None, salt="", encoded=None
    )


def place_of(row: JournalRow) -> Sequence[JsonValue]:
    """What a row says besides its payloads, in a fixed order."""
    return (
        row.seq,
        row.action_id,
        row.kind,
        row.stage,
        row.attempt,
        row.epoch,
        row.fingerprint,
        row.idempotency,
    )


def first_broken(rows: Iterable[JournalRow]) -> JournalRow | None:
    """The first row that does not follow from the one before it; None for an unbroken chain."""
    digest = NO_HEAD.digest
    for seq, row in enumerate(rows, start=1):
        payloads = payload_digest(row.texts, row.salt)
        if row.seq != seq or digest_after(digest, place_of(row), payloads) != row.digest:
            return row
        digest = row.digest
    return None

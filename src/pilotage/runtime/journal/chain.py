"""The hash chain of a journal: each row carries the digest of the one before. Pure.

The chain covers the digest of a row's payloads, not the payloads themselves, so it stays valid when they are erased.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace

from pilotage.agent.ports.journal import ErasedRecord, JournalHead, JournalRow, RowTexts, SealedRecord
from pilotage.jsonvalue import JsonValue, canonical_json, text_digest
from pilotage.runtime.journal import stored_words as words

NO_HEAD = JournalHead(seq=0, epoch=0, digest=words.FIRST_DIGEST)


def digest_after(previous: str, place: Sequence[JsonValue], payloads: str) -> str:
    """Return the digest of a row, from that of the row before it, its other fields (`place`) and its payload digest."""
    return text_digest(f"{previous}\n{canonical_json(place)}\n{payloads}")


def payload_digest(texts: RowTexts, salt: str) -> str:
    """Return the digest of a row's payloads; sealed and open records with equal texts have different digests."""
    record = texts.record
    if isinstance(record, ErasedRecord):
        return record.digest
    kind = words.SEALED_PAYLOAD if isinstance(record, SealedRecord) else words.OPEN_PAYLOAD
    return text_digest(f"{salt}\n{kind}\n{texts.record_json}\n{texts.view_json}")


def chained(row: JournalRow, previous: str) -> JournalRow:
    """Return the row with its digest."""
    texts = row.texts
    digest = digest_after(previous, place_of(row), payload_digest(texts, row.salt))
    return replace(row, digest=digest, encoded=texts)


def erased(row: JournalRow) -> JournalRow:
    """Return the row without its payloads; the chain stays valid."""
    return replace(
        row, record=ErasedRecord(payload_digest(row.texts, row.salt)), view=None, salt="", encoded=None
    )


def place_of(row: JournalRow) -> Sequence[JsonValue]:
    """Return the fields of a row that the chain covers besides its payloads, in their order."""
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
    """Return the first row that does not follow from the one before it; None for an unbroken chain."""
    digest = NO_HEAD.digest
    for seq, row in enumerate(rows, start=1):
        payloads = payload_digest(row.texts, row.salt)
        if row.seq != seq or digest_after(digest, place_of(row), payloads) != row.digest:
            return row
        digest = row.digest
    return None

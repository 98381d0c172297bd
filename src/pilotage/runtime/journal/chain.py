"""The hash chain of a journal: each row carries the digest of the one before. Pure."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

from pilotage.agent.ports.journal import JournalHead, JournalRow, SealedRecord
from pilotage.jsonvalue import JsonValue, canonical_json, text_digest

NO_HEAD = JournalHead(seq=0, epoch=0, digest="start")


def digest_after(previous: str, said: JsonValue) -> str:
    """The digest of a row: of the digest before it, and of everything it says."""
    return text_digest(f"{previous}\n{canonical_json(said)}")


def chained(row: JournalRow, previous: str) -> JournalRow:
    """The row with its digest."""
    return replace(row, digest=digest_after(previous, said_by(row)))


def said_by(row: JournalRow) -> JsonValue:
    """Everything a row says, in a fixed order; a sealed record cannot be taken for an open one that looks like it."""
    return [
        row.seq,
        row.action_id,
        row.kind,
        row.stage,
        row.attempt,
        row.epoch,
        row.fingerprint,
        row.idempotency,
        *said_of_record(row.record),
        row.view,
    ]


def said_of_record(record: JsonValue | SealedRecord) -> list[JsonValue]:
    """A record, and how it is kept."""
    if isinstance(record, SealedRecord):
        return ["sealed", {"key": record.key_id, "ciphertext": record.ciphertext}]
    return ["open", record]


def first_broken(rows: Iterable[JournalRow]) -> JournalRow | None:
    """The first row that does not follow from the one before it; None for an unbroken chain."""
    digest = NO_HEAD.digest
    for seq, row in enumerate(rows, start=1):
        if row.seq != seq or digest_after(digest, said_by(row)) != row.digest:
            return row
        digest = row.digest
    return None

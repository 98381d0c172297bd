"""The hash chain of a journal: each row carries the digest of the one before. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace

from pilotage.agent.ports.journal import JournalHead, JournalRow, RowTexts, SealedRecord
from pilotage.jsonvalue import JsonValue, canonical_json, text_digest

NO_HEAD = JournalHead(seq=0, epoch=0, digest="start")


def digest_after(previous: str, place: Sequence[JsonValue], texts: RowTexts) -> str:
    """The digest of a row: of the digest before it, and of everything it says.

    `place` is everything but the payloads. A sealed record cannot be taken for an open one that looks like it.
    """
    kept = "sealed" if isinstance(texts.record, SealedRecord) else "open"
    said = f'{canonical_json(place)[:-1]},"{kept}",{texts.record_json},{texts.view_json}]'
    return text_digest(f"{previous}\n{said}")


def chained(row: JournalRow, previous: str) -> JournalRow:
    """The row with its digest."""
    texts = row.texts
    return replace(row, digest=digest_after(previous, place_of(row), texts), encoded=texts)


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
        if row.seq != seq or digest_after(digest, place_of(row), row.texts) != row.digest:
            return row
        digest = row.digest
    return None

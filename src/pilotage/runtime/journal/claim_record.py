"""Records of CLAIMED rows after the first one: take-overs, proofs of ownership, state changes, traces. Pure.

The first row of a run is CLAIMED too and records its start (`start_record`).
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime

from pilotage.agent.ports.journal import JournalRow, JournalStage
from pilotage.jsonvalue import JsonObject
from pilotage.runtime.journal import stored_words as words
from pilotage.runtime.journal.record_fields import decode_row, object_or_empty, optional_text, time_field


def ownership_proof(epoch: int) -> JsonObject:
    """Return the record of a row that is written to prove ownership."""
    return {words.STILL_CLAIMED: epoch}


def state_change(status: str) -> JsonObject:
    """Return the record of a row that moves the head together with a change of state."""
    return {words.STATE: status}


def trace_position(trace: str) -> JsonObject:
    """Return the record that names the trace of an attempt."""
    return {words.TRACE: trace}


def claimed_by(row: JournalRow) -> str | None:
    """Return the owner that a row says took the run over; None for every other row."""
    if row.stage is not JournalStage.CLAIMED:
        return None
    found = object_or_empty(row.record).get(words.CLAIMED_BY)
    return found if isinstance(found, str) else None


def last_trace(claims: Sequence[JournalRow]) -> str | None:
    """Return the trace of the last attempt that recorded one."""
    for row in reversed(claims):
        if row.stage is JournalStage.CLAIMED and row.seq > 1:
            found = object_or_empty(row.record).get(words.TRACE)
            if isinstance(found, str):
                return found
    return None


def last_deadline(claims: Sequence[JournalRow]) -> datetime | None:
    """Return the deadline as it was last recorded, at the start of the run or by a take-over.

    Raises:
        DamagedRecordError: the record holds something else.
    """
    for row in reversed(claims):
        if words.DEADLINE in object_or_empty(row.record):
            return decode_row(row, decode_deadline)
    return None


def waits_counted_until(claims: Sequence[JournalRow]) -> datetime | None:
    """Return up to when waiting for people has moved the deadline; None where it never has.

    Raises:
        DamagedRecordError: the record holds something else.
    """
    for row in reversed(claims):
        if words.WAITS_COUNTED_UNTIL in object_or_empty(row.record):
            return decode_row(row, lambda record: time_field(record, words.WAITS_COUNTED_UNTIL))
    return None


def recorded_definition(first: JournalRow) -> str | None:
    """Return the digest of the agent's definition that the first row of a run names."""
    return decode_row(first, lambda record: optional_text(record, words.DEFINITION))


def encode_deadline(deadline: datetime | None) -> str | None:
    """Return a deadline for a record: its ISO text in UTC."""
    return None if deadline is None else deadline.astimezone(UTC).isoformat()


def decode_deadline(record: JsonObject) -> datetime | None:
    """Return the deadline in a record, None for a run without one."""
    return None if record.get(words.DEADLINE) is None else time_field(record, words.DEADLINE)

"""Records of CLAIMED rows after the first one: take-overs, proofs of ownership, state changes, traces. Pure.

The first row of a run is CLAIMED too and records its start (`start_record`).
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime

from pilotage.agent.ports.journal import JournalRow, JournalStage
from pilotage.jsonvalue import JsonObject, JsonValue
from pilotage.runtime.journal import stored_words as words
from pilotage.runtime.journal.record_fields import (
    decode_row,
    nested,
    object_or_empty,
    optional_text,
    text_field,
    time_field,
)
from pilotage.values import value


@value
class DefinitionDrift:
    """The digests of an agent's definition: when the run was started, and when it was taken over."""

    was: str
    now: str

    def encode(self) -> JsonObject:
        """Return the drift as JSON."""
        return {words.WAS: self.was, words.IS: self.now}

    @classmethod
    def decode(cls, record: JsonObject) -> DefinitionDrift:
        """Return the drift that `encode` wrote."""
        return cls(text_field(record, words.WAS), text_field(record, words.IS))


@value
class MovedDeadline:
    """A deadline that waiting for people has moved, None for none; waits up to `counted_until` are in it."""

    deadline: datetime | None
    counted_until: datetime


@value
class TakeOver:
    """An owner takes the run over: the first row of its attempt."""

    claimed_by: str
    moved: MovedDeadline | None = None
    drift: DefinitionDrift | None = None

    def encode(self) -> JsonObject:
        """Return the take-over as JSON; what has not changed is left out."""
        record: dict[str, JsonValue] = {words.CLAIMED_BY: self.claimed_by}
        if self.moved is not None:
            record[words.DEADLINE] = encode_deadline(self.moved.deadline)
            record[words.WAITS_COUNTED_UNTIL] = self.moved.counted_until.isoformat()
        if self.drift is not None:
            record[words.DRIFT] = self.drift.encode()
        return record

    @classmethod
    def decode(cls, record: JsonObject) -> TakeOver:
        """Return the take-over that `encode` wrote."""
        moved = None
        if words.WAITS_COUNTED_UNTIL in record:
            moved = MovedDeadline(decode_deadline(record), time_field(record, words.WAITS_COUNTED_UNTIL))
        drift = nested(record, words.DRIFT, DefinitionDrift.decode) if words.DRIFT in record else None
        return cls(text_field(record, words.CLAIMED_BY), moved, drift)


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

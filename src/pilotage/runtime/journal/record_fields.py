"""Typed access to the fields of stored records, and the error of a record that does not decode. Pure.

A decoder reads each field once with one of these functions. They check with `isinstance` only: replay decodes
thousands of records.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from datetime import datetime
from decimal import Decimal, InvalidOperation
from typing import ClassVar, TypeVar

from pilotage.agent.model_request import StructuredOutputSpec
from pilotage.agent.ports.persistence import (
    ErasedRecord,
    JournalRow,
    SealedRecord,
    StoredRecord,
    UnreadableRecord,
)
from pilotage.errors import AgentDefinitionError, AgentStructuredOutputError, RunError
from pilotage.jsonvalue import JsonObject, JsonValue

T = TypeVar("T")


class DamagedRecordError(RunError):
    """A stored record does not have the shape of its kind. `key` is the field, `expected` what should be there.

    `seq` and `action_id` name the row, once it is known.
    """

    message: ClassVar[str] = "A stored record cannot be decoded."
    code: ClassVar[str] = "damaged_record"

    def __init__(
        self, key: str, expected: str, *, seq: int | None = None, action_id: str | None = None
    ) -> None:
        row = "" if seq is None else f"row {seq} ({action_id}): "
        super().__init__(f"{row}the stored record cannot be decoded: {key!r} is not {expected}.")
        self.key = key
        self.expected = expected
        self.seq = seq
        self.action_id = action_id

    def within(self, key: str) -> DamagedRecordError:
        """Return the same error for a field of the object under `key`."""
        return DamagedRecordError(f"{key}.{self.key}", self.expected, seq=self.seq, action_id=self.action_id)

    def in_row(self, row: JournalRow) -> DamagedRecordError:
        """Return the same error with the row that holds the record."""
        return DamagedRecordError(self.key, self.expected, seq=row.seq, action_id=row.action_id)


def decode_row(row: JournalRow, decode: Callable[[JsonObject], T]) -> T:
    """Decode the record of a row.

    Raises:
        DamagedRecordError: the record has another shape; the error names the row and the field.
    """
    try:
        return decode(record_of(row))
    except DamagedRecordError as error:
        raise error.in_row(row) from error.__cause__
    except (LookupError, TypeError, AttributeError) as error:
        # A decoder or a declared type that does not check what it is given.
        expected = f"what its kind of action has ({type(error).__name__}: {error})"
        raise DamagedRecordError("record", expected, seq=row.seq, action_id=row.action_id) from error


def with_record(row: JournalRow, record: StoredRecord) -> JournalRow:
    """Return a row that was read with another record.

    Raises:
        DamagedRecordError: the row has a value that no row has, which only its copy looks at.
    """
    try:
        return replace(row, record=record)
    except AgentDefinitionError as error:
        raise DamagedRecordError(
            "row", f"a row of a journal ({error})", seq=row.seq, action_id=row.action_id
        ) from error


def record_of(row: JournalRow) -> JsonObject:
    """Return the record of a row, which is an object.

    Raises:
        DamagedRecordError: it is something else.
    """
    record = row.record
    if isinstance(record, (dict, Mapping)):
        return record
    plain_record(row)
    raise DamagedRecordError("record", "an object", seq=row.seq, action_id=row.action_id)


def plain_record(row: JournalRow) -> JsonValue:
    """Return the record of a row that is neither sealed nor erased.

    Raises:
        DamagedRecordError: it is one of both.
    """
    record = row.record
    if isinstance(record, UnreadableRecord):
        raise DamagedRecordError("record", f"JSON: {record.reason}", seq=row.seq, action_id=row.action_id)
    if isinstance(record, (SealedRecord, ErasedRecord)):
        raise DamagedRecordError(
            "record", "readable: it is sealed or erased", seq=row.seq, action_id=row.action_id
        )
    return record


def object_or_empty(found: StoredRecord) -> JsonObject:
    """Return a record or a view that is an object, else an empty one: for readers that accept any row."""
    return found if isinstance(found, dict) else {}


def text_field(record: JsonObject, key: str) -> str:
    """Return a text."""
    found = record.get(key)
    if isinstance(found, str):
        return found
    raise DamagedRecordError(key, "a text")


def optional_text(record: JsonObject, key: str) -> str | None:
    """Return a text, or None where the field is null or absent."""
    found = record.get(key)
    if found is None or isinstance(found, str):
        return found
    raise DamagedRecordError(key, "a text")


def count_field(record: JsonObject, key: str) -> int:
    """Return a whole number."""
    found = record.get(key)
    if isinstance(found, int) and not isinstance(found, bool):
        return found
    raise DamagedRecordError(key, "a whole number")


def optional_count(record: JsonObject, key: str) -> int | None:
    """Return a whole number, or None where the field is null or absent."""
    return None if record.get(key) is None else count_field(record, key)


def flag_field(record: JsonObject, key: str) -> bool:
    """Return true or false; an absent field is false."""
    found = record.get(key, False)
    if isinstance(found, bool):
        return found
    raise DamagedRecordError(key, "true or false")


def decimal_field(record: JsonObject, key: str) -> Decimal:
    """Return an exact number, which is stored as text."""
    try:
        return Decimal(text_field(record, key))
    except InvalidOperation as error:
        raise DamagedRecordError(key, "a number as text") from error


def time_field(record: JsonObject, key: str) -> datetime:
    """Return a time with its zone, which is stored as ISO text."""
    try:
        found = datetime.fromisoformat(text_field(record, key))
    except ValueError as error:
        raise DamagedRecordError(key, "a time with its zone, as ISO text") from error
    if found.utcoffset() is None:
        raise DamagedRecordError(key, "a time with its zone, as ISO text")
    return found


def value_field(record: JsonObject, key: str) -> JsonValue:
    """Return any JSON value; the field must be there."""
    if key in record:
        return record[key]
    raise DamagedRecordError(key, "there")


def object_field(record: JsonObject, key: str) -> JsonObject:
    """Return an object."""
    found = record.get(key)
    if isinstance(found, (dict, Mapping)):
        return found
    raise DamagedRecordError(key, "an object")


def optional_object(record: JsonObject, key: str) -> JsonObject | None:
    """Return an object, or None where the field is null or absent."""
    return None if record.get(key) is None else object_field(record, key)


def list_field(record: JsonObject, key: str) -> list[JsonValue]:
    """Return a list."""
    found = record.get(key)
    if isinstance(found, list):
        return found
    if isinstance(found, tuple):
        return list(found)
    raise DamagedRecordError(key, "a list")


def texts_field(record: JsonObject, key: str) -> tuple[str, ...]:
    """Return a list of texts."""
    found = list_field(record, key)
    texts = tuple(each for each in found if isinstance(each, str))
    if len(texts) == len(found):
        return texts
    raise DamagedRecordError(key, "a list of texts")


def counts_field(record: JsonObject, key: str) -> tuple[int, ...]:
    """Return a list of whole numbers."""
    found = list_field(record, key)
    counts = tuple(each for each in found if isinstance(each, int) and not isinstance(each, bool))
    if len(counts) == len(found):
        return counts
    raise DamagedRecordError(key, "a list of whole numbers")


def objects_field(record: JsonObject, key: str) -> list[JsonObject]:
    """Return a list of objects."""
    found = list_field(record, key)
    objects = [each for each in found if isinstance(each, (dict, Mapping))]
    if len(objects) == len(found):
        return objects
    raise DamagedRecordError(key, "a list of objects")


def nested(record: JsonObject, key: str, decode: Callable[[JsonObject], T]) -> T:
    """Decode the object in a field; errors name both keys."""
    found = object_field(record, key)
    try:
        return decode(found)
    except DamagedRecordError as error:
        raise error.within(key) from error.__cause__


def contract_value(kind: type[T], record: JsonValue) -> T:
    """Decode a value of the public contract by its schema.

    Raises:
        DamagedRecordError: the record does not fit; the message has a sentence for each reason.
    """
    try:
        decoded = StructuredOutputSpec.from_type(kind).decode(record)
    except (AgentStructuredOutputError, AgentDefinitionError) as error:
        raise DamagedRecordError("record", f"of type {kind.__name__}: {error}") from error
    if isinstance(decoded, kind):
        return decoded
    raise DamagedRecordError("record", f"of type {kind.__name__}")

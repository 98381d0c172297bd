"""The record of an error: its words, and the data of a declared one by its code."""

from __future__ import annotations

from datetime import date

import pytest

from pilotage.agent.tools.declared_errors import NO_ERRORS, DeclaredErrors, code_of
from pilotage.errors import AgentMemoryError, ToolError
from pilotage.jsonvalue import JsonObject, JsonValue, as_object, canonical_json, parsed
from pilotage.runtime.door.outcome import without_secrets
from pilotage.runtime.exposure.redactor import Redactor
from pilotage.runtime.journal.record_fields import DamagedRecordError
from pilotage.runtime.journal.result_codec import decode_error, encode_error


class TooLate(ToolError):  # noqa: N818 - as people name them
    def __init__(self, since: date) -> None:
        super().__init__(f"since {since}")
        self.since = since


class Named(ToolError):  # noqa: N818 - as people name them
    code = "my_own"


DECLARED = DeclaredErrors([TooLate, Named])
LATE = TooLate(date(2026, 1, 2))
RECORD: JsonObject = {
    "error": "since 2026-01-02",
    "declared": {
        "code": "too_late",
        "result": {"args": ["since 2026-01-02"], "data": {"since": "2026-01-02"}},
        "scalars": [["date", "data", "since"]],
    },
}


def test_a_declared_error_is_recorded_by_code_and_data() -> None:
    assert encode_error(LATE, DECLARED) == RECORD
    read = decode_error(as_object(parsed(canonical_json(RECORD))), DECLARED)
    assert (type(read), str(read), vars(read)) == (TooLate, "since 2026-01-02", {"since": date(2026, 1, 2)})


@pytest.mark.parametrize(
    ("error", "record"),
    [
        (LATE, {"error": "since 2026-01-02"}),
        (ToolError("no"), {"error": "no"}),
        (ValueError("no"), {"error": "ValueError: no"}),
    ],
)
def test_any_other_error_is_its_words(error: Exception, record: JsonObject) -> None:
    assert encode_error(error, NO_ERRORS) == record
    assert type(decode_error(record, DECLARED)) is ToolError


def test_an_error_of_the_library_needs_no_declaration() -> None:
    record = encode_error(AgentMemoryError("gone"), NO_ERRORS)
    assert record["error"] == "AgentMemoryError: gone"
    read = decode_error(record, NO_ERRORS)
    assert (type(read), str(read)) == (AgentMemoryError, "gone")


def test_the_code_is_that_of_the_class_or_its_name() -> None:
    assert [code_of(each) for each in (TooLate, Named, AgentMemoryError)] == [
        "too_late",
        "my_own",
        "agent_memory_error",
    ]


@pytest.mark.parametrize(
    "data",
    [
        "x",
        {},
        {"code": 3},
        {"code": "too_late"},
        {"code": "too_late", "result": []},
        {"code": "too_late", "result": {"args": "x", "data": {}}},
        {"code": "too_late", "result": {"args": [], "data": []}},
    ],
    ids=repr,
)
def test_data_of_another_shape_are_a_damaged_record(data: JsonValue) -> None:
    with pytest.raises(DamagedRecordError):
        decode_error({"error": "no", "declared": data}, DECLARED)


def test_data_that_hold_a_secret_are_not_recorded() -> None:
    redactor = Redactor()
    assert without_secrets(RECORD, redactor) == RECORD
    redactor.register("2026-01-02")
    masked = without_secrets(RECORD, redactor)
    assert list(masked) == ["error"]
    assert "2026-01-02" not in str(masked)

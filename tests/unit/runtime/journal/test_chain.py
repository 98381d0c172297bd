"""The chain shows every change of a row, and every row that is missing or out of place."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime

import pytest
from tests.unit.runtime.rows import AFTER, BEFORE, a_claim, a_journal, a_row, an_action

from pilotage.agent.ports.persistence import ErasedRecord, JournalStage, SealedRecord
from pilotage.agent.recovery import AgentActionKind
from pilotage.agent.tools.metadata import Idempotency
from pilotage.runtime.journal.chain import NO_HEAD, chained, erased, first_broken

PAY = an_action()
JOURNAL = a_journal(
    [a_claim(), a_row(PAY, BEFORE), a_row(PAY, AFTER, record={"result": 1}), a_claim(epoch=2)]
)

CHANGES: list[tuple[str, dict[str, object]]] = [
    ("action_id", {"action_id": "run/tool:pay#2"}),
    ("kind", {"kind": AgentActionKind.STEP}),
    ("no kind", {"kind": None}),
    ("stage", {"stage": JournalStage.FOLDED}),
    ("attempt", {"attempt": 2}),
    ("epoch", {"epoch": 2}),
    ("fingerprint", {"fingerprint": "other"}),
    ("idempotency", {"idempotency": Idempotency.IDEMPOTENT}),
    ("record", {"record": {"result": 2}}),
    ("view", {"view": {"result": 1}}),
    ("events", {"events": "[1]"}),
    ("digest", {"digest": "other"}),
    ("sealed", {"record": SealedRecord("key", "text")}),
]


def test_an_unbroken_chain_has_no_broken_row() -> None:
    assert first_broken(JOURNAL) is None
    assert first_broken([]) is None


@pytest.mark.parametrize("change", [each[1] for each in CHANGES], ids=[each[0] for each in CHANGES])
@pytest.mark.parametrize("position", [1, 2])
def test_a_change_of_any_field_breaks_the_chain_where_it_was_made(
    position: int, change: dict[str, object]
) -> None:
    rows = list(JOURNAL)
    rows[position] = replace(rows[position], **change)
    assert first_broken(rows) is rows[position]


@pytest.mark.parametrize("position", range(3))
def test_a_missing_row_breaks_the_chain_behind_it(position: int) -> None:
    rows = [row for row in JOURNAL if row is not JOURNAL[position]]
    assert first_broken(rows) is JOURNAL[position + 1]


def test_rows_in_another_order_break_the_chain() -> None:
    assert first_broken([JOURNAL[0], JOURNAL[2], JOURNAL[1], JOURNAL[3]]) is JOURNAL[2]


def test_a_row_rewritten_with_its_digest_is_found_at_the_next_one() -> None:
    rows = list(JOURNAL)
    rows[1] = chained(replace(rows[1], record={"forged": True}), rows[0].digest)
    assert first_broken(rows) is rows[2]


def test_the_ciphertext_and_the_key_of_a_sealed_record_are_covered() -> None:
    sealed = chained(a_row(PAY, record="x"), NO_HEAD.digest)
    digests = {
        chained(replace(sealed, record=record), NO_HEAD.digest).digest
        for record in (SealedRecord("a", "x"), SealedRecord("b", "x"), SealedRecord("a", "y"), "x")
    }
    assert len(digests) == 4


def test_the_time_of_the_store_is_not_part_of_the_chain() -> None:
    stamped = [replace(row, created_at=datetime(2030, 1, 1, tzinfo=UTC)) for row in JOURNAL]
    assert first_broken(stamped) is None


def test_a_row_whose_payloads_were_erased_keeps_its_place() -> None:
    rows = [erased(row) for row in JOURNAL]
    assert first_broken(rows) is None
    assert first_broken([erased(JOURNAL[0]), *JOURNAL[1:]]) is None
    assert all(row.view is None and row.salt == "" for row in rows)


def test_events_are_erased_with_the_payloads_of_their_row() -> None:
    rows = a_journal([a_claim(), replace(a_row(PAY, AFTER), events='[1,"look"]'), a_claim(epoch=2)])
    rows[1] = erased(rows[1])
    assert rows[1].events == ""
    assert first_broken(rows) is None
    rows[1] = replace(rows[1], events='[1,"look"]')
    assert first_broken(rows) is rows[1]


def test_erasing_hides_no_other_change() -> None:
    rows = list(JOURNAL)
    rows[2] = replace(erased(rows[2]), epoch=9)
    assert first_broken(rows) is rows[2]
    rows[2] = replace(erased(JOURNAL[2]), record=ErasedRecord("another digest"))
    assert first_broken(rows) is rows[2]


def test_the_salt_keeps_the_digest_of_a_payload_from_being_guessed() -> None:
    row = a_row(PAY, record="guess me")
    left = {erased(replace(row, salt=salt)).record for salt in ("", "a", "b")}
    assert len(left) == 3

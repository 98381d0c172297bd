"""Payloads of rows are written down once, and come back exactly."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pilotage.adapters.sqlalchemy.columns import from_packed, to_packed
from pilotage.adapters.sqlalchemy.rows import (
    COLUMNS,
    Columns,
    Page,
    Payloads,
    echoed_rows,
    payloads_of,
    record_of,
    view_of,
)
from pilotage.adapters.sqlalchemy.rows import rows_of as stored_rows
from pilotage.adapters.sqlalchemy.store import SqlAlchemyStore
from pilotage.agent.ports.persistence import JournalRow, JournalStage, SealedRecord, UnreadableRecord
from pilotage.jsonvalue import JsonValue
from pilotage.testing.conformance.kit import RUN, commit_of, row, rows_of

LONG = "what the tool found, " * 10
JSON = st.recursive(
    st.none() | st.integers() | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=8,
)


def told(seq: int, *results: JsonValue) -> JournalRow:
    """A row that tells results, and records nothing."""
    events: list[JsonValue] = [{"event": {"kind": "result", "result": result}} for result in results]
    return replace(row(seq, record=None, view={"events": events}), kind=None, stage=JournalStage.TOLD)


def done(seq: int, result: JsonValue) -> JournalRow:
    """A row that records a result, and shows it to everybody."""
    return row(seq, record={"result": result}, view={"result": result})


def read_back(rows: list[JournalRow]) -> list[tuple[object, object]]:
    stored = payloads_of(rows)
    by_seq = {each.seq: payloads for each, payloads in zip(rows, stored, strict=True)}
    return [
        (record_of(each.record, each.key_id), view_of(each, lambda seq: by_seq[seq].record))
        for each in stored
    ]


def test_what_is_told_of_a_result_is_stored_with_the_result() -> None:
    rows = [done(4, LONG), told(5, LONG)]
    recorded, pointing = payloads_of(rows)
    assert recorded.view is None
    assert pointing.view is not None
    assert LONG not in pointing.view
    assert list(echoed_rows(pointing.view)) == [4]
    assert read_back(rows)[1] == (None, rows[1].view)


def test_what_is_short_or_said_by_nobody_else_is_stored_as_it_is() -> None:
    for rows in ([done(1, "short"), told(2, "short")], [done(1, LONG), told(2, LONG[::-1])]):
        view = payloads_of(rows)[1].view
        assert view is not None
        assert view.startswith("{")


def test_a_sealed_record_is_not_pointed_to() -> None:
    sealed = row(1, record=SealedRecord("key", LONG), view={"result": "masked"})
    stored = payloads_of([sealed, told(2, LONG)])
    assert stored[0] == Payloads(LONG, '{"result":"masked"}', "key")
    assert list(echoed_rows(stored[1].view)) == []


@given(st.lists(st.text(min_size=60, max_size=90) | JSON, min_size=1, max_size=4), st.data())
def test_whatever_rows_of_a_commit_say_comes_back(results: list[JsonValue], data: st.DataObject) -> None:
    said = data.draw(st.lists(st.sampled_from(results) | JSON, max_size=5))
    rows = [done(seq, result) for seq, result in enumerate(results, start=1)]
    rows.append(told(len(rows) + 1, *said))
    rows.append(row(len(rows) + 1, record={"result": results[0]}, view={"result": results[0], "more": said}))
    assert read_back(rows) == [(each.record, each.view) for each in rows]


async def test_a_page_that_begins_between_a_result_and_what_is_told_of_it_is_read(
    store: SqlAlchemyStore,
) -> None:
    rows = [done(1, LONG), done(2, [LONG * 50]), told(3, LONG, [LONG * 50]), row(4)]
    await store.journal.commit([commit_of(*rows)])
    for after in range(4):
        found = await rows_of(store.journal, RUN, after=after)
        assert [each.view for each in found] == [each.view for each in rows[after:]]


def columns_of(rows: list[JournalRow]) -> list[Columns]:
    """The columns of rows as a database gives them."""
    found: list[Columns] = []
    for each, stored in zip(rows, payloads_of(rows), strict=True):
        given = {
            "stage": each.stage.value,
            "idempotency": each.idempotency.value,
            "kind": each.kind,
            "created_at": 1_795_000_000_000_000,
            **{name: bytes(to_packed(getattr(each, name))) for name in ("fingerprint", "digest", "salt")},
            **stored._asdict(),
        }
        found.append((each.seq, *(given.get(name, getattr(each, name, None)) for name in COLUMNS)))
    return found


@given(st.lists(st.text(min_size=60, max_size=90) | JSON, min_size=1, max_size=4), st.data())
def test_the_texts_that_a_digest_covers_are_those_that_were_written(
    results: list[JsonValue], data: st.DataObject
) -> None:
    said = data.draw(st.lists(st.sampled_from(results) | JSON, max_size=5))
    rows = [done(seq, result) for seq, result in enumerate(results, start=1)]
    rows.append(told(len(rows) + 1, *said))
    rows.append(row(len(rows) + 1, record={"result": results[0]}, view={"result": results[0], "more": said}))
    read = stored_rows(Page(columns_of(rows)))
    # Twice: what is put together once is the same afterwards.
    for _ in range(2):
        assert [each.source and each.source.payloads for each in read] == [
            (each.texts.record_json, each.texts.view_json) for each in rows
        ]
        assert [(each.record, each.view) for each in read] == [(each.record, each.view) for each in rows]


def test_a_view_that_points_to_a_row_that_is_not_there_cannot_be_read() -> None:
    rows = [done(4, LONG), told(5, LONG)]
    (alone,) = stored_rows(Page(columns_of(rows)[1:]))
    assert alone.view is None
    assert alone.source is not None
    with pytest.raises(LookupError):
        _ = alone.source.payloads


def test_columns_that_describe_no_row_are_named() -> None:
    (columns,) = columns_of([done(4, "short")])
    place = 1 + COLUMNS.index("stage")
    (unreadable,) = stored_rows(Page([(*columns[:place], "later", *columns[place + 1 :])]))
    assert unreadable.record == UnreadableRecord("'later' is no kind, stage or class of actions")


@given(st.text() | st.binary().map(bytes.hex))
def test_every_text_comes_back_from_its_bytes(text: str) -> None:
    assert from_packed(to_packed(text)) == text


@pytest.mark.parametrize("text", ["", "0a", "0A", "0 a", "abc", "ff" * 32, "\ud83d", "~x"])
def test_texts_that_look_like_hex_digits_and_others_are_told_apart(text: str) -> None:
    assert from_packed(to_packed(text)) == text


def test_hex_digits_take_half_the_room() -> None:
    assert len(to_packed("ab" * 32)) == 33

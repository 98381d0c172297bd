"""Every table has one decoder: a column with a value that it cannot have is a damage that names the entry."""

from __future__ import annotations

import importlib
import pkgutil
from collections.abc import Iterator
from datetime import UTC, datetime
from typing import Any

import pytest
from sqlalchemy.dialects import sqlite

import pilotage.adapters.sqlalchemy as adapter
from pilotage.adapters.sqlalchemy.columns import ExactText, HexText, MomentColumn, Undecodable
from pilotage.adapters.sqlalchemy.stored_entries import COVERED, NO_CODES, RowCodes, StoredEntry
from pilotage.adapters.sqlalchemy.tables import metadata
from pilotage.errors import DamagedEntryError

NO_ENTRIES = {
    "pilotage_journal": "rows.rows_of decodes its rows, and the chain of their run checks them",
    "pilotage_blobs": "texts of rows of the journal",
    "pilotage_media": "bytes, checked by their digest, which is in the rows of the journals",
    "pilotage_media_uses": "which runs hold which bytes; no answer is made of them",
    "pilotage_leases": "who may try next; no answer is made of them",
    "pilotage_memory_words": "an index of the memories",
    "pilotage_keys": "ids of keys, compared at start-up",
}


def entries() -> Iterator[StoredEntry[Any]]:
    """The decoders that the modules of the adapter define."""
    for module in pkgutil.iter_modules(adapter.__path__):
        named = vars(importlib.import_module(f"{adapter.__name__}.{module.name}"))
        yield from (each for each in named.values() if isinstance(each, StoredEntry))


KINDS = {each.table.name: each for each in entries()}
COLUMNS = [(name, column) for name, kind in sorted(KINDS.items()) for column in kind.columns]
WRONG: dict[type, list[object]] = {
    str: [7, b"x", Undecodable("no text")],
    int: ["x", 1.5, b"x"],
    bool: ["x", 7],
    datetime: [7, "x", Undecodable("no moment")],
    float: ["x"],
}
RIGHT: dict[type, object] = {
    str: "x",
    int: 1,
    bool: True,
    float: 1.0,
    datetime: datetime(2026, 1, 1, tzinfo=UTC),
}


def test_every_table_of_the_schema_has_a_decoder() -> None:
    """A new table that nothing decodes here fails this test."""
    assert KINDS.keys() | NO_ENTRIES.keys() == set(metadata.tables)
    assert not KINDS.keys() & NO_ENTRIES.keys()


def test_every_table_with_codes_is_decoded_here() -> None:
    assert COVERED.keys() <= KINDS.keys()


def sample(kind: StoredEntry[Any]) -> dict[str, Any]:
    """A row whose columns have the types of their table, and mean nothing."""
    values = {column.name: None for column in kind.table.c}
    return {**values, **{name: RIGHT[type_] for name, type_, _ in kind.columns}}


@pytest.mark.parametrize(
    ("table", "column"), COLUMNS, ids=lambda each: str(each if isinstance(each, str) else each[0])
)
def test_a_value_of_another_type_is_named_by_its_entry_and_column(
    table: str, column: tuple[str, type, bool]
) -> None:
    kind, (name, type_, may_be_empty) = KINDS[table], column
    for wrong in (*WRONG[type_], *(() if may_be_empty else (None,))):
        row = {**sample(kind), name: wrong}
        with pytest.raises(DamagedEntryError, match=f"column '{name}'") as caught:
            kind.decoded(row)
        assert kind.name(row) in str(caught.value)


@pytest.mark.parametrize("table", sorted(KINDS.keys() & COVERED.keys()))
def test_a_row_without_a_code_is_damaged_where_rows_have_codes(table: str) -> None:
    kind = KINDS[table]
    row = {**sample(kind), "head": 1}
    with pytest.raises(DamagedEntryError, match="not stored as it was written"):
        kind.check(RowCodes([b"k" * 32]), row)
    kind.check(NO_CODES, row)


@pytest.mark.parametrize(
    ("type_", "stored"),
    [
        (ExactText(), b"\xff"),
        (ExactText(), "~\\uZZ"),
        (ExactText(), "~ü"),
        (HexText(), "x"),
        (HexText(), b"~\xff"),
        (MomentColumn(), "x"),
        (MomentColumn(), 10**30),
    ],
)
def test_a_column_that_cannot_be_decoded_raises_where_its_row_is_known(type_: Any, stored: object) -> None:
    convert = type_.result_processor(sqlite.dialect(), None)
    assert isinstance(convert(stored), Undecodable)
    assert convert(None) is None

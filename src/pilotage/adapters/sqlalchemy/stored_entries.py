"""Stored rows as values: the only place where a row of a table other than the journal is decoded.

A row is checked before it is believed: each column has a value of its type, the code fits, and the value can be made.
What fails is a `DamagedEntryError` that names the entry and its run, whoever reads it. Rows of journals are decoded by
`rows.row_of`, and the chain of their run checks them. Pure: no I/O.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from datetime import datetime
from typing import Any, Generic, TypeVar

import sqlalchemy as sa
from sqlalchemy import Column, Table

from pilotage.adapters.sqlalchemy.codes import COVERED, RowCodes
from pilotage.adapters.sqlalchemy.columns import UNDECODABLE, HexText, MomentColumn, Undecodable
from pilotage.adapters.sqlalchemy.mapping import (
    Stored,
    entry_of,
    evidence_of,
    signal_of,
    state_of,
    turn_of,
)
from pilotage.adapters.sqlalchemy.tables import evidence, outbox, runs, signals, turns
from pilotage.errors import AgentDefinitionError, DamagedEntryError

T = TypeVar("T")

_TYPES: Sequence[tuple[type[Any], type]] = (
    (MomentColumn, datetime),
    (HexText, str),
    (sa.Boolean, bool),
    (sa.Integer, int),
    (sa.Float, float),
)
"""The types of columns and of their values; all other columns are texts."""


class StoredEntry(Generic[T]):
    """How the rows of one table become values.

    `needs` are columns that the schema allows to be empty and this value does not, `beside` columns that the value has
    and no code covers. `has_code` says of a row whether it must have a code; those of a table without codes have none.
    """

    def __init__(
        self,
        table: Table,
        name: Callable[[Stored], str],
        make: Callable[[Stored], T],
        *,
        needs: Sequence[str] = (),
        beside: Sequence[str] = (),
        has_code: Callable[[Stored], bool] = lambda _: True,
    ) -> None:
        self.table, self.name = table, name
        self._make, self._has_code = make, has_code
        names = (*COVERED.get(table.name, ()), *beside)
        self.columns = tuple(_expected(table.c[each], is_needed=each in needs) for each in names)
        """The columns that the value is made of: their names, the types of their values, whether they may be empty."""

    def read(self, codes: RowCodes, stored: Stored) -> T:
        """Return the value of a row that is stored as it was written.

        Raises:
            DamagedEntryError: it is not, or it cannot be decoded.
        """
        self.check(codes, stored)
        return self.decoded(stored)

    def check(self, codes: RowCodes, stored: Stored) -> None:
        """Check that a row is stored as it was written.

        Raises:
            DamagedEntryError: it is not.
        """
        if not codes.is_on or self.table.name not in COVERED:
            return
        if self._has_code(stored) and not codes.fit(self.table, stored):
            raise DamagedEntryError.changed(self.name(stored))

    def decoded(self, stored: Stored) -> T:
        """Return the value of a row that this transaction wrote, or whose code the caller judges.

        Raises:
            DamagedEntryError: it cannot be decoded.
        """
        try:
            for name, kind, may_be_empty in self.columns:
                found = stored[name]
                if not (found is None and may_be_empty) and type(found) is not kind:
                    raise TypeError(_misfit(name, found))
            return self._make(stored)
        except (*UNDECODABLE, AgentDefinitionError) as error:
            raise DamagedEntryError.unreadable(self.name(stored), error) from error


def _expected(column: Column[Any], *, is_needed: bool) -> tuple[str, type, bool]:
    """Return the name of a column, the type of its values, and whether it may be empty."""
    kind = next((kind for type_, kind in _TYPES if isinstance(column.type, type_)), str)
    return column.name, kind, bool(column.nullable) and not is_needed


def _misfit(name: str, found: object) -> str:
    reason = str(found) if isinstance(found, Undecodable) else f"it is {type(found).__name__}"
    return f"column {name!r}: {reason}"


def _of_run(what: str, column: str) -> Callable[[Stored], str]:
    return lambda stored: f"{what} {stored[column]!r} of run {stored['run_id']!r}"


STATES = StoredEntry(
    runs,
    lambda stored: f"run {stored['run_id']!r}",
    state_of,
    needs=("status", "agent_type", "state"),
    # A state that was saved without a journal has no code.
    has_code=lambda stored: bool(stored["head"]) or stored["code"] is not None,
)
SIGNALS = StoredEntry(signals, _of_run("signal", "signal_id"), signal_of, beside=("consumed_at", "end"))
EVIDENCE = StoredEntry(evidence, _of_run("evidence", "evidence_id"), evidence_of)
FACTS = StoredEntry(outbox, _of_run("fact", "number"), entry_of, beside=("status", "failures", "problem"))
TURNS = StoredEntry(
    turns, lambda stored: f"turn {stored['number']} of conversation {stored['conversation_id']!r}", turn_of
)

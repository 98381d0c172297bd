"""Stored rows as values, and the codes that they are checked with.

This is the only place where a row of a table other than the journal is decoded. A row is checked first: each column has
a value of its type, the code fits, and the value can be made. What fails is a `DamagedEntryError` that names the entry
and its run. Rows of journals are decoded by `rows.rows_of`, and the chain of their run checks them.

The journal has its chain; every other row that an answer is made of has a code, a keyed digest of its table and its
columns. A row that this application did not write, or that was changed since, is found by its code. The key is derived
from that of the application, which a writer to the database does not have. Without a key rows have no codes.

Pure, but for `recode`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import UTC, datetime
from hashlib import blake2b
from hmac import compare_digest
from typing import Any, Generic, TypeVar

import sqlalchemy as sa
from sqlalchemy import Column, Connection, Table, and_, select, update

from pilotage.adapters.sqlalchemy.columns import UNDECODABLE, HexText, MomentColumn, Undecodable, to_packed
from pilotage.adapters.sqlalchemy.mapping import (
    Stored,
    Values,
    audit_entry_of,
    entry_of,
    evidence_of,
    late_outcome_of,
    signal_of,
    state_of,
    turn_of,
)
from pilotage.adapters.sqlalchemy.tables import (
    audit,
    counts,
    evidence,
    late_outcomes,
    memories,
    outbox,
    runs,
    signals,
    spending,
    switches,
    tool_pins,
    turns,
)
from pilotage.errors import AgentDefinitionError, DamagedEntryError
from pilotage.ids import IClock, SystemClock
from pilotage.jsonvalue import canonical_json, to_bytes

T = TypeVar("T")

_TYPES: Sequence[tuple[type[Any], type]] = (
    (MomentColumn, datetime),
    (HexText, str),
    (sa.Boolean, bool),
    (sa.Integer, int),
    (sa.Float, float),
)
"""The types of columns and of their values; all other columns are texts."""

_OF_RUN = ("tenant_id", "run_id")
COVERED: Mapping[str, tuple[str, ...]] = {
    runs.name: (
        *(*_OF_RUN, "head", "epoch", "digest", "status", "agent_type", "state", "ended"),
        *("created_at", "updated_at", "wake_at", "awaits", "quarantined"),
        *("facts", "records", "turns", "ended_signals", "parent_id", "conversation_id"),
    ),
    signals.name: (*_OF_RUN, "number", "signal_id", "kind", "payload", "created_at"),
    evidence.name: (*_OF_RUN, "evidence_id", "number", "kind", "manifest_ref", "document", "created_at"),
    turns.name: (
        *("tenant_id", "conversation_id", "number", "role", "content", "trust", "run_id", "created_at"),
    ),
    outbox.name: (*_OF_RUN, "number", "event_type", "version", "payload", "created_at"),
    late_outcomes.name: (*_OF_RUN, "action_id", "attempt", "epoch", "view", "created_at"),
    switches.name: ("kind", "name", "reason", "by", "since"),
    tool_pins.name: ("source", "tool", "digest", "definition", "by", "accepted_at"),
    audit.name: (*_OF_RUN, "evidence_ref", "document", "occurred_at"),
    memories.name: (
        *("tenant_id", "user_id", "agent_type", "item_id", "kind", "text", "label", "metadata"),
        "created_at",
    ),
    spending.name: ("tenant_id", "hour", "steps", "tool_calls", "tokens", "cost"),
    counts.name: ("entries", "scope", "count", "changes"),
}
"""The columns of each table that its codes cover. Columns about the storage of a row or its owner are left out."""

COVERED_IF_SET: Mapping[str, tuple[str, ...]] = {memories.name: ("expires_at",), turns.name: ("media",)}
"""Columns of later versions: a code covers them after the others where they have a value, so older codes stay valid."""

_END = ("tenant_id", "run_id", "signal_id", "consumed_at", "end")


class RowCodes:
    """Makes and checks the codes of rows; the first of the keys makes them, all of them check them."""

    def __init__(self, keys: Iterable[bytes] = (), clock: IClock | None = None) -> None:
        self._keys = tuple(keys)
        self._clock = clock or SystemClock()

    @property
    def is_on(self) -> bool:
        """Whether rows have codes."""
        return bool(self._keys)

    def now(self) -> datetime | None:
        """Return the time of a row that is written now; None without codes, and then the store gives it."""
        return self._clock.now() if self._keys else None

    def add(self, table: Table, values: Values, *, time: str = "created_at", given: str = "given_at") -> None:
        """Add its code to the columns of a new row, and its time, which the code covers.

        The time is in the column `time` and among the given values under `given`.
        """
        values["code"] = None
        values.setdefault(given, None)
        if self._keys:
            values[given] = values[given] or self._clock.now()
            values["code"] = self.packed(table, {**values, time: values[given]})

    def packed(self, table: Table, values: Stored) -> bytearray | None:
        """Return the code of a row as it is written; None without codes."""
        return to_packed(self.text(table, values) or "") if self._keys else None

    def text(self, table: Table, values: Stored) -> str | None:
        """Return the code of a row; None without codes."""
        return _code(self._keys[0], table.name, COVERED[table.name], values) if self._keys else None

    def end_of_signal(self, values: Stored) -> bytearray | None:
        """Return the code of a signal's end as it is written; None without codes."""
        text = self.end_text(values)
        return None if text is None else to_packed(text)

    def end_text(self, values: Stored) -> str | None:
        """Return the code of a signal's end; None without codes."""
        return _code(self._keys[0], "end", _END, values) if self._keys else None

    def fit(self, table: Table, stored: Stored) -> bool:
        """Return whether a stored row is as it was written; always without codes."""
        if not self._keys:
            return True
        return self._fits(table.name, COVERED[table.name], stored, stored["code"])

    def fit_end(self, stored: Stored) -> bool:
        """Return whether the end of a stored signal is as it was written; always without codes."""
        if not self._keys:
            return True
        if stored["consumed_at"] is None:
            return stored["end"] is None and stored["end_code"] is None
        return self._fits("end", _END, stored, stored["end_code"])

    def _fits(self, name: str, covered: Iterable[str], stored: Stored, code: str | None) -> bool:
        return code is not None and any(
            compare_digest(_code(key, name, covered, stored), code) for key in self._keys
        )


NO_CODES = RowCodes()


def _code(key: bytes, name: str, covered: Iterable[str], values: Stored) -> str:
    later = (values.get(column) for column in COVERED_IF_SET.get(name, ()))
    parts = [*(values[column] for column in covered), *(each for each in later if each is not None)]
    text = canonical_json([name, *map(_plain, parts)])
    return blake2b(to_bytes(text), key=key, digest_size=32).hexdigest()


def _plain(part: Any) -> Any:
    if isinstance(part, datetime):
        return part.astimezone(UTC).isoformat()
    return int(part) if isinstance(part, bool) else part


def recode(codes: RowCodes, connection: Connection, table: Table, *conditions: Any, **given: Any) -> None:
    """Write new codes for stored rows that this application has changed."""
    if not codes.is_on:
        return
    key = list(table.primary_key)
    for row in connection.execute(select(table).where(*conditions), given).mappings().all():
        values: Values = {"code": codes.text(table, row)}
        if table is signals and row["consumed_at"] is not None:
            values["end_code"] = codes.end_text(row)
        found = and_(*(column == row[column.name] for column in key))
        connection.execute(update(table).where(found).values(values))


class StoredEntry(Generic[T]):
    """The conversion of the rows of one table into values.

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
        """Return the value of a row that this transaction wrote, or whose code the caller checks.

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
LATE_OUTCOMES = StoredEntry(
    late_outcomes,
    lambda stored: f"the late outcome of {stored['action_id']!r} in run {stored['run_id']!r}",
    late_outcome_of,
)
AUDIT_ENTRIES = StoredEntry(
    audit,
    lambda stored: f"an audit entry of run {stored['run_id']!r}, about {stored['evidence_ref']!r},",
    audit_entry_of,
)

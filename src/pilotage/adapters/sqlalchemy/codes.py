"""Codes of rows: a row that this application did not write, or that was changed since, is found by its code.

The journal has its chain; every other row that an answer is made of has a code, a keyed digest of its table and its
columns. The key is derived from that of the application, which a writer to the database does not have. Without a key
rows have no codes. Pure, but for the functions that write codes of rows that are stored already.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from datetime import UTC, datetime
from hashlib import blake2b
from hmac import compare_digest
from typing import Any

from sqlalchemy import Connection, Table, and_, select, update

from pilotage.adapters.sqlalchemy.columns import to_packed
from pilotage.adapters.sqlalchemy.mapping import Stored, Values
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
    turns,
)
from pilotage.ids import IClock, SystemClock
from pilotage.jsonvalue import canonical_json, to_bytes

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
    audit.name: (*_OF_RUN, "evidence_ref", "document", "occurred_at"),
    memories.name: (
        *("tenant_id", "user_id", "agent_type", "item_id", "kind", "text", "label", "metadata"),
        "created_at",
    ),
    spending.name: ("tenant_id", "hour", "steps", "tool_calls", "tokens", "cost"),
    counts.name: ("entries", "scope", "count", "changes"),
}
"""The columns of each table that its codes cover. What is left out is how a row is stored or who works on it."""

COVERED_IF_SET: Mapping[str, tuple[str, ...]] = {memories.name: ("expires_at",)}
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
    said = [*(values[column] for column in covered), *(each for each in later if each is not None)]
    text = canonical_json([name, *map(_plain, said)])
    return blake2b(to_bytes(text), key=key, digest_size=32).hexdigest()


def _plain(said: Any) -> Any:
    if isinstance(said, datetime):
        return said.astimezone(UTC).isoformat()
    return int(said) if isinstance(said, bool) else said


def recode(codes: RowCodes, connection: Connection, table: Table, *conditions: Any, **given: Any) -> None:
    """Write the codes of rows that are stored and were changed by right."""
    if not codes.is_on:
        return
    key = list(table.primary_key)
    for row in connection.execute(select(table).where(*conditions), given).mappings().all():
        values: Values = {"code": codes.text(table, row)}
        if table is signals and row["consumed_at"] is not None:
            values["end_code"] = codes.end_text(row)
        found = and_(*(column == row[column.name] for column in key))
        connection.execute(update(table).where(found).values(values))

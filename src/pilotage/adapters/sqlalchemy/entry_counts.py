"""Counts of entries beside the journals, and the check of all entries of a run.

Codes find an entry that was changed. Counts find one that was deleted: a switch, an hour of spending, a memory. Entries
are counted by scope, in the transaction that adds or removes them, in rows with codes of their own. Hours of spending
are added up instead: one that was moved out of the hours that are read is missed as well. The row of no scope counts
the scopes of a table whose scopes are no runs: a count that was deleted together with its entries is missed, too.
Without a key there are no counts. Older entries that are put back together with their older counts are not found here:
see `heads`.

In the check of a run every entry must be as it was written, by its code, and none may be missing: signals and facts are
numbered without gaps, evidence is numbered in its order, turns are counted in the row of the run.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any

import sqlalchemy as sa
from sqlalchemy import Connection, Select, Table, bindparam, delete, func, select, update

from pilotage.adapters.sqlalchemy.columns import epoch_hour
from pilotage.adapters.sqlalchemy.mapping import Stored, Values
from pilotage.adapters.sqlalchemy.statements import Condition, bulk_insert, of_run, place_of
from pilotage.adapters.sqlalchemy.stored_entries import (
    AUDIT_ENTRIES,
    EVIDENCE,
    FACTS,
    LATE_OUTCOMES,
    SIGNALS,
    TURNS,
    RowCodes,
    StoredEntry,
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
from pilotage.agent.ports.journal import EntryCount
from pilotage.agent.ports.persistence import RunKey
from pilotage.errors import DamagedEntryError
from pilotage.jsonvalue import canonical_json
from pilotage.runtime.journal.stored_words import REFUSED_ANSWER

WHOLE = ""
"""The scope of everything: all entries of a table without scopes, else all its scopes."""
_SCOPES: Mapping[Table, tuple[str, ...]] = {
    switches: (),
    tool_pins: (),
    spending: ("tenant_id",),
    memories: ("tenant_id", "user_id"),
    audit: ("tenant_id", "run_id"),
    late_outcomes: ("tenant_id", "run_id"),
}
_OF_RUNS = (audit, late_outcomes)
_WEIGHTS: Mapping[Table, sa.ColumnElement[int]] = {spending: epoch_hour(spending.c.hour)}
"""What an entry counts for where it is more than one: an hour of spending that was moved to another one is missed."""
_KINDS: Sequence[StoredEntry[Any]] = (SIGNALS, EVIDENCE, FACTS, TURNS, LATE_OUTCOMES, AUDIT_ENTRIES)
_RUN = select(runs).where(*of_run(runs))
_ENTRIES = {kind.table: select(kind.table).where(*of_run(kind.table)) for kind in _KINDS}
_ENTRIES[evidence] = _ENTRIES[evidence].order_by(evidence.c.position)

_INSERT = bulk_insert(counts, ("entries", "scope", "count", "changes", "code"), skips_known=True)
_ONE = select(counts).where(
    counts.c.entries == bindparam("of_table"), counts.c.scope == bindparam("of_scope")
)
_SET = update(counts).where(
    counts.c.entries == bindparam("of_table"), counts.c.scope == bindparam("of_scope")
)
_NUMBER_OF_SCOPES = select(func.count()).where(
    counts.c.entries == bindparam("of_table"), counts.c.scope != WHOLE
)


def add_entries(
    codes: RowCodes, connection: Connection, table: Table, number: int, scope: Sequence[str] = ()
) -> None:
    """Count entries that a transaction adds to a scope of a table, or removes from it where the number is negative."""
    add_to_scopes(codes, connection, table, {tuple(scope): number})


def add_to_scopes(
    codes: RowCodes, connection: Connection, table: Table, numbers: Mapping[tuple[str, ...], int]
) -> None:
    """Count entries of several scopes.

    Every transaction locks the counts in this order: those of scopes by their names, then that of the table.
    """
    if not codes.is_on:
        return
    begun = sum(_add(codes, connection, table, scope, numbers[scope]) for scope in sorted(numbers))
    if begun:
        _add(codes, connection, table, (), begun)


def _add(codes: RowCodes, connection: Connection, table: Table, scope: Sequence[str], number: int) -> bool:
    """Add to the count of a scope, and return whether that begins a scope which the table counts."""
    if not number:
        return False
    begins = False
    place = _place(table, scope_text(scope))
    found = connection.execute(_ONE.with_for_update(), place).mappings().first()
    if found is None:
        row = _row(codes, table, scope_text(scope), 0)
        begins = bool(_INSERT.run(connection, [row]) and scope and table not in _OF_RUNS)
        found = connection.execute(_ONE.with_for_update(), place).mappings().one()
    _COUNTS.check(codes, found)
    changed: Values = {"count": _COUNTS.decoded(found) + number, "changes": found["changes"] + 1}
    code = codes.text(counts, {**found, **changed})
    connection.execute(_SET.values(**changed, code=code), place)
    return begins


def weight_of(hour: datetime) -> int:
    """Return what an hour of spending counts for."""
    return int(hour.timestamp()) // 3_600


def _number_in(table: Table) -> sa.ColumnElement[int]:
    """Return the number of selected entries, each with its weight."""
    weight = _WEIGHTS.get(table)
    if weight is None:
        return func.count()
    return sa.cast(func.coalesce(func.sum(weight), 0), sa.BigInteger)


def count_all(codes: RowCodes, connection: Connection) -> None:
    """Count the entries that are stored when counting begins."""
    connection.execute(delete(counts))
    for table, names in _SCOPES.items():
        columns = [table.c[name] for name in names]
        query = select(_number_in(table), *columns).select_from(table).group_by(*columns)
        found = connection.execute(query).all()
        rows = [_row(codes, table, scope_text(each[1:]), each[0]) for each in found if names]
        if table not in _OF_RUNS:
            rows.append(_row(codes, table, WHOLE, len(found) if names else found[0][0]))
        _INSERT.run(connection, rows)


def count_new_tables(codes: RowCodes, connection: Connection) -> None:
    """Begin the counts of tables that an upgrade has made; they have no entries yet."""
    _INSERT.run(connection, [_row(codes, tool_pins, WHOLE, 0)])


def counted(table: Table, of_scope: Sequence[Condition], *wanted: Condition) -> Select[tuple[object, ...]]:
    """Return the query for wanted entries, which has the count of their scope, the stored number, and at least one row.

    The parameter `of_scope` is the text of the scope. An entry that is not there has no values.
    """
    stored = select(_number_in(table)).select_from(table).where(*of_scope).scalar_subquery()
    one = select(sa.literal(1).label("one")).subquery()
    is_counted = sa.and_(counts.c.entries == _short(table), counts.c.scope == bindparam("of_scope"))
    source = one.outerjoin(counts, is_counted).outerjoin(table, sa.and_(sa.true(), *of_scope, *wanted))
    number = (
        counts.c.count.label("counted"),
        counts.c.changes.label("counted_changes"),
        counts.c.code.label("counted_code"),
        stored.label("stored"),
    )
    return select(*number, *table.c).select_from(source)


def check_counted(
    codes: RowCodes, connection: Connection, table: Table, found: Stored, scope: Sequence[str] = ()
) -> None:
    """Check that the entries of a scope are as many as were counted, by a row of a `counted` query.

    Raises:
        DamagedEntryError: an entry is missing, or the count is.
    """
    number = found["counted"]
    if number is None and not (table in _OF_RUNS or _has_no_count(codes, connection, table, scope)):
        raise DamagedEntryError.changed(_name(table))
    if number is not None:
        row = {**_named(table, scope_text(scope)), "count": number, "changes": found["counted_changes"]}
        number = _COUNTS.read(codes, {**row, "code": found["counted_code"]})
    if (number or 0) != found["stored"]:
        raise missing(table, number or 0, found["stored"])


def check_scope(
    codes: RowCodes,
    connection: Connection,
    table: Table,
    conditions: Sequence[Condition],
    scope: Sequence[str],
) -> None:
    """Check that the entries of a scope are as many as were counted; for reads where speed does not matter.

    Raises:
        DamagedEntryError: an entry is missing, or the count is.
    """
    if codes.is_on:
        query = counted(table, conditions).limit(1)
        found = connection.execute(query, {"of_scope": scope_text(scope)}).mappings().one()
        check_counted(codes, connection, table, found, scope)


def number_of_run(codes: RowCodes, connection: Connection, table: Table, run: RunKey) -> int | None:
    """Return how many entries of a run were counted; None where its count was changed."""
    place = _place(table, scope_text((run.tenant_id, run.run_id)))
    found = connection.execute(_ONE, place).mappings().first()
    if found is None:
        return 0
    return int(found["count"]) if codes.fit(counts, found) else None


def all_counts(codes: RowCodes, connection: Connection) -> list[EntryCount]:
    """Return all counts, in the order of tables and scopes.

    Raises:
        DamagedEntryError: one of them was changed or deleted.
    """
    found = connection.execute(select(counts).order_by(counts.c.entries, counts.c.scope)).mappings().all()
    for each in found:
        _COUNTS.read(codes, each)
    if codes.is_on:
        for table in _SCOPES.keys() - _OF_RUNS:
            _check_whole(table, [each for each in found if each["entries"] == _short(table)])
    return [EntryCount(each["entries"], each["scope"], each["changes"]) for each in found]


def _check_whole(table: Table, found: Sequence[Stored]) -> None:
    """Check that a table has the count of its scopes, and that all of them have a count."""
    whole = next((each["count"] for each in found if each["scope"] == WHOLE), None)
    if whole is None or (_SCOPES[table] and whole != len(found) - 1):
        raise DamagedEntryError.changed(_name(table))


def forget_runs(connection: Connection, table: Table, runs: Sequence[tuple[str, str]]) -> None:
    """Remove the counts of runs whose entries are removed."""
    for run in runs:
        place = _place(table, scope_text(run))
        connection.execute(
            delete(counts).where(
                counts.c.entries == bindparam("of_table"), counts.c.scope == bindparam("of_scope")
            ),
            place,
        )


def missing(table: Table, number: int, stored: int) -> DamagedEntryError:
    """Return the error that entries of a table are missing."""
    if table in _WEIGHTS:
        return DamagedEntryError.changed(_name(table))
    return DamagedEntryError(
        f"{_name(table)} is {number}, and {stored} are stored: entries were deleted. Restore them from a backup."
    )


def _has_no_count(codes: RowCodes, connection: Connection, table: Table, scope: Sequence[str]) -> bool:
    """Return whether a scope has never had an entry: then the table counts all the scopes that there are."""
    whole = connection.execute(_ONE, _place(table, WHOLE)).mappings().first()
    if not scope or whole is None or not codes.fit(counts, whole):
        return False
    return bool(connection.execute(_NUMBER_OF_SCOPES, {"of_table": _short(table)}).scalar() == whole["count"])


def scope_text(scope: Sequence[str]) -> str:
    """Return the text of a scope."""
    return canonical_json(list(scope)) if scope else WHOLE


def _row(codes: RowCodes, table: Table, scope: str, number: int) -> Values:
    row: Values = {**_named(table, scope), "count": number, "changes": 0}
    return {**row, "code": codes.packed(counts, row)}


def _named(table: Table, scope: str) -> dict[str, str]:
    return {"entries": _short(table), "scope": scope}


def _place(table: Table, scope: str) -> dict[str, str]:
    return {"of_table": _short(table), "of_scope": scope}


def _short(table: Table) -> str:
    return str(table.name).removeprefix("pilotage_")


def _name(table: Table) -> str:
    return _name_of(_named(table, WHOLE))


def _name_of(stored: Stored) -> str:
    return f"the count of {str(stored['entries']).replace('_', ' ')}"


_COUNTS = StoredEntry(counts, _name_of, lambda stored: int(stored["count"]))


def damage_beside_rows(connection: Connection, codes: RowCodes, run: RunKey) -> str | None:
    """Return the first entry of a run that is not as it was written, in words; None where all of them are."""
    place = place_of(run)
    found = connection.execute(_RUN, place).mappings().first()
    if found is None or not found["head"]:
        return None
    if not codes.fit(runs, found):
        return "its state and its head are not stored as they were written"
    entries = {table: connection.execute(query, place).mappings().all() for table, query in _ENTRIES.items()}
    for kind in _KINDS:
        damaged = next(filter(None, (_damage_of(kind, codes, each) for each in entries[kind.table])), None)
        if damaged is not None:
            return damaged
    for each in entries[signals]:
        if not codes.fit_end(each):
            return f"the end of signal {each['signal_id']!r} is not stored as it was written"
    return _missing(found, entries) or _missing_beside(connection, codes, run, entries)


def _damage_of(kind: StoredEntry[Any], codes: RowCodes, stored: Stored) -> str | None:
    if not codes.fit(kind.table, stored):
        return f"{kind.name(stored)} is not stored as it was written"
    try:
        kind.decoded(stored)
    except DamagedEntryError:
        return f"{kind.name(stored)} cannot be decoded"
    return None


def _missing(run: Stored, entries: Mapping[Table, Sequence[Stored]]) -> str | None:
    for table, last, what in ((signals, "last_signal", "signal"), (outbox, "facts", "fact")):
        numbers = sorted(each["number"] for each in entries[table])
        if len(numbers) != run[last] or numbers != list(range(1, len(numbers) + 1)):
            return f"it has {run[last]} {what}s, and {numbers} are stored"
    ended = sum(_is_ended_by_run(each) for each in entries[signals])
    if ended != run["ended_signals"]:
        return f"{run['ended_signals']} of its signals have an end, and {ended} are stored with one"
    places = [each["number"] for each in entries[evidence]]
    if len(places) != run["records"] or places != list(range(1, len(places) + 1)):
        return f"it has {run['records']} pieces of evidence, and {places} are stored, in this order"
    if len(entries[turns]) != run["turns"]:
        return f"it has {run['turns']} turns, and {len(entries[turns])} are stored"
    return None


def _missing_beside(
    connection: Connection, codes: RowCodes, run: RunKey, entries: Mapping[Table, Sequence[Stored]]
) -> str | None:
    """Return which late outcomes or audit entries are missing, by their counts."""
    for table, what in ((late_outcomes, "late outcomes"), (audit, "audit entries")) if codes.is_on else ():
        number = number_of_run(codes, connection, table, run)
        if number != len(entries[table]):
            return f"it has {number} {what}, and {len(entries[table])} are stored"
    return None


def _is_ended_by_run(signal: Stored) -> bool:
    """Return whether a commit of the run gave a signal its end; a refused answer is stored with its end."""
    return signal["consumed_at"] is not None and not signal["signal_id"].startswith(REFUSED_ANSWER)

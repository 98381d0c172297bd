"""What is stored of a run besides its rows, checked: its own row, signals, evidence, facts, turns, late outcomes.

Every entry must be as it was written, by its code, and none may be missing: signals and facts are numbered without
gaps, evidence is numbered in its order, turns are counted in the row of the run.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from sqlalchemy import Connection, Table, select

from pilotage.adapters.sqlalchemy.audit_log import AUDIT_ENTRIES
from pilotage.adapters.sqlalchemy.codes import RowCodes
from pilotage.adapters.sqlalchemy.entry_counts import number_of_run
from pilotage.adapters.sqlalchemy.late_outcomes import LATE_OUTCOMES
from pilotage.adapters.sqlalchemy.mapping import Stored
from pilotage.adapters.sqlalchemy.statements import of_run, place_of
from pilotage.adapters.sqlalchemy.stored_entries import EVIDENCE, FACTS, SIGNALS, TURNS, StoredEntry
from pilotage.adapters.sqlalchemy.tables import (
    audit,
    evidence,
    late_outcomes,
    outbox,
    runs,
    signals,
    turns,
)
from pilotage.agent.ports.persistence import RunKey
from pilotage.errors import DamagedEntryError
from pilotage.runtime.journal.stored_words import REFUSED_ANSWER

_KINDS: Sequence[StoredEntry[Any]] = (SIGNALS, EVIDENCE, FACTS, TURNS, LATE_OUTCOMES, AUDIT_ENTRIES)
_RUN = select(runs).where(*of_run(runs))
_ENTRIES = {kind.table: select(kind.table).where(*of_run(kind.table)) for kind in _KINDS}
_ENTRIES[evidence] = _ENTRIES[evidence].order_by(evidence.c.position)


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
    """Return which entries that others than the run write are missing, by their counts."""
    for table, what in ((late_outcomes, "late outcomes"), (audit, "audit entries")) if codes.is_on else ():
        number = number_of_run(codes, connection, table, run)
        if number != len(entries[table]):
            return f"it has {number} {what}, and {len(entries[table])} are stored"
    return None


def _is_ended_by_run(signal: Stored) -> bool:
    """Return whether a commit of the run gave a signal its end; a refused answer is stored with its end."""
    return signal["consumed_at"] is not None and not signal["signal_id"].startswith(REFUSED_ANSWER)

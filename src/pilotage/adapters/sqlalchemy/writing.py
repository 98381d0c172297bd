"""Writing a batch of commits.

PostgreSQL writes most batches in one statement: one trip, and a transaction by itself. The parts of that statement see
what was there before it, and no changes of each other. So no two parts write the same row, and the place of a journal
row comes from the part that writes its run. It is all or nothing: a row whose run has another head than expected has no
place, and that fails the statement.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from functools import cache
from typing import Any, TypeAlias

import sqlalchemy as sa
from sqlalchemy import Connection, Dialect
from sqlalchemy.dialects.postgresql.psycopg import PGDialect_psycopg
from sqlalchemy.sql.expression import ColumnElement

from pilotage.adapters.sqlalchemy.batch import Batch
from pilotage.adapters.sqlalchemy.columns import MomentColumn, from_stored, lease_seconds_from_now, now
from pilotage.adapters.sqlalchemy.database import Begin, Database
from pilotage.adapters.sqlalchemy.dialect import DatabaseLine, raising_sqlalchemy_errors
from pilotage.adapters.sqlalchemy.errors import ConflictingWriteError
from pilotage.adapters.sqlalchemy.evidence import INSERT_EVIDENCE
from pilotage.adapters.sqlalchemy.limits import settle_together
from pilotage.adapters.sqlalchemy.mapping import OF_WAITING, Values
from pilotage.adapters.sqlalchemy.memory import append_turns
from pilotage.adapters.sqlalchemy.statements import (
    Given,
    Types,
    bulk_delete,
    bulk_insert,
    bulk_update,
    compiled_text,
)
from pilotage.adapters.sqlalchemy.tables import PLACES, blobs, journal, leases, outbox, runs, signals
from pilotage.agent.ports.persistence import RunKey

_STATE = ("status", "agent_type", "state")
_HEAD = ("head", "epoch", "digest")
_RUN = ("tenant_id", "run_id")
_WRITTEN = (*_RUN, "last_signal", "position")
"""The columns that are returned for each written run."""
_COMPARED: Types = {"expected": sa.BigInteger(), "progress": sa.Boolean()}
_COUNTS = ("facts", "records", "turns", "ended_signals")
_REST = (*_HEAD, *_STATE, "ended", *OF_WAITING, *_COUNTS, "parent_id", "conversation_id", "code")
_TIMES: Types = {"given_at": MomentColumn(), "moment": MomentColumn()}


def _claims(given: Given) -> ColumnElement[int]:
    """Return the counted claims of a run: none after progress."""
    return sa.case((given["progress"], sa.literal_column("0", sa.Integer())), else_=runs.c.claims)


def _created(given: Given) -> Given:
    created_at = sa.func.coalesce(given["given_at"], now())
    return {
        "created_at": sa.case((given["status"].is_not(None), created_at)),
        "updated_at": sa.case((given["status"].is_not(None), sa.func.coalesce(given["moment"], now()))),
    }


def _moved(given: Given) -> Given:
    has_state = given["status"].is_not(None)
    return {
        **{name: given[name] for name in _HEAD},
        **{
            name: sa.func.coalesce(given[name], runs.c[name])
            for name in (*_STATE, "conversation_id", "parent_id")
        },
        "ended": given["ended"],
        **{name: given[name] for name in (*_COUNTS, "code")},
        "claims": _claims(given),
        "created_at": sa.case(
            (has_state, sa.func.coalesce(runs.c.created_at, given["given_at"], now())),
            else_=runs.c.created_at,
        ),
        "updated_at": sa.case((has_state, sa.func.coalesce(given["moment"], now())), else_=runs.c.updated_at),
        # A commit without a state leaves these; one with a state may end a wait.
        **{name: sa.case((has_state, given[name]), else_=runs.c[name]) for name in OF_WAITING},
    }


_INSERT_RUNS = bulk_insert(
    runs, (*_RUN, *_REST), _created, extra=_TIMES, skips_known=True, key=_RUN, returning=_WRITTEN
)

_MOVE_RUNS = bulk_update(
    runs,
    _RUN,
    _moved,
    {
        **{name: runs.c[name].type for name in _REST},
        **_TIMES,
        "known_signal": sa.BigInteger(),
        **_COMPARED,
    },
    lambda given: sa.and_(
        runs.c.head == given["expected"],
        # A commit that ends the run knows its last signal.
        sa.or_(given["known_signal"].is_(None), runs.c.last_signal <= given["known_signal"]),
    ),
    returning=_WRITTEN,
)

# Most commits do not change the state. Then no index of the table has to be updated, which is half of the work.
_ADVANCED = (*_HEAD, *_COUNTS, "code")

_ADVANCE_RUNS = bulk_update(
    runs,
    _RUN,
    lambda given: {**{name: given[name] for name in _ADVANCED}, "claims": _claims(given)},
    {**{name: runs.c[name].type for name in _ADVANCED}, **_COMPARED},
    lambda given: runs.c.head == given["expected"],
    returning=_WRITTEN,
)

_ROW = [column.name for column in journal.c if column.name not in ("place", "run", "created_at", "erased")]


def _placed(given: Given, position: ColumnElement[int]) -> Given:
    """Return the place of a journal row, by the position of its run, and its time."""
    return {
        "place": position * sa.literal_column(str(PLACES), sa.BigInteger()) + given["seq"],
        "run": position,
        # Asked once: rows need not be inserted in their order.
        "created_at": sa.func.coalesce(given["given_at"], sa.select(now()).scalar_subquery()),
    }


_INSERT_ROWS = bulk_insert(
    journal,
    _ROW,
    lambda given: _placed(given, given["position"]),
    extra={
        **{name: runs.c[name].type for name in (*_RUN, "position")},
        "seq": journal.c.run.type,
        "given_at": MomentColumn(),
    },
    beside=(runs, _RUN, "position"),
)

_INSERT_BLOBS = bulk_insert(
    blobs, ("tenant_id", "digest", "content"), lambda _: {"created_at": now()}, skips_known=True
)

_INSERT_EVENTS = bulk_insert(
    outbox,
    ("tenant_id", "run_id", "number", "event_type", "version", "payload", "code"),
    lambda given: {"created_at": sa.func.coalesce(given["given_at"], now())},
    extra={"given_at": MomentColumn()},
)

_CONSUME = bulk_update(
    signals,
    ("tenant_id", "run_id", "signal_id"),
    lambda given: {
        "consumed_at": sa.func.coalesce(given["given_at"], now()),
        "end": given["end"],
        "end_code": given["end_code"],
    },
    {"end": signals.c.end.type, "end_code": signals.c.end_code.type, "given_at": MomentColumn()},
    lambda _: signals.c.consumed_at.is_(None),
)

_GRANT_LEASES = bulk_insert(
    leases,
    ("tenant_id", "run_id", "owner", "granted_seconds"),
    lambda given: {"expires_at": lease_seconds_from_now(given["granted_seconds"])},
    replaces=_RUN,
)

_END_LEASES = bulk_delete(leases, _RUN)


LastSignals: TypeAlias = Mapping[RunKey, int]
"""The number of the last signal of each run that has one and was written."""


def write(database: Database, batch: Batch, begin: Begin) -> LastSignals:
    """Write a batch whose runs were not looked up, in one statement where that is possible.

    Raises:
        ConflictingWriteError, DBAPIError: a run has another head, or something exists already; nothing is written.
    """
    if not batch.runs:
        return {}
    # What is numbered or added up must be looked up first.
    engines = database.engines
    if engines.single is not None and not (batch.turns or batch.settled or batch.consumed):
        with engines.single() as connection:
            return _write_in_one_statement(connection, batch)
    with begin() as connection:
        return write_in_transaction(database, connection, batch)


def write_in_transaction(database: Database, connection: Connection, batch: Batch) -> LastSignals:
    """Write a batch in an open transaction.

    Raises:
        ConflictingWriteError, DBAPIError: a run has another head, or something exists already.
    """
    line = DatabaseLine(connection)
    made: list[Values] = []
    moved: list[Values] = []
    advanced: list[Values] = []
    for run in batch.columns_of_runs():
        # The first commit of a run may also name its parent.
        only_advances = run["status"] is None and run["expected"] > 0
        (made if not run["is_stored"] else advanced if only_advances else moved).append(run)
    # Runs that end release their conversations before others take them.
    of_runs = ((_MOVE_RUNS, moved), (_ADVANCE_RUNS, advanced), (_INSERT_RUNS, made))
    counted = ((_INSERT_ROWS, batch.journal), (_CONSUME, batch.consumed))
    beside = (
        (INSERT_EVIDENCE, batch.evidence),
        (_INSERT_EVENTS, batch.outbox),
        (_GRANT_LEASES, list(batch.leases.values())),
        (_END_LEASES, batch.ended),
    )
    with database.engines.in_one_trip(connection):
        if batch.blobs:
            _INSERT_BLOBS.send(line, batch.blobs)
        expected = [(bulk.send(line, rows), rows) for bulk, rows in of_runs if rows]
        if database.engines.answers_at_once:
            _place_rows(batch.journal, [found for sent, _ in expected for found in sent.fetchall()])
        sent_after = [(bulk.send(line, rows), rows) for bulk, rows in counted if rows]
        for bulk, rows in beside:
            if rows:
                bulk.send(line, rows)
    if any(sent.rowcount != len(rows) for sent, rows in (*expected, *sent_after)):
        raise ConflictingWriteError("another process has written at the same time")
    last_signals = _last_signals(found for sent, _ in expected for found in sent.fetchall())
    for key, added in sorted(batch.turns, key=lambda turn: (turn[0].tenant_id, turn[1].conversation_id)):
        append_turns(
            database, connection, key.tenant_id, added.conversation_id, added=added.turns, run_id=key.run_id
        )
    if batch.settled:
        settle_together(database.codes, connection, batch.settled)
    return last_signals


def _place_rows(rows: Iterable[Values], written: Iterable[tuple[Any, ...]]) -> None:
    """Add the position of its run to each row.

    Raises:
        ConflictingWriteError: a run does not exist.
    """
    positions = {(from_stored(tenant), from_stored(run)): position for tenant, run, _, position in written}
    try:
        for row in rows:
            row["position"] = positions[row["tenant_id"], row["run_id"]]
    except KeyError as error:
        raise ConflictingWriteError(f"there is no run {error.args[0][1]!r}") from error


def _last_signals(written: Iterable[tuple[Any, ...]]) -> LastSignals:
    return {
        RunKey(from_stored(tenant), from_stored(run)): number for tenant, run, number, _ in written if number
    }


_RUNS = {"moved": _MOVE_RUNS, "made": _INSERT_RUNS}
_BESIDE = {
    "blobs": _INSERT_BLOBS,
    "evidence": INSERT_EVIDENCE,
    "events": _INSERT_EVENTS,
    "granted": _GRANT_LEASES,
    "ended": _END_LEASES,
}
_CURSOR = "the cursor of pilotage"
_PARTS = {**_RUNS, **_BESIDE, "rows": _INSERT_ROWS}


def _statement(dialect: Dialect) -> Any:
    moved, made = _MOVE_RUNS.over("moved", dialect), _INSERT_RUNS.over("made", dialect)
    parts = [sa.select(moved.cte("moved")), sa.select(made.cte("made"))]
    beside = [bulk.over(name, dialect).cte(name) for name, bulk in _BESIDE.items()]
    written = sa.union_all(*parts).cte("written")
    rows = _rows_of(written).cte("appended")
    return sa.select(*(written.c[name] for name in _WRITTEN)).add_cte(rows, *beside)


def _rows_of(written: sa.FromClause) -> Any:
    source, given = _INSERT_ROWS.given_in("rows")
    # The text is no number, so that a row without a place fails the statement, with the reason.
    nowhere = sa.cast(
        sa.func.concat(sa.literal_column("'another writer has changed run '"), given["run_id"]), sa.BigInteger
    )
    values = {name: given[name] for name in _ROW}
    values |= _placed(given, sa.func.coalesce(written.c.position, nowhere))
    is_its_run = sa.and_(*(written.c[name] == given[name] for name in ("tenant_id", "run_id")))
    chosen = sa.select(*values.values()).select_from(source.outerjoin(written, is_its_run))
    return sa.insert(journal).from_select(list(values), chosen)


@cache
def _compiled() -> tuple[bytes, Sequence[str]]:
    """Return the statement with numbered parameters, and their names in order.

    The driver would search a text of this length for names every time; one with numbers it passes on unchanged.
    """
    dialect: Dialect = PGDialect_psycopg(paramstyle="numeric_dollar")  # type: ignore[no-untyped-call]
    text, order = compiled_text(_statement(dialect), dialect)
    return text.encode(), order


def _write_in_one_statement(connection: Connection, batch: Batch) -> LastSignals:
    """Write a batch on a connection on which each statement is a transaction."""
    runs_ = batch.columns_of_runs()
    rows = {
        "moved": [run for run in runs_ if run["is_stored"]],
        "made": [run for run in runs_ if not run["is_stored"]],
        "blobs": batch.blobs,
        "evidence": batch.evidence,
        "events": batch.outbox,
        "granted": list(batch.leases.values()),
        "ended": batch.ended,
        "rows": batch.journal,
    }
    statement, order = _compiled()
    with raising_sqlalchemy_errors(connection):
        cursor = _cursor_of(connection)
        cursor.execute(statement, [_PARTS[name].encoded(rows[name]) for name in order])
        return _last_signals(cursor.fetchall())


def _cursor_of(connection: Connection) -> Any:
    """Return a cursor that passes statements on unchanged; a new one for each statement takes a third longer."""
    known = connection.info
    if _CURSOR not in known:
        driver: Any = connection.dialect
        known[_CURSOR] = driver.loaded_dbapi.RawCursor(connection.connection.driver_connection)
    return known[_CURSOR]

"""All that commits write as one statement of PostgreSQL: one trip, and a transaction by itself.

The parts of a statement see what was there before it, and nothing of what the others write. So no two of them write the
same row, and where the rows of a journal belong comes from the part that writes their run.

All or nothing: a row whose run is not where it was expected has no place, and looking for that fails the statement.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache
from typing import Any

from sqlalchemy import (
    BigInteger,
    Connection,
    Dialect,
    FromClause,
    and_,
    cast,
    func,
    insert,
    literal_column,
    select,
    union_all,
)
from sqlalchemy.dialects.postgresql.psycopg import PGDialect_psycopg

from pilotage.adapters.sqlalchemy.batch import Batch, Writes
from pilotage.adapters.sqlalchemy.commit_statements import (
    END_LEASES,
    GRANT_LEASES,
    INSERT_BLOBS,
    INSERT_EVENTS,
    INSERT_EVIDENCE,
    INSERT_ROWS,
    INSERT_RUNS,
    MOVE_RUNS,
    ROW,
    placed,
)
from pilotage.adapters.sqlalchemy.driver import as_sqlalchemy_says_it, compiled_text
from pilotage.adapters.sqlalchemy.tables import journal, runs

_RUNS = {"moved": MOVE_RUNS, "made": INSERT_RUNS}
_BESIDE = {
    "blobs": INSERT_BLOBS,
    "evidence": INSERT_EVIDENCE,
    "events": INSERT_EVENTS,
    "granted": GRANT_LEASES,
    "ended": END_LEASES,
}
_CURSOR = "the cursor of pilotage"
_PARTS = {**_RUNS, **_BESIDE, "rows": INSERT_ROWS}


def _statement() -> Any:
    named = (runs.c.tenant_id, runs.c.run_id, runs.c.position)
    parts = [select(bulk.over(name).returning(*named).cte(name)) for name, bulk in _RUNS.items()]
    beside = [bulk.over(name).cte(name) for name, bulk in _BESIDE.items()]
    return _rows_of(union_all(*parts).subquery("written")).add_cte(*beside)


def _rows_of(written: FromClause) -> Any:
    source, given = INSERT_ROWS.given_in("rows")
    # The text is no number, so that whoever needs it fails, and says why.
    nowhere = cast(
        func.concat(literal_column("'somebody else has written to '"), given["run_id"]), BigInteger
    )
    values = {name: given[name] for name in ROW}
    values |= placed(given, func.coalesce(written.c.position, nowhere))
    is_its_run = and_(*(written.c[name] == given[name] for name in ("tenant_id", "run_id")))
    chosen = select(*values.values()).select_from(source.outerjoin(written, is_its_run))
    return insert(journal).from_select(list(values), chosen)


@cache
def _compiled() -> tuple[bytes, Sequence[str]]:
    """The statement with numbers for its parameters, and their names in this order.

    A text of this length the driver would search for names every time; one with numbers it passes on as it is.
    """
    dialect: Dialect = PGDialect_psycopg(paramstyle="numeric_dollar")  # type: ignore[no-untyped-call]
    text, order = compiled_text(_statement(), dialect)
    return text.encode(), order


def are_enough(writes: Writes) -> bool:
    """Whether the statement writes all of this: what has to be numbered or added up takes a look first."""
    return not (writes.turns or writes.settled or writes.consumed)


def write_at_once(connection: Connection, batch: Batch) -> None:
    """Write everything, on a connection of which each statement is a transaction.

    Raises:
        DBAPIError: a run is not as it was, or something is there already; nothing is written.
    """
    written, writes = batch.runs(), batch.writes
    rows = {
        "moved": [run for run in written if run["is_stored"]],
        "made": [run for run in written if not run["is_stored"]],
        "blobs": writes.blobs,
        "evidence": writes.evidence,
        "events": writes.outbox,
        "granted": list(writes.leases.values()),
        "ended": writes.ended,
        "rows": writes.journal,
    }
    statement, order = _compiled()
    with as_sqlalchemy_says_it(connection):
        _cursor_of(connection).execute(statement, [_PARTS[name].encoded(rows[name]) for name in order])


def _cursor_of(connection: Connection) -> Any:
    """A cursor that passes statements on as they are. It stays with the driver's connection, like all `info`: with a
    new one, the driver takes a third longer for a statement.
    """
    known = connection.info
    if _CURSOR not in known:
        driver: Any = connection.dialect
        known[_CURSOR] = driver.loaded_dbapi.RawCursor(connection.connection.driver_connection)
    return known[_CURSOR]

"""Reading the rows of a journal, a page at a time: between two pages nothing is open that could hold anybody up."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from sqlalchemy import Connection, bindparam, literal_column, select, type_coerce
from sqlalchemy.types import NullType

from pilotage.adapters.sqlalchemy.columns import from_packed
from pilotage.adapters.sqlalchemy.driver import Prepared
from pilotage.adapters.sqlalchemy.payloads import echoed_rows
from pilotage.adapters.sqlalchemy.rows import COLUMNS, Page, StoredRow, row_of
from pilotage.adapters.sqlalchemy.tables import PLACES, blobs, journal, runs
from pilotage.agent.ports.journal import JournalRow, RunKey

PAGE = 500

# Columns come as the database has them: most of what a row says nobody asks for.
_AS_IT_IS = NullType()
_SEQ = (journal.c.place - journal.c.run * PLACES).label("seq")
_COLUMNS = [_SEQ, *(type_coerce(journal.c[name], _AS_IT_IS).label(name) for name in COLUMNS)]

NUMBER = (
    select(runs.c.position)
    .where(runs.c.tenant_id == bindparam("tenant"), runs.c.run_id == bindparam("run"))
    .scalar_subquery()
)
"""The position of a run; its rows are found by that, and so only within its tenant."""

_ROWS = Prepared(
    select(*_COLUMNS)
    .where(
        journal.c.place > NUMBER * PLACES + bindparam("after", type_=journal.c.run.type),
        journal.c.place < (NUMBER + 1) * PLACES,
    )
    .order_by(journal.c.place)
    .limit(literal_column(str(PAGE)))
)

_ECHOED = select(*_COLUMNS).where(
    journal.c.run == NUMBER,
    journal.c.place.in_(bindparam("places", expanding=True)),
)

_BLOBS = select(blobs.c.digest, blobs.c.content).where(
    blobs.c.digest.in_(bindparam("digests", expanding=True))
)


def read_page(connection: Connection, run: RunKey, after: int) -> list[JournalRow]:
    """The next rows of a run behind a number, up to `PAGE` of them."""
    page, place = Page(), {"tenant": run.tenant_id, "run": run.run_id, "after": after}
    found = [StoredRow._make((*columns, page)) for columns in _ROWS.rows(connection, place)]
    _fill(page, connection, found)
    if after:
        _fill(page, connection, _echoed_elsewhere(connection, run, page, found))
    return [row_of(stored) for stored in found]


def _fill(page: Page, connection: Connection, rows: Sequence[StoredRow]) -> None:
    """Put into a page what these rows need of it."""
    packed = {row.record_blob for row in rows} | {row.view_blob for row in rows}
    digests = {from_packed(digest) for digest in packed if digest is not None}
    if digests:
        page.blobs.update(_contents(connection, digests))
    page.records.update({row.seq: (row.record_stored, row.record_blob) for row in rows})


def _echoed_elsewhere(
    connection: Connection, run: RunKey, page: Page, rows: Sequence[StoredRow]
) -> list[StoredRow]:
    """The rows before the page that views in it point to: what a view points to stands before it."""
    views = (page.text(row.view_stored, row.view_blob) for row in rows)
    missing = {seq for view in views for seq in echoed_rows(view)} - page.records.keys()
    if not missing:
        return []
    place = {"tenant": run.tenant_id, "run": run.run_id}
    number = connection.execute(select(NUMBER), place).scalar_one()
    named = {**place, "places": [number * PLACES + seq for seq in sorted(missing)]}
    return [StoredRow._make((*columns, page)) for columns in connection.execute(_ECHOED, named)]


def _contents(connection: Connection, digests: set[str]) -> Mapping[str, str]:
    found = connection.execute(_BLOBS, {"digests": sorted(digests)})
    return {row.digest: row.content for row in found}

"""Reading the rows of a journal, a page at a time: between two pages nothing is open that could hold anybody up."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import starmap

from sqlalchemy import Connection, bindparam, literal_column, select

from pilotage.adapters.sqlalchemy.driver import Prepared
from pilotage.adapters.sqlalchemy.payloads import Payloads, echoed_rows
from pilotage.adapters.sqlalchemy.rows import StoredRow, row_of
from pilotage.adapters.sqlalchemy.tables import PLACES, blobs, journal, runs
from pilotage.agent.ports.journal import JournalRow, RunKey

PAGE = 500

_SEQ = (journal.c.place - journal.c.run * PLACES).label("seq")
_COLUMNS = [_SEQ, *(journal.c[name] for name in StoredRow._fields[1:])]

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
    place = {"tenant": run.tenant_id, "run": run.run_id, "after": after}
    found = list(starmap(StoredRow, _ROWS.rows(connection, place)))
    payloads = _payloads_of(connection, found)
    # What a view points to stands before it.
    elsewhere: Mapping[int, Payloads] = _echoed_elsewhere(connection, run, payloads) if after else {}

    def text_of(seq: int) -> str:
        return (payloads.get(seq) or elsewhere[seq]).record

    return [row_of(stored, payloads[stored.seq], text_of) for stored in found]


def _echoed_elsewhere(
    connection: Connection, run: RunKey, payloads: Mapping[int, Payloads]
) -> Mapping[int, Payloads]:
    """The rows before the page that views in it point to."""
    missing = {seq for each in payloads.values() for seq in echoed_rows(each.view)} - payloads.keys()
    if not missing:
        return {}
    place = {"tenant": run.tenant_id, "run": run.run_id}
    number = connection.execute(select(NUMBER), place).scalar_one()
    named = {**place, "places": [number * PLACES + seq for seq in sorted(missing)]}
    return _payloads_of(connection, [StoredRow._make(row) for row in connection.execute(_ECHOED, named)])


def _payloads_of(connection: Connection, rows: Sequence[StoredRow]) -> dict[int, Payloads]:
    digests = {row.record_blob for row in rows} | {row.view_blob for row in rows}
    contents = _contents(connection, {digest for digest in digests if digest is not None})
    return {row.seq: row.payloads(contents) for row in rows}


def _contents(connection: Connection, digests: set[str]) -> Mapping[str, str]:
    if not digests:
        return {}
    found = connection.execute(_BLOBS, {"digests": sorted(digests)})
    return {row.digest: row.content for row in found}

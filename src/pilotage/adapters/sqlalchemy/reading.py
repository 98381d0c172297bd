"""Reading the rows of a journal, a page at a time: between two pages nothing is open that could hold anybody up."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from sqlalchemy import Connection, bindparam, select

from pilotage.adapters.sqlalchemy.mapping import Stored, row_of, stored_payloads
from pilotage.adapters.sqlalchemy.payloads import Payloads, echoed_rows
from pilotage.adapters.sqlalchemy.tables import PLACES, blobs, journal, runs
from pilotage.agent.ports.journal import JournalRow, RunKey

PAGE = 500

_SEQ = (journal.c.place - journal.c.run * PLACES).label("seq")
_COLUMNS = [column for column in journal.c if column.name not in ("place", "run")]

NUMBER = (
    select(runs.c.position)
    .where(runs.c.tenant_id == bindparam("tenant"), runs.c.run_id == bindparam("run"))
    .scalar_subquery()
)
"""The position of a run; its rows are found by that, and so only within its tenant."""

_ROWS = (
    select(_SEQ, *_COLUMNS)
    .where(
        journal.c.place > NUMBER * PLACES + bindparam("after", type_=journal.c.run.type),
        journal.c.place < (NUMBER + 1) * PLACES,
    )
    .order_by(journal.c.place)
    .limit(PAGE)
)

_ECHOED = select(_SEQ, *_COLUMNS).where(
    journal.c.run == NUMBER,
    journal.c.place.in_(bindparam("places", expanding=True)),
)

_BLOBS = select(blobs.c.digest, blobs.c.content).where(
    blobs.c.digest.in_(bindparam("digests", expanding=True))
)


def read_page(connection: Connection, run: RunKey, after: int) -> list[JournalRow]:
    """The next rows of a run behind a number, up to `PAGE` of them."""
    place = {"tenant": run.tenant_id, "run": run.run_id, "after": after}
    found = connection.execute(_ROWS, place).mappings().all()
    contents = _blobs_of(connection, found)
    payloads = {values["seq"]: stored_payloads(values, contents) for values in found}
    elsewhere = _echoed_elsewhere(connection, run, payloads)

    def record_of(seq: int) -> str:
        return (payloads.get(seq) or elsewhere[seq]).record

    return [row_of(values, payloads[values["seq"]], record_of) for values in found]


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
    found = connection.execute(_ECHOED, named).mappings().all()
    contents = _blobs_of(connection, found)
    return {values["seq"]: stored_payloads(values, contents) for values in found}


def _blobs_of(connection: Connection, rows: Sequence[Stored]) -> Mapping[str, str]:
    digests = {row[column] for row in rows for column in ("record_blob", "view_blob")} - {None}
    if not digests:
        return {}
    found = connection.execute(_BLOBS, {"digests": sorted(digests)})
    return {row.digest: row.content for row in found}

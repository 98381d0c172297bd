"""Reading the rows of a journal, a page at a time: between two pages nothing is open that could hold anybody up."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from sqlalchemy import Connection, bindparam, select, tuple_

from pilotage.adapters.sqlalchemy.mapping import Stored, row_of
from pilotage.adapters.sqlalchemy.tables import blobs, journal
from pilotage.agent.ports.journal import JournalRow, RunKey

PAGE = 500

_ROWS = (
    select(journal)
    .where(
        journal.c.tenant_id == bindparam("tenant"),
        journal.c.run_id == bindparam("run"),
        journal.c.seq > bindparam("after"),
    )
    .order_by(journal.c.seq)
    .limit(PAGE)
)

_BLOBS = select(blobs.c.digest, blobs.c.content).where(
    tuple_(blobs.c.tenant_id, blobs.c.digest).in_(bindparam("keys", expanding=True))
)


def read_page(connection: Connection, run: RunKey, after: int) -> list[JournalRow]:
    """The next rows of a run behind a number, up to `PAGE` of them."""
    place = {"tenant": run.tenant_id, "run": run.run_id, "after": after}
    found = connection.execute(_ROWS, place).mappings().all()
    contents = _blobs_of(connection, run.tenant_id, found)
    return [row_of(values, contents) for values in found]


def _blobs_of(connection: Connection, tenant_id: str, rows: Sequence[Stored]) -> Mapping[str, str]:
    digests = {row[column] for row in rows for column in ("record_blob", "view_blob")} - {None}
    if not digests:
        return {}
    keys = [(tenant_id, digest) for digest in sorted(digests)]
    found = connection.execute(_BLOBS, {"keys": keys})
    return {row.digest: row.content for row in found}

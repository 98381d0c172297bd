"""`SqlAlchemyRetention`: removing runs that have ended, or what they said."""

from __future__ import annotations

from datetime import datetime
from functools import partial

from sqlalchemy import Connection, bindparam, delete, exists, or_, select, tuple_, update

from pilotage.adapters.sqlalchemy.database import Database
from pilotage.adapters.sqlalchemy.erasing import erase_run
from pilotage.adapters.sqlalchemy.tables import (
    blobs,
    evidence,
    journal,
    late_outcomes,
    leases,
    outbox,
    runs,
    signals,
    turns,
)
from pilotage.agent.ports.journal import RunKey
from pilotage.agent.ports.repositories import IAgentRetention
from pilotage.checks import reject_naive, reject_not_positive

_AT_ONCE = 100

_parents = runs.alias("parents")
_HAS_LIVE_PARENT = exists().where(
    _parents.c.tenant_id == runs.c.tenant_id, _parents.c.run_id == runs.c.parent_id, ~_parents.c.ended
)

_OVER = (
    select(runs.c.position, runs.c.tenant_id, runs.c.run_id)
    .where(
        runs.c.tenant_id == bindparam("tenant"),
        runs.c.ended,
        runs.c.updated_at < bindparam("before", type_=runs.c.updated_at.type),
        ~_HAS_LIVE_PARENT,
    )
    .order_by(runs.c.position)
    .limit(bindparam("most"))
    .with_for_update(of=runs, skip_locked=True)
)

_BLOBS = select(journal.c.record_blob, journal.c.view_blob).where(
    journal.c.run.in_(bindparam("numbers", expanding=True)),
    or_(journal.c.record_blob.is_not(None), journal.c.view_blob.is_not(None)),
)

_REMOVE_ROWS = delete(journal).where(journal.c.run.in_(bindparam("numbers", expanding=True)))

_REMOVALS = [
    delete(table).where(tuple_(table.c.tenant_id, table.c.run_id).in_(bindparam("keys", expanding=True)))
    for table in (signals, evidence, outbox, leases, late_outcomes, runs)
]

_FORGET_RUNS_OF_TURNS = (
    update(turns)
    .where(tuple_(turns.c.tenant_id, turns.c.run_id).in_(bindparam("keys", expanding=True)))
    .values(run_id=None)
)

_REMOVE_BLOBS = delete(blobs).where(
    blobs.c.digest.in_(bindparam("digests", expanding=True)),
    ~exists().where(journal.c.record_blob == blobs.c.digest),
    ~exists().where(journal.c.view_blob == blobs.c.digest),
)


class SqlAlchemyRetention(IAgentRetention):
    """Retention in a database, a hundred runs in a transaction, so that nobody waits long for it."""

    def __init__(self, database: Database) -> None:
        self._database = database

    async def prune(self, tenant_id: str, *, ended_before: datetime, limit: int = 1000) -> int:
        reject_not_positive("SqlAlchemyRetention.prune", limit=limit)
        reject_naive("SqlAlchemyRetention.prune", ended_before=ended_before)
        removed = 0
        while removed < limit:
            most = min(_AT_ONCE, limit - removed)
            found = await self._database.write(partial(_remove, tenant_id, ended_before, most))
            removed += found
            if found < most:
                break
        return removed

    async def erase(self, run: RunKey) -> None:
        def work(connection: Connection) -> None:
            remove_blobs(connection, erase_run(connection, run))

        await self._database.write(work, may_be_repeated=True)


def remove_blobs(connection: Connection, digests: set[str]) -> None:
    """Remove those blobs that no row refers to any more."""
    if digests:
        connection.execute(_REMOVE_BLOBS, {"digests": sorted(digests)})


def _remove(tenant_id: str, before: datetime, most: int, connection: Connection) -> int:
    found = connection.execute(_OVER, {"tenant": tenant_id, "before": before, "most": most})
    over = [(row.position, (row.tenant_id, row.run_id)) for row in found]
    if not over:
        return 0
    rows, named = {"numbers": [number for number, _ in over]}, {"keys": [key for _, key in over]}
    digests = {digest for row in connection.execute(_BLOBS, rows) for digest in row if digest is not None}
    connection.execute(_REMOVE_ROWS, rows)
    for removal in _REMOVALS:
        connection.execute(removal, named)
    connection.execute(_FORGET_RUNS_OF_TURNS, named)
    remove_blobs(connection, digests)
    return len(over)

"""`SqlAlchemyLeases`: the leases of runs.

A run under way keeps its row when its lease is released: expired, without an owner. So the backlog finds it by the end
of its lease. Where there is no row, there is no lease; that a row is missing strands no run (see `backlog`).

The clock of leases is that of the server. For an SQLite file it is the time since the machine started, which all
processes share and which the time of day does not move; `Lease.expires_at` counts it from 1970.
"""

from __future__ import annotations

from collections.abc import Collection
from typing import Any

import sqlalchemy as sa
from sqlalchemy import ColumnElement, Connection, and_, bindparam, delete, exists, or_, select, update

from pilotage.adapters.sqlalchemy.columns import lease_now, lease_seconds_from_now, seconds_after
from pilotage.adapters.sqlalchemy.database import Database
from pilotage.adapters.sqlalchemy.dialect import EPOCH
from pilotage.adapters.sqlalchemy.mapping import Values
from pilotage.adapters.sqlalchemy.statements import (
    Column,
    Parameters,
    Prepared,
    bulk_delete,
    bulk_update,
    in_keys,
    of_run,
    place_of,
    prepared_insert,
)
from pilotage.adapters.sqlalchemy.supported import dialect_of
from pilotage.adapters.sqlalchemy.tables import leases, runs
from pilotage.agent.ports.leases import IAgentLeases, Lease
from pilotage.agent.ports.persistence import RunKey
from pilotage.checks import reject_blank, reject_not_positive

_ONE: ColumnElement[int] = sa.literal_column("1")
_RUN = ("tenant_id", "run_id")
_IS_OWN = leases.c.owner == bindparam("who")


def lease_is_over(moment: Column) -> ColumnElement[bool]:
    """Return the condition that a lease is over at a moment of the clock of leases.

    An end that is further away than twice the length was not granted by this clock: a server's clock was set back, or
    the machine of a file was started again. The tolerance of one length lets a clock be corrected while a lease holds.
    """
    two: ColumnElement[float] = sa.literal_column("2", leases.c.granted_seconds.type)
    twice = two * leases.c.granted_seconds
    return or_(leases.c.expires_at <= moment, leases.c.expires_at > seconds_after(moment, twice))


LEASE_IS_OVER = lease_is_over(lease_now())
_SECONDS = bindparam("seconds", type_=leases.c.granted_seconds.type)
_END = lease_seconds_from_now(_SECONDS)


def _acquire(insert: Any) -> Any:
    """Return the statement that acquires a lease: a single one, so that of several owners at once one succeeds."""
    asked = insert.values(
        tenant_id=bindparam("tenant"),
        run_id=bindparam("run"),
        owner=bindparam("who"),
        granted_seconds=_SECONDS,
        expires_at=_END,
    )
    granted = {name: asked.excluded[name] for name in ("owner", "granted_seconds", "expires_at")}
    return asked.on_conflict_do_update(
        index_elements=["tenant_id", "run_id"],
        set_=granted,
        where=or_(leases.c.owner == asked.excluded.owner, LEASE_IS_OVER),
    ).returning(leases.c.expires_at)


_ACQUIRE = prepared_insert(leases, _acquire)

_RENEW = Prepared(
    update(leases)
    .where(*of_run(leases), _IS_OWN, ~LEASE_IS_OVER)
    .values(granted_seconds=_SECONDS, expires_at=_END)
    .returning(leases.c.expires_at)
)

# A cancelled run that awaits an answer waits.
IS_UNDER_WAY = and_(
    runs.c.status.in_([sa.literal_column("'active'"), sa.literal_column("'cancelling'")]),
    runs.c.awaits.is_(None),
)
_IS_UNDER_WAY = exists(_ONE).where(
    runs.c.tenant_id == leases.c.tenant_id, runs.c.run_id == leases.c.run_id, IS_UNDER_WAY
)
# Others may have locked the row: it is deleted another time.
_OVER = select(*(leases.c[name] for name in _RUN)).where(
    in_keys(leases, *_RUN), LEASE_IS_OVER, ~_IS_UNDER_WAY
)
_FORGET = delete(leases).where(
    sa.tuple_(*(leases.c[name] for name in _RUN)).in_(_OVER.with_for_update(of=leases, skip_locked=True)),
    LEASE_IS_OVER,
)
_NO_OWNER: Parameters = {"owner": "", "granted_seconds": 0.0, "expires_at": EPOCH}


def _release(*which: ColumnElement[bool]) -> tuple[Prepared, Prepared]:
    """Return the statements that release leases: runs that are not under way lose their rows."""
    return Prepared(delete(leases).where(*which, ~_IS_UNDER_WAY)), Prepared(
        update(leases).where(*which).values(**_NO_OWNER)
    )


_RELEASE, _RELEASE_ALL = _release(*of_run(leases), _IS_OWN), _release(_IS_OWN)

_HOLDER = select(leases.c.owner, leases.c.expires_at, leases.c.granted_seconds).where(
    *of_run(leases), ~LEASE_IS_OVER
)


def _owners() -> Prepared:
    """Return the statement that finds each owner by the one before it, however many leases they have."""
    names = (
        select(sa.func.min(leases.c.owner).label("owner"))
        .where(leases.c.owner > "")
        .cte("names", recursive=True)
    )
    after = select(sa.func.min(leases.c.owner)).where(leases.c.owner > names.c.owner).scalar_subquery()
    names = names.union_all(select(after).where(names.c.owner.is_not(None)))
    holds = exists(_ONE).where(leases.c.owner == names.c.owner, ~LEASE_IS_OVER)
    return Prepared(select(names.c.owner).where(names.c.owner.is_not(None), holds))


_OWNERS = _owners()

_RENEW_EACH = bulk_update(
    leases,
    _RUN,
    lambda given: {
        "granted_seconds": given["granted_seconds"],
        "expires_at": lease_seconds_from_now(given["granted_seconds"]),
    },
    {name: leases.c[name].type for name in ("owner", "granted_seconds")},
    lambda given: and_(leases.c.owner == given["owner"], ~LEASE_IS_OVER),
)


_KEYS = bulk_delete(leases, _RUN)


def _renew_together() -> Prepared:
    """Return the statement that renews all leases that are given as JSON, and returns those that it has left.

    It waits for no lock: a commit that ends several runs locks their leases in an order of its own.
    """
    source, given = _KEYS.given_in("rows")
    is_it = and_(*(leases.c[name] == given[name] for name in _RUN))
    held = select(*(leases.c[name] for name in _RUN)).select_from(source.join(leases, is_it))
    held = held.where(_IS_OWN, ~LEASE_IS_OVER)
    locked = held.with_for_update(of=leases, skip_locked=True).cte("locked")
    renewed = (
        update(leases)
        .where(*(leases.c[name] == locked.c[name] for name in _RUN))
        .values(granted_seconds=_SECONDS, expires_at=_END)
        .returning(*(leases.c[name] for name in _RUN))
        .cte("renewed")
    )
    is_renewed = exists(_ONE).where(*(renewed.c[name] == given[name] for name in _RUN))
    return Prepared(select(*(given[name] for name in _RUN)).where(~is_renewed))


_RENEW_TOGETHER = _renew_together()


def _left_by_renewal(
    connection: Connection, runs: Collection[RunKey], owner: str, seconds: float
) -> frozenset[RunKey]:
    """Renew leases, and return the runs whose leases were not renewed."""
    rows: list[Values] = [{"tenant_id": run.tenant_id, "run_id": run.run_id} for run in runs]
    if dialect_of(connection.dialect.name).takes_rows_as_json:
        given = {"rows": _KEYS.encoded(rows), "who": owner, "seconds": seconds}
        return frozenset(RunKey(*key) for key in _RENEW_TOGETHER.rows(connection, given))
    for row in rows:
        row |= {"owner": owner, "granted_seconds": seconds}
    if _RENEW_EACH.run(connection, rows) == len(rows):
        return frozenset()
    return frozenset(run for run in runs if _granted(_RENEW, connection, run, owner, seconds) is None)


class SqlAlchemyLeases(IAgentLeases):
    """Leases in a database. They need not survive the machine, so granting one does not wait for a disk."""

    def __init__(self, database: Database) -> None:
        self._database = database

    async def acquire(self, run: RunKey, owner: str, seconds: float) -> Lease | None:
        _check(owner, seconds)
        return await self._database.hint(
            lambda connection: acquired_lease(connection, run, owner, seconds), is_small=True
        )

    async def renew(self, run: RunKey, owner: str, seconds: float) -> Lease | None:
        _check(owner, seconds)
        return await self._database.hint(
            lambda connection: _granted(_RENEW, connection, run, owner, seconds), is_small=True
        )

    async def renew_all(self, runs: Collection[RunKey], owner: str, seconds: float) -> frozenset[RunKey]:
        _check(owner, seconds)
        return await self._database.hint(
            lambda connection: _left_by_renewal(connection, runs, owner, seconds)
        )

    async def release(self, run: RunKey, owner: str) -> None:
        place = {**place_of(run), "who": owner}
        await self._database.hint(lambda connection: _released(_RELEASE, connection, place), is_small=True)

    async def holder(self, run: RunKey) -> Lease | None:
        def look(connection: Connection) -> Lease | None:
            row = connection.execute(_HOLDER, place_of(run)).first()
            return None if row is None else Lease(run, row.owner, row.expires_at, row.granted_seconds)

        return await self._database.read(look)

    async def owners(self) -> frozenset[str]:
        return await self._database.read(
            lambda connection: frozenset(owner for (owner,) in _OWNERS.rows(connection, {}))
        )

    async def release_all(self, owner: str) -> None:
        await self._database.hint(lambda connection: _released(_RELEASE_ALL, connection, {"who": owner}))


def _check(owner: str, seconds: float) -> None:
    reject_blank("SqlAlchemyLeases", owner=owner)
    reject_not_positive("SqlAlchemyLeases", seconds=seconds)


def acquired_lease(connection: Connection, run: RunKey, owner: str, seconds: float) -> Lease | None:
    """Return the lease of a run; None where another owner has it."""
    return _granted(_ACQUIRE(connection), connection, run, owner, seconds)


def _granted(
    statement: Prepared, connection: Connection, run: RunKey, owner: str, seconds: float
) -> Lease | None:
    place = {**place_of(run), "who": owner, "seconds": seconds}
    granted = statement.rows(connection, place)
    return Lease(run, owner, granted[0][0], seconds) if granted else None


def _released(statements: tuple[Prepared, Prepared], connection: Connection, given: Parameters) -> None:
    for statement in statements:
        statement.rows(connection, given)


def forget_leases(connection: Connection, runs: Collection[RunKey]) -> None:
    """Delete the rows of leases that are over, of runs that are not under way: nothing is found by them."""
    keys = sorted((run.tenant_id, run.run_id) for run in runs)
    connection.execute(_FORGET, {"keys": keys})


def acquired_leases(
    connection: Connection, runs: Collection[RunKey], owner: str, seconds: float
) -> dict[RunKey, Lease]:
    """Return the leases of those of these runs that no other owner has."""
    acquire = _ACQUIRE(connection)
    asked = sorted(runs, key=lambda run: (run.tenant_id, run.run_id))
    given = [_granted(acquire, connection, run, owner, seconds) for run in asked]
    return {lease.run: lease for lease in given if lease is not None}

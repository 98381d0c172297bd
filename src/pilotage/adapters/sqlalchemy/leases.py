"""`SqlAlchemyLeases`: leases by the clock of the database.

The clock is that of the server. For an SQLite file it is the time since the machine started, which all processes share
and which the time of day does not move; `Lease.expires_at` counts it from 1970.
"""

from __future__ import annotations

from typing import Any

from sqlalchemy import Connection, bindparam, delete, or_, select, update
from sqlalchemy.dialects import postgresql, sqlite

from pilotage.adapters.sqlalchemy.columns import lease_now, lease_seconds_from_now
from pilotage.adapters.sqlalchemy.database import Database
from pilotage.adapters.sqlalchemy.statements import Prepared, of_run, place_of
from pilotage.adapters.sqlalchemy.tables import leases
from pilotage.agent.ports.leases import IAgentLeases, Lease
from pilotage.agent.ports.persistence import RunKey
from pilotage.checks import reject_blank, reject_not_positive

_IS_OWN = leases.c.owner == bindparam("who")

# An end that is further away than twice the length was not granted by this clock: a server's clock was set back, or the
# machine of a file was started again. The tolerance of one length lets a clock be corrected while a lease holds.
LEASE_IS_OVER = or_(
    leases.c.expires_at <= lease_now(),
    leases.c.expires_at > lease_seconds_from_now(2 * leases.c.granted_seconds),
)
_SECONDS = bindparam("seconds", type_=leases.c.granted_seconds.type)
_END = lease_seconds_from_now(_SECONDS)


def _acquire(maker: Any) -> Prepared:
    """Return one statement, so that the database lets one of several owners through that ask at once."""
    asked = maker(leases).values(
        tenant_id=bindparam("tenant"),
        run_id=bindparam("run"),
        owner=bindparam("who"),
        granted_seconds=_SECONDS,
        expires_at=_END,
    )
    granted = {name: asked.excluded[name] for name in ("owner", "granted_seconds", "expires_at")}
    return Prepared(
        asked.on_conflict_do_update(
            index_elements=["tenant_id", "run_id"],
            set_=granted,
            where=or_(leases.c.owner == asked.excluded.owner, LEASE_IS_OVER),
        ).returning(leases.c.expires_at)
    )


_ACQUIRE = {"sqlite": _acquire(sqlite.insert), "postgresql": _acquire(postgresql.insert)}

_RENEW = Prepared(
    update(leases)
    .where(*of_run(leases), _IS_OWN, ~LEASE_IS_OVER)
    .values(granted_seconds=_SECONDS, expires_at=_END)
    .returning(leases.c.expires_at)
)

_RELEASE = Prepared(delete(leases).where(*of_run(leases), _IS_OWN))

_HOLDER = select(leases.c.owner, leases.c.expires_at, leases.c.granted_seconds).where(
    *of_run(leases), ~LEASE_IS_OVER
)


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

    async def release(self, run: RunKey, owner: str) -> None:
        place = {**place_of(run), "who": owner}
        await self._database.hint(lambda connection: _RELEASE.rows(connection, place), is_small=True)

    async def holder(self, run: RunKey) -> Lease | None:
        def look(connection: Connection) -> Lease | None:
            row = connection.execute(_HOLDER, place_of(run)).first()
            return None if row is None else Lease(run, row.owner, row.expires_at, row.granted_seconds)

        return await self._database.read(look)


def _check(owner: str, seconds: float) -> None:
    reject_blank("SqlAlchemyLeases", owner=owner)
    reject_not_positive("SqlAlchemyLeases", seconds=seconds)


def acquired_lease(connection: Connection, run: RunKey, owner: str, seconds: float) -> Lease | None:
    """Return the lease of a run; None where another owner was faster."""
    return _granted(_ACQUIRE[connection.dialect.name], connection, run, owner, seconds)


def _granted(
    statement: Prepared, connection: Connection, run: RunKey, owner: str, seconds: float
) -> Lease | None:
    place = {**place_of(run), "who": owner, "seconds": seconds}
    granted = statement.rows(connection, place)
    return Lease(run, owner, granted[0][0], seconds) if granted else None

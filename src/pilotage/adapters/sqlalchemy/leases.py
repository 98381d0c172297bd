"""`SqlAlchemyLeases`: leases that run out by the clock of the database."""

from __future__ import annotations

from typing import Any

from sqlalchemy import Connection, bindparam, delete, or_, select, update
from sqlalchemy.dialects import postgresql, sqlite

from pilotage.adapters.sqlalchemy.columns import now, seconds_from_now
from pilotage.adapters.sqlalchemy.database import Database
from pilotage.adapters.sqlalchemy.driver import Prepared
from pilotage.adapters.sqlalchemy.tables import leases
from pilotage.agent.ports.journal import RunKey
from pilotage.agent.ports.leases import IAgentLeases, Lease
from pilotage.checks import reject_blank, reject_not_positive

_IS_RUN = (leases.c.tenant_id == bindparam("tenant"), leases.c.run_id == bindparam("run"))
_IS_OWN = leases.c.owner == bindparam("who")
_IS_OVER = leases.c.expires_at <= now()
_SECONDS = bindparam("seconds", type_=leases.c.granted_seconds.type)
_END = seconds_from_now(_SECONDS)


def _acquire(maker: Any) -> Any:
    """One statement: of several owners that ask at once the database lets one through."""
    asked = maker(leases).values(
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
        where=or_(leases.c.owner == asked.excluded.owner, _IS_OVER),
    ).returning(leases.c.expires_at)


ACQUIRE = {
    "sqlite": Prepared(_acquire(sqlite.insert)),
    "postgresql": Prepared(_acquire(postgresql.insert)),
}

_RENEW = Prepared(
    update(leases)
    .where(*_IS_RUN, _IS_OWN, ~_IS_OVER)
    .values(granted_seconds=_SECONDS, expires_at=_END)
    .returning(leases.c.expires_at)
)

_RELEASE = Prepared(delete(leases).where(*_IS_RUN, _IS_OWN))

_HOLDER = select(leases.c.owner, leases.c.expires_at, leases.c.granted_seconds).where(*_IS_RUN, ~_IS_OVER)


class SqlAlchemyLeases(IAgentLeases):
    """Leases in a database. They need not survive the machine, so granting one does not wait for a disk."""

    def __init__(self, database: Database) -> None:
        self._database = database

    async def acquire(self, run: RunKey, owner: str, seconds: float) -> Lease | None:
        return await self._ask(ACQUIRE[self._database.url.get_backend_name()], run, owner, seconds)

    async def renew(self, run: RunKey, owner: str, seconds: float) -> Lease | None:
        return await self._ask(_RENEW, run, owner, seconds)

    async def release(self, run: RunKey, owner: str) -> None:
        place = {"tenant": run.tenant_id, "run": run.run_id, "who": owner}
        await self._database.hint(lambda connection: _RELEASE.rows(connection, place), is_small=True)

    async def holder(self, run: RunKey) -> Lease | None:
        def look(connection: Connection) -> Lease | None:
            row = connection.execute(_HOLDER, {"tenant": run.tenant_id, "run": run.run_id}).first()
            return None if row is None else Lease(run, row.owner, row.expires_at, row.granted_seconds)

        return await self._database.read(look)

    async def _ask(self, statement: Prepared, run: RunKey, owner: str, seconds: float) -> Lease | None:
        reject_blank("SqlAlchemyLeases", owner=owner)
        reject_not_positive("SqlAlchemyLeases", seconds=seconds)
        place = {"tenant": run.tenant_id, "run": run.run_id, "who": owner, "seconds": seconds}
        granted = await self._database.hint(
            lambda connection: statement.rows(connection, place), is_small=True
        )
        return Lease(run, owner, granted[0][0], seconds) if granted else None

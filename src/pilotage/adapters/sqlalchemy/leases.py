"""`SqlAlchemyLeases` and `SqlAlchemyBacklog`: leases by the clock of the database, and the runs without an owner.

The clock is that of the server. For an SQLite file it is the time since the machine started, which all processes share
and which the time of day does not move; `Lease.expires_at` counts it from 1970.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import Any

from sqlalchemy import Connection, Select, and_, bindparam, delete, exists, or_, select, tuple_, update
from sqlalchemy.dialects import postgresql, sqlite

from pilotage.adapters.sqlalchemy.columns import lease_now, lease_seconds_from_now, now
from pilotage.adapters.sqlalchemy.database import Database
from pilotage.adapters.sqlalchemy.statements import Prepared, of_run, place_of
from pilotage.adapters.sqlalchemy.tables import leases, runs, signals
from pilotage.agent.ports.journal import RunKey
from pilotage.agent.ports.leases import LETS_GO_ON, IAgentBacklog, IAgentLeases, Lease
from pilotage.agent.state import AgentStatus
from pilotage.checks import reject_blank, reject_not_positive

_IS_OWN = leases.c.owner == bindparam("who")

# An end that is further away than twice the length was not granted by this clock: a server's clock was set back, or the
# machine of a file was started again. The tolerance of one length lets a clock be corrected while a lease holds.
_IS_OVER = or_(
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
            where=or_(leases.c.owner == asked.excluded.owner, _IS_OVER),
        ).returning(leases.c.expires_at)
    )


_ACQUIRE = {"sqlite": _acquire(sqlite.insert), "postgresql": _acquire(postgresql.insert)}

_RENEW = Prepared(
    update(leases)
    .where(*of_run(leases), _IS_OWN, ~_IS_OVER)
    .values(granted_seconds=_SECONDS, expires_at=_END)
    .returning(leases.c.expires_at)
)

_RELEASE = Prepared(delete(leases).where(*of_run(leases), _IS_OWN))

_HOLDER = select(leases.c.owner, leases.c.expires_at, leases.c.granted_seconds).where(
    *of_run(leases), ~_IS_OVER
)


class SqlAlchemyLeases(IAgentLeases):
    """Leases in a database. They need not survive the machine, so granting one does not wait for a disk."""

    def __init__(self, database: Database) -> None:
        self._database = database

    async def acquire(self, run: RunKey, owner: str, seconds: float) -> Lease | None:
        _check(owner, seconds)
        return await self._database.hint(
            lambda connection: _acquired(connection, run, owner, seconds), is_small=True
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


def _acquired(connection: Connection, run: RunKey, owner: str, seconds: float) -> Lease | None:
    """Return the lease of a run; None where another owner was faster."""
    return _granted(_ACQUIRE[connection.dialect.name], connection, run, owner, seconds)


def _granted(
    statement: Prepared, connection: Connection, run: RunKey, owner: str, seconds: float
) -> Lease | None:
    place = {**place_of(run), "who": owner, "seconds": seconds}
    granted = statement.rows(connection, place)
    return Lease(run, owner, granted[0][0], seconds) if granted else None


_UNDER_WAY = [AgentStatus.ACTIVE.value, AgentStatus.CANCELLING.value]

_HAS_ANSWER = exists().where(
    signals.c.tenant_id == runs.c.tenant_id,
    signals.c.run_id == runs.c.run_id,
    signals.c.consumed_at.is_(None),
    or_(signals.c.kind.in_(sorted(kind.value for kind in LETS_GO_ON)), signals.c.kind == runs.c.awaits),
)

_IS_DRIVEN = exists().where(
    leases.c.tenant_id == runs.c.tenant_id, leases.c.run_id == runs.c.run_id, ~_IS_OVER
)

_above = runs.alias("above")

_IS_LEFT_BY_PARENT = exists().where(
    _above.c.tenant_id == runs.c.tenant_id,
    _above.c.run_id == runs.c.parent_id,
    _above.c.status == AgentStatus.INTERRUPTED.value,
)

# The rule of `has_something_to_do`, as a condition of the database.
_CAN_GO_ON = or_(
    and_(runs.c.status.in_(_UNDER_WAY), or_(runs.c.parent_id.is_(None), _IS_LEFT_BY_PARENT)),
    and_(
        runs.c.status == AgentStatus.INTERRUPTED.value,
        or_(and_(runs.c.wake_at.is_not(None), runs.c.wake_at <= now()), _HAS_ANSWER),
    ),
)

_HAS_NO_OWNER = and_(~runs.c.ended, runs.c.head > 0, _CAN_GO_ON, ~_IS_DRIVEN)

_AGENTS = select(runs.c.agent_type).where(_HAS_NO_OWNER).distinct()


class SqlAlchemyBacklog(IAgentBacklog):
    """The backlog of a database. Runs that another worker is looking at are passed over without waiting."""

    def __init__(self, database: Database) -> None:
        self._database = database

    async def claim(
        self,
        owner: str,
        seconds: float,
        limit: int,
        *,
        agents: Collection[str],
        leaving: Collection[RunKey] = (),
    ) -> Sequence[Lease]:
        reject_blank("SqlAlchemyBacklog.claim", owner=owner)
        reject_not_positive("SqlAlchemyBacklog.claim", seconds=seconds, limit=limit)
        wanted = _without_owner(agents, leaving).limit(limit)

        def work(connection: Connection) -> list[Lease]:
            keys = [RunKey(row.tenant_id, row.run_id) for row in connection.execute(wanted)]
            claimed = [_acquired(connection, run, owner, seconds) for run in keys]
            return [lease for lease in claimed if lease is not None]

        return await self._database.hint(work)

    async def agents(self) -> frozenset[str]:
        return await self._database.read(lambda connection: frozenset(connection.execute(_AGENTS).scalars()))


def _without_owner(agents: Collection[str], leaving: Collection[RunKey]) -> Select[str, str]:
    is_agent = runs.c.agent_type.in_(sorted(agents))
    wanted = select(runs.c.tenant_id, runs.c.run_id).where(_HAS_NO_OWNER, is_agent)
    if leaving:
        keys = sorted((run.tenant_id, run.run_id) for run in leaving)
        wanted = wanted.where(tuple_(runs.c.tenant_id, runs.c.run_id).not_in(keys))
    return wanted.order_by(runs.c.updated_at, runs.c.position).with_for_update(of=runs, skip_locked=True)

"""`SqlAlchemyLeases` and `SqlAlchemyBacklog`: leases, runs without an owner, and their claims without progress.

The clock of leases is that of the server. For an SQLite file it is the time since the machine started, which all
processes share and which the time of day does not move; `Lease.expires_at` counts it from 1970.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import Any

from sqlalchemy import (
    ColumnElement,
    Connection,
    Row,
    Select,
    and_,
    bindparam,
    case,
    delete,
    exists,
    func,
    literal_column,
    null,
    or_,
    select,
    tuple_,
    update,
)

from pilotage.adapters.sqlalchemy.columns import lease_now, lease_seconds_from_now, now, seconds_from_now
from pilotage.adapters.sqlalchemy.database import Database
from pilotage.adapters.sqlalchemy.statements import Prepared, of_run, place_of, prepared_insert
from pilotage.adapters.sqlalchemy.tables import leases, runs, signals
from pilotage.agent.ports.leases import (
    LETS_GO_ON,
    LETS_POISONED_GO_ON,
    LONGEST_DELAY,
    NO_CLAIMS,
    SUSPECT_FROM,
    BacklogEntry,
    ClaimRecord,
    IAgentBacklog,
    IAgentLeases,
    Lease,
    checked_delay,
)
from pilotage.agent.ports.persistence import RunKey
from pilotage.agent.signals import AgentSignalKind
from pilotage.agent.state import AgentStatus
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

_RELEASE = Prepared(delete(leases).where(*of_run(leases), _IS_OWN))

_HOLDER = select(leases.c.owner, leases.c.expires_at, leases.c.granted_seconds).where(
    *of_run(leases), ~LEASE_IS_OVER
)


_OWNERS = select(leases.c.owner).where(~LEASE_IS_OVER).distinct()
_RELEASE_ALL = Prepared(delete(leases).where(_IS_OWN))


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

    async def owners(self) -> frozenset[str]:
        return await self._database.read(lambda connection: frozenset(connection.execute(_OWNERS).scalars()))

    async def release_all(self, owner: str) -> None:
        await self._database.hint(lambda connection: _RELEASE_ALL.rows(connection, {"who": owner}))


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


_UNDER_WAY = [AgentStatus.ACTIVE.value, AgentStatus.CANCELLING.value]

_IS_PENDING = and_(
    signals.c.tenant_id == runs.c.tenant_id,
    signals.c.run_id == runs.c.run_id,
    signals.c.consumed_at.is_(None),
)


def _is_one_of(kinds: Collection[AgentSignalKind]) -> ColumnElement[bool]:
    return signals.c.kind.in_(sorted(kind.value for kind in kinds))


_HAS_ANSWER = exists().where(_IS_PENDING, or_(_is_one_of(LETS_GO_ON), signals.c.kind == runs.c.awaits))
_HAS_AWAITED = exists().where(_IS_PENDING, signals.c.kind == runs.c.awaits)
_IS_RELEASED = exists().where(_IS_PENDING, _is_one_of(LETS_POISONED_GO_ON))

_IS_DRIVEN = exists().where(
    leases.c.tenant_id == runs.c.tenant_id, leases.c.run_id == runs.c.run_id, ~LEASE_IS_OVER
)

_above = runs.alias("above")

_IS_LEFT_BY_PARENT = exists().where(
    _above.c.tenant_id == runs.c.tenant_id,
    _above.c.run_id == runs.c.parent_id,
    _above.c.status == AgentStatus.INTERRUPTED.value,
)

_IS_ORPHAN = exists().where(
    _above.c.tenant_id == runs.c.tenant_id, _above.c.run_id == runs.c.parent_id, _above.c.ended
)

_IS_UP = and_(runs.c.wake_at.is_not(None), runs.c.wake_at <= now())

# The rule of `has_something_to_do`, as a condition of the database.
_CAN_GO_ON = or_(
    and_(runs.c.parent_id.is_not(None), _IS_ORPHAN),
    and_(
        runs.c.status == AgentStatus.CANCELLING.value,
        runs.c.awaits.is_not(None),
        or_(_IS_UP, _HAS_AWAITED),
    ),
    and_(
        runs.c.status.in_(_UNDER_WAY),
        runs.c.awaits.is_(None),
        or_(runs.c.parent_id.is_(None), _IS_LEFT_BY_PARENT),
    ),
    and_(
        runs.c.status == AgentStatus.INTERRUPTED.value,
        case(
            (runs.c.quarantined, _IS_RELEASED),
            else_=or_(_IS_UP, _HAS_ANSWER),
        ),
    ),
)

# The rule of `ClaimRecord.is_due`.
_IS_DUE = or_(
    runs.c.claim_after.is_(None),
    runs.c.claim_after <= now(),
    runs.c.claim_after > seconds_from_now(literal_column(str(2 * LONGEST_DELAY.total_seconds()))),
)

_HAS_NO_OWNER = and_(~runs.c.ended, runs.c.head > 0, _CAN_GO_ON, ~_IS_DRIVEN, _IS_DUE)
_IS_SUSPECT = runs.c.claims >= literal_column(str(SUSPECT_FROM))

_AGENTS = select(runs.c.agent_type).where(_HAS_NO_OWNER).distinct()


_CLAIMS = (runs.c.claims, runs.c.claimed_at, runs.c.claim_problem, runs.c.claim_after)
_CLAIMS_OF = select(*_CLAIMS).where(*of_run(runs))
_DELAY = bindparam("delay", type_=leases.c.granted_seconds.type)

_BEGIN = (
    update(runs)
    .where(*of_run(runs))
    .values(claims=runs.c.claims + 1, claimed_at=now(), claim_after=seconds_from_now(_DELAY))
)

_LESS_ONE = case((runs.c.claims > 0, runs.c.claims - 1), else_=0)

_SETTLE = {
    counts: update(runs)
    .where(*of_run(runs))
    .values(
        claims=runs.c.claims if counts else _LESS_ONE,
        claim_problem=func.coalesce(
            bindparam("problem", type_=runs.c.claim_problem.type), runs.c.claim_problem
        ),
        claim_after=case((_DELAY > 0, seconds_from_now(_DELAY)), else_=null()),
    )
    for counts in (True, False)
}

_FORGET = Prepared(
    update(runs)
    .where(*of_run(runs), or_(runs.c.claims > 0, runs.c.claim_after.is_not(None)))
    .values(claims=0, claimed_at=null(), claim_problem=null(), claim_after=null())
)


class SqlAlchemyBacklog(IAgentBacklog):
    """The backlog of a database. Runs that another worker has locked are skipped without waiting."""

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
        suspects: bool = False,
    ) -> Sequence[BacklogEntry]:
        reject_blank("SqlAlchemyBacklog.claim", owner=owner)
        reject_not_positive("SqlAlchemyBacklog.claim", seconds=seconds, limit=limit)
        wanted = _without_owner(agents, leaving)
        queries = [wanted.where(~_IS_SUSPECT).limit(limit)]
        if suspects:
            queries.append(wanted.where(_IS_SUSPECT).limit(1))

        def work(connection: Connection) -> list[BacklogEntry]:
            found = [row for query in queries for row in connection.execute(query).all()]
            given = [(row, acquired_lease(connection, _key(row), owner, seconds)) for row in found]
            return [BacklogEntry(lease, _record(row)) for row, lease in given if lease is not None]

        return await self._database.hint(work)

    async def begin(self, run: RunKey, delay_seconds: float) -> None:
        delay = checked_delay("SqlAlchemyBacklog.begin", delay_seconds).total_seconds()
        # Not a hint: a hint may be done twice, and a claim is counted once.
        await self._database.write(
            lambda connection: connection.execute(_BEGIN, {**place_of(run), "delay": delay})
        )

    async def settle(
        self, run: RunKey, *, counts: bool, delay_seconds: float = 0.0, problem: str | None = None
    ) -> None:
        delay = checked_delay("SqlAlchemyBacklog.settle", delay_seconds).total_seconds()
        given = {**place_of(run), "delay": delay, "problem": problem}
        await self._database.write(lambda connection: connection.execute(_SETTLE[counts], given))

    async def forget(self, run: RunKey) -> None:
        await self._database.hint(lambda connection: _FORGET.rows(connection, place_of(run)), is_small=True)

    async def claims_of(self, run: RunKey) -> ClaimRecord:
        def look(connection: Connection) -> ClaimRecord:
            row = connection.execute(_CLAIMS_OF, place_of(run)).first()
            return NO_CLAIMS if row is None else _record(row)

        return await self._database.read(look)

    async def agents(self) -> frozenset[str]:
        return await self._database.read(lambda connection: frozenset(connection.execute(_AGENTS).scalars()))


def _without_owner(agents: Collection[str], leaving: Collection[RunKey]) -> Select[*tuple[Any, ...]]:
    is_agent = runs.c.agent_type.in_(sorted(agents))
    wanted: Select[*tuple[Any, ...]] = select(runs.c.tenant_id, runs.c.run_id, *_CLAIMS)
    wanted = wanted.where(_HAS_NO_OWNER, is_agent)
    if leaving:
        keys = sorted((run.tenant_id, run.run_id) for run in leaving)
        wanted = wanted.where(tuple_(runs.c.tenant_id, runs.c.run_id).not_in(keys))
    return wanted.order_by(runs.c.updated_at, runs.c.position).with_for_update(of=runs, skip_locked=True)


def _key(row: Row[*tuple[Any, ...]]) -> RunKey:
    return RunKey(row.tenant_id, row.run_id)


def _record(row: Row[*tuple[Any, ...]]) -> ClaimRecord:
    return ClaimRecord(row.claims, row.claimed_at, row.claim_problem, row.claim_after)

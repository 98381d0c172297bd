"""`SqlAlchemyBacklog`: finding runs that nobody drives, and taking their leases in the same transaction."""

from __future__ import annotations

from collections.abc import Collection, Sequence

from sqlalchemy import Connection, Select, and_, exists, or_, select, tuple_

from pilotage.adapters.sqlalchemy.columns import now
from pilotage.adapters.sqlalchemy.database import Database
from pilotage.adapters.sqlalchemy.leases import ACQUIRE
from pilotage.adapters.sqlalchemy.tables import leases, runs, signals
from pilotage.agent.ports.journal import RunKey
from pilotage.agent.ports.leases import LETS_GO_ON, IAgentBacklog, Lease
from pilotage.agent.state import AgentStatus
from pilotage.checks import reject_blank, reject_not_positive

_UNDER_WAY = [AgentStatus.ACTIVE.value, AgentStatus.CANCELLING.value]

_HAS_ANSWER = exists().where(
    signals.c.tenant_id == runs.c.tenant_id,
    signals.c.run_id == runs.c.run_id,
    signals.c.consumed_at.is_(None),
    or_(signals.c.kind.in_(sorted(kind.value for kind in LETS_GO_ON)), signals.c.kind == runs.c.awaits),
)

_IS_DRIVEN = exists().where(
    leases.c.tenant_id == runs.c.tenant_id, leases.c.run_id == runs.c.run_id, leases.c.expires_at > now()
)

_above = runs.alias("above")

_IS_LEFT_BY_PARENT = exists().where(
    _above.c.tenant_id == runs.c.tenant_id,
    _above.c.run_id == runs.c.parent_id,
    _above.c.status == AgentStatus.INTERRUPTED.value,
)

# What `has_something_to_do` says, in the words of the database.
_CAN_GO_ON = or_(
    and_(runs.c.status.in_(_UNDER_WAY), or_(runs.c.parent_id.is_(None), _IS_LEFT_BY_PARENT)),
    and_(
        runs.c.status == AgentStatus.INTERRUPTED.value,
        or_(and_(runs.c.wake_at.is_not(None), runs.c.wake_at <= now()), _HAS_ANSWER),
    ),
)

_IS_LEFT = and_(~runs.c.ended, runs.c.head > 0, _CAN_GO_ON, ~_IS_DRIVEN)

_AGENTS = select(runs.c.agent_type).where(_IS_LEFT).distinct()


class SqlAlchemyBacklog(IAgentBacklog):
    """The backlog of a database. Runs that somebody else is looking at are passed over, not waited for."""

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
        wanted = _left_of(agents, leaving).limit(limit)

        def work(connection: Connection) -> list[Lease]:
            keys = [RunKey(row.tenant_id, row.run_id) for row in connection.execute(wanted)]
            claimed = [_taken(connection, run, owner, seconds) for run in keys]
            return [lease for lease in claimed if lease is not None]

        return await self._database.hint(work)

    async def agents(self) -> frozenset[str]:
        return await self._database.read(lambda connection: frozenset(connection.execute(_AGENTS).scalars()))


def _left_of(agents: Collection[str], leaving: Collection[RunKey]) -> Select[str, str]:
    wanted = select(runs.c.tenant_id, runs.c.run_id).where(_IS_LEFT, runs.c.agent_type.in_(sorted(agents)))
    if leaving:
        keys = sorted((run.tenant_id, run.run_id) for run in leaving)
        wanted = wanted.where(tuple_(runs.c.tenant_id, runs.c.run_id).not_in(keys))
    return wanted.order_by(runs.c.updated_at, runs.c.position).with_for_update(of=runs, skip_locked=True)


def _taken(connection: Connection, run: RunKey, owner: str, seconds: float) -> Lease | None:
    """The lease of a run; None where somebody else was faster."""
    place = {"tenant": run.tenant_id, "run": run.run_id, "who": owner, "seconds": seconds}
    granted = ACQUIRE[connection.dialect.name].rows(connection, place)
    return Lease(run, owner, granted[0][0], seconds) if granted else None

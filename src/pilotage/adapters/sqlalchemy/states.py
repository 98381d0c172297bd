"""`SqlAlchemyStateRepository`: the states of runs."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from datetime import datetime
from typing import Any

from sqlalchemy import Connection, Select, bindparam, func, select
from sqlalchemy.dialects import postgresql, sqlite

from pilotage.adapters.sqlalchemy.columns import Moment, now
from pilotage.adapters.sqlalchemy.cursors import position_of
from pilotage.adapters.sqlalchemy.database import Database
from pilotage.adapters.sqlalchemy.driver import Prepared
from pilotage.adapters.sqlalchemy.mapping import UnstorableError, state_of, state_values
from pilotage.adapters.sqlalchemy.tables import runs, signals
from pilotage.adapters.sqlalchemy.whose import only_one, refuse_if_journaled
from pilotage.agent.ports.journal import RunKey
from pilotage.agent.ports.repositories import IAgentStateRepository, RunPage
from pilotage.agent.state import AgentState, AgentStatus
from pilotage.checks import reject_naive, reject_not_positive
from pilotage.errors import AgentDefinitionError, RunNotFoundError

_RESUMABLE = (AgentStatus.ACTIVE, AgentStatus.INTERRUPTED, AgentStatus.CANCELLING)

_PENDING = (
    select(func.count())
    .where(
        signals.c.tenant_id == runs.c.tenant_id,
        signals.c.run_id == runs.c.run_id,
        signals.c.consumed_at.is_(None),
    )
    .scalar_subquery()
)

_STATES: Select[*tuple[Any, ...]] = select(
    runs.c.position,
    runs.c.tenant_id,
    runs.c.run_id,
    runs.c.agent_type,
    runs.c.status,
    runs.c.state,
    runs.c.created_at,
    runs.c.updated_at,
    runs.c.wake_at,
    runs.c.awaits,
    runs.c.head,
    _PENDING.label("pending"),
).where(runs.c.status.is_not(None))

_OF_ANY = _STATES.where(runs.c.run_id == bindparam("run"))
_ONE, _OWN = Prepared(_OF_ANY), Prepared(_OF_ANY.where(runs.c.tenant_id == bindparam("tenant")))


class SqlAlchemyStateRepository(IAgentStateRepository):
    """States in a database. With a `tenant` it knows only that tenant's runs, without one those of all."""

    def __init__(self, database: Database, tenant: str | None = None) -> None:
        self._database, self._tenant = database, tenant

    async def get(self, state_id: str) -> AgentState:
        state = await self.get_or_none(state_id)
        if state is None:
            raise RunNotFoundError(f"there is no run {state_id!r}.")
        return state

    async def get_or_none(self, state_id: str) -> AgentState | None:
        found = await self.get_with_head(state_id)
        return None if found is None else found[0]

    async def get_with_head(self, state_id: str) -> tuple[AgentState, int] | None:
        return await self._database.read(lambda connection: _find(connection, self._tenant, state_id))

    async def save(self, state: AgentState) -> AgentState:
        if self._tenant not in (None, state.tenant_id):
            raise RunNotFoundError(f"there is no run {state.id!r}.")
        try:
            values = state_values(state)
        except UnstorableError as error:
            raise AgentDefinitionError(f"SqlAlchemyStateRepository.save: {error}.") from error

        def work(connection: Connection) -> AgentState:
            run = RunKey(state.tenant_id, state.id)
            refuse_if_journaled(connection, run, "SqlAlchemyStateRepository.save")
            _save(
                connection,
                {**values, "tenant_id": run.tenant_id, "run_id": run.run_id, "ended": state.is_terminal},
            )
            found = _find(connection, run.tenant_id, run.run_id)
            assert found is not None  # noqa: S101 - it was just written
            return found[0]

        return await self._database.write(work, may_be_repeated=True)

    async def list_by_status(self, status: AgentStatus) -> Sequence[AgentState]:
        return await self._list((status,))

    async def list_resume_candidates(self) -> Sequence[AgentState]:
        return await self._list(_RESUMABLE)

    async def list_runs(
        self,
        tenant_id: str,
        *,
        statuses: Collection[AgentStatus] = (),
        agent_type: str | None = None,
        conversation_id: str | None = None,
        since: datetime | None = None,
        until: datetime | None = None,
        after: str | None = None,
        limit: int = 50,
    ) -> RunPage:
        reject_not_positive("SqlAlchemyStateRepository.list_runs", limit=limit)
        reject_naive("SqlAlchemyStateRepository.list_runs", since=since, until=until)
        before = None if after is None else position_of(after)
        if self._tenant not in (None, tenant_id):
            return RunPage(())
        wanted = _STATES.where(runs.c.tenant_id == tenant_id)
        if statuses:
            wanted = wanted.where(runs.c.status.in_(_names(statuses)))
        if agent_type is not None:
            wanted = wanted.where(runs.c.agent_type == agent_type)
        if conversation_id is not None:
            wanted = wanted.where(runs.c.conversation_id == conversation_id)
        if since is not None:
            wanted = wanted.where(runs.c.created_at >= since)
        if until is not None:
            wanted = wanted.where(runs.c.created_at < until)
        if before is not None:
            wanted = wanted.where(runs.c.position < before)
        return await self._page(wanted.order_by(runs.c.position.desc()), limit)

    async def _page(self, wanted: Select[*tuple[Any, ...]], limit: int) -> RunPage:
        def look(connection: Connection) -> RunPage:
            found = connection.execute(wanted.limit(limit + 1)).mappings().all()
            states = tuple(map(state_of, found[:limit]))
            return RunPage(states, str(found[limit - 1]["position"]) if len(found) > limit else None)

        return await self._database.read(look)

    async def _list(self, statuses: Collection[AgentStatus]) -> Sequence[AgentState]:
        wanted = _STATES.where(runs.c.status.in_(_names(statuses))).order_by(runs.c.position)
        if self._tenant is not None:
            wanted = wanted.where(runs.c.tenant_id == self._tenant)
        return await self._database.read(
            lambda connection: [state_of(values) for values in connection.execute(wanted).mappings()]
        )


def _find(connection: Connection, tenant: str | None, run_id: str) -> tuple[AgentState, int] | None:
    place = {"run": run_id} if tenant is None else {"run": run_id, "tenant": tenant}
    found = (_ONE if tenant is None else _OWN).named_rows(connection, place)
    only_one(run_id, [values["tenant_id"] for values in found])
    return (state_of(found[0]), found[0]["head"]) if found else None


def _save(connection: Connection, values: dict[str, Any]) -> None:
    """Insert or replace all but the time of creation."""
    given_at = values.pop("given_at")
    first_kept = func.coalesce(bindparam("given_at", given_at, Moment()), now())
    maker = postgresql.insert if connection.dialect.name == "postgresql" else sqlite.insert
    statement = maker(runs).values(**values, created_at=first_kept, updated_at=now())
    changed = {
        name: statement.excluded[name]
        for name in ("status", "agent_type", "state", "ended", "updated_at", "wake_at", "awaits")
    }
    connection.execute(
        statement.on_conflict_do_update(
            index_elements=["tenant_id", "run_id"],
            set_={**changed, "created_at": func.coalesce(runs.c.created_at, statement.excluded.created_at)},
        )
    )


def _names(statuses: Collection[AgentStatus]) -> list[str]:
    return sorted(status.value for status in statuses)

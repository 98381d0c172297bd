"""`SqlAlchemyStateRepository`: the states of runs, and the tenants that runs belong to."""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from datetime import datetime
from functools import partial
from typing import Any

from sqlalchemy import Column, Connection, Select, bindparam, func, literal_column, or_, select

from pilotage.adapters.sqlalchemy.columns import MomentColumn, now
from pilotage.adapters.sqlalchemy.database import Database
from pilotage.adapters.sqlalchemy.mapping import (
    OF_WAITING,
    Stored,
    page_of,
    position_of,
    refusing_unstorable,
    state_values,
)
from pilotage.adapters.sqlalchemy.statements import Prepared, of_run, place_of
from pilotage.adapters.sqlalchemy.stored_entries import NO_CODES, STATES, RowCodes
from pilotage.adapters.sqlalchemy.supported import dialect_of
from pilotage.adapters.sqlalchemy.tables import runs, signals
from pilotage.agent.ports.journal import JournalHead
from pilotage.agent.ports.persistence import RunKey
from pilotage.agent.ports.repositories import DamagedRun, IAgentStateRepository, RunPage
from pilotage.agent.principal import DEFAULT_TENANT
from pilotage.agent.state import AgentState, AgentStatus
from pilotage.checks import reject_naive, reject_not_positive
from pilotage.errors import AgentDefinitionError, DamagedEntryError, RunNotFoundError

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

_COLUMNS = (
    *("position", "tenant_id", "run_id", "agent_type", "status", "state"),
    *("created_at", "updated_at", "wake_at", "awaits", "head"),
    *("epoch", "digest", "ended", "quarantined", "facts", "records", "turns", "ended_signals"),
    *("parent_id", "conversation_id", "code"),
)
_STATES: Select[*tuple[Any, ...]] = select(
    *(runs.c[name] for name in _COLUMNS), _PENDING.label("pending")
).where(runs.c.status.is_not(None))
_OF_ANY = _STATES.where(runs.c.run_id == bindparam("run"))
_ONE, _OWN = Prepared(_OF_ANY), Prepared(_OF_ANY.where(runs.c.tenant_id == bindparam("tenant")))

_TENANTS = Prepared(
    select(runs.c.tenant_id)
    .where(runs.c.run_id == bindparam("run"), or_(runs.c.head > 0, runs.c.status.is_not(None)))
    .order_by(runs.c.position)
    .limit(literal_column("5"))
)

_IS_JOURNALED = select(runs.c.head).where(*of_run(runs), runs.c.head > 0)


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

    async def get_with_head(self, state_id: str) -> tuple[AgentState, JournalHead] | None:
        codes = self._database.codes
        return await self._database.read(lambda connection: _find(connection, codes, self._tenant, state_id))

    async def save(self, state: AgentState) -> AgentState:
        if self._tenant not in (None, state.tenant_id):
            raise RunNotFoundError(f"there is no run {state.id!r}.")
        with refusing_unstorable("SqlAlchemyStateRepository.save"):
            values = state_values(state)

        def work(connection: Connection) -> AgentState:
            run = RunKey(state.tenant_id, state.id)
            refuse_if_journaled(connection, run, "SqlAlchemyStateRepository.save")
            named = {"tenant_id": run.tenant_id, "run_id": run.run_id}
            _save(connection, {**values, **named, "ended": state.is_terminal})
            found = _find(connection, NO_CODES, run.tenant_id, run.run_id)
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
        before = position_of(after)
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
        if after is not None:
            wanted = wanted.where(runs.c.position < before)
        wanted = wanted.order_by(runs.c.position.desc()).limit(limit + 1)
        codes = self._database.codes
        return await self._database.read(
            lambda connection: _page(connection.execute(wanted).mappings().all(), limit, codes)
        )

    async def _list(self, statuses: Collection[AgentStatus]) -> Sequence[AgentState]:
        wanted = _STATES.where(runs.c.status.in_(_names(statuses))).order_by(runs.c.position)
        if self._tenant is not None:
            wanted = wanted.where(runs.c.tenant_id == self._tenant)
        return await self._database.rows(wanted, {}, self._make)

    @property
    def _make(self) -> Callable[[Stored], AgentState]:
        return partial(STATES.read, self._database.codes)


def _find(
    connection: Connection, codes: RowCodes, tenant: str | None, run_id: str
) -> tuple[AgentState, JournalHead] | None:
    place = {"run": run_id} if tenant is None else {"run": run_id, "tenant": tenant}
    found = (_ONE if tenant is None else _OWN).named_rows(connection, place)
    only_one(run_id, [values["tenant_id"] for values in found])
    if not found:
        return None
    row = found[0]
    return STATES.read(codes, row), JournalHead(row["head"], row["epoch"], row["digest"])


def _page(found: Sequence[Stored], limit: int, codes: RowCodes) -> RunPage:
    """Return the runs of a page; a damaged one is named beside them."""
    damaged: list[DamagedRun] = []

    def read(stored: Stored) -> AgentState | None:
        try:
            return STATES.read(codes, stored)
        except DamagedEntryError as error:
            damaged.append(DamagedRun(str(stored["run_id"]), str(error)))
            return None

    states, cursor = page_of(found, limit, read)
    return RunPage(tuple(filter(None, states)), cursor, tuple(damaged))


def _save(connection: Connection, values: dict[str, Any]) -> None:
    """Insert or replace all but the time of creation."""
    given_at = values.pop("given_at")
    created_at = func.coalesce(bindparam("given_at", given_at, MomentColumn()), now())
    insert = dialect_of(connection.dialect.name).insert(runs)
    statement = insert.values(**values, created_at=created_at, updated_at=now())
    changed = {
        name: statement.excluded[name]
        for name in ("status", "agent_type", "state", "ended", "updated_at", *OF_WAITING)
    }
    connection.execute(
        statement.on_conflict_do_update(
            index_elements=["tenant_id", "run_id"],
            set_={**changed, "created_at": func.coalesce(runs.c.created_at, statement.excluded.created_at)},
        )
    )


def _names(statuses: Collection[AgentStatus]) -> list[str]:
    return sorted(status.value for status in statuses)


def run_of(connection: Connection, tenant: str | None, run_id: str) -> RunKey:
    """Return the run with this id: of the tenant, or else of the one tenant that has it.

    Raises:
        AgentDefinitionError: several tenants have one, so the id alone does not say which is meant.
    """
    if not tenant:
        found = _TENANTS.rows(connection, {"run": run_id})
        tenant = only_one(run_id, [tenant_id for (tenant_id,) in found])
    return RunKey(tenant or DEFAULT_TENANT, run_id)


def find_one(connection: Connection, tenant: str | None, name: str, column: Column[str]) -> Stored | None:
    """Return the row whose id is in this column: of the tenant, or else of the one tenant that has it.

    Raises:
        AgentDefinitionError: several tenants have one.
    """
    wanted = select(column.table).where(column == name)
    if tenant is not None:
        wanted = wanted.where(column.table.c.tenant_id == tenant)
    found = connection.execute(wanted).mappings().all()
    only_one(name, [values["tenant_id"] for values in found])
    return found[0] if found else None


def only_one(entry_id: str, tenants: list[str]) -> str | None:
    """Return the one tenant, or None where there is none.

    Raises:
        AgentDefinitionError: there are several.
    """
    if len(tenants) > 1:
        raise AgentDefinitionError(
            f"the id {entry_id!r} exists for several tenants ({', '.join(map(repr, tenants))}). "
            "Use a repository of one tenant: SqlAlchemyStateRepository(database, tenant=...)."
        )
    return tenants[0] if tenants else None


def refuse_if_journaled(connection: Connection, run: RunKey, method: str) -> None:
    """Refuse to write about a run that has a journal.

    Raises:
        AgentDefinitionError: it has one.
    """
    found = connection.execute(_IS_JOURNALED, place_of(run)).first()
    if found is not None:
        raise AgentDefinitionError(
            f"{method}: run {run.run_id!r} has a journal, and then only the journal writes about it. "
            "Put the change into a JournalCommit."
        )

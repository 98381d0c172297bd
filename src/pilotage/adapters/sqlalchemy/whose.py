"""Whose a run is, for ports that are asked by its id alone."""

from __future__ import annotations

from sqlalchemy import Connection, bindparam, literal_column, or_, select

from pilotage.adapters.sqlalchemy.driver import Prepared
from pilotage.adapters.sqlalchemy.tables import runs
from pilotage.agent.ports.journal import RunKey
from pilotage.agent.principal import DEFAULT_TENANT
from pilotage.errors import AgentDefinitionError

_TENANTS = Prepared(
    select(runs.c.tenant_id)
    .where(runs.c.run_id == bindparam("run"), or_(runs.c.head > 0, runs.c.status.is_not(None)))
    .order_by(runs.c.position)
    .limit(literal_column("5"))
)

_IS_JOURNALED = select(runs.c.head).where(
    runs.c.tenant_id == bindparam("tenant"), runs.c.run_id == bindparam("run"), runs.c.head > 0
)


def run_of(connection: Connection, tenant: str | None, run_id: str) -> RunKey:
    """The run with this id; without a tenant the one that any tenant has, or may come to have."""
    return RunKey(tenant or home(connection, run_id) or DEFAULT_TENANT, run_id)


def home(connection: Connection, run_id: str) -> str | None:
    """The tenant that has a run with this id, or None.

    Raises:
        AgentDefinitionError: several tenants have one, so the id alone does not say which is meant.
    """
    return only_one(run_id, [tenant for (tenant,) in _TENANTS.rows(connection, {"run": run_id})])


def only_one(entry_id: str, tenants: list[str]) -> str | None:
    """The one tenant, or None where there is none.

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
    found = connection.execute(_IS_JOURNALED, {"tenant": run.tenant_id, "run": run.run_id}).first()
    if found is not None:
        raise AgentDefinitionError(
            f"{method}: run {run.run_id!r} has a journal, and then only the journal writes about it. "
            "Put the change into a JournalCommit."
        )

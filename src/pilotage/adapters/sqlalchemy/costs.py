"""`SqlAlchemyCosts`: the charges in the rows of runs. People read them by the view `pilotage_costs`."""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping
from datetime import datetime
from typing import Any

from sqlalchemy import Connection, bindparam, select

from pilotage.adapters.sqlalchemy.columns import MomentColumn
from pilotage.adapters.sqlalchemy.database import Database
from pilotage.adapters.sqlalchemy.tables import journal, runs
from pilotage.agent.ports.costs import CostEntry, IAgentCosts, charges_in
from pilotage.runtime.costs import root_of, unreadable_costs

_PAGE = 2_000

_PARENTS = select(runs.c.run_id, runs.c.parent_id).where(runs.c.tenant_id == bindparam("tenant"))

_CHARGED = (
    select(
        *(journal.c.place, journal.c.costs, journal.c.created_at, journal.c.action_id),
        *(runs.c.run_id, runs.c.agent_type, runs.c.conversation_id),
    )
    .join_from(journal, runs, runs.c.position == journal.c.run)
    .where(
        journal.c.costs.is_not(None),
        runs.c.tenant_id == bindparam("tenant"),
        journal.c.place > bindparam("after", type_=journal.c.place.type),
    )
    .order_by(journal.c.place)
    .limit(_PAGE)
)
_SINCE = journal.c.created_at >= bindparam("since", type_=MomentColumn())
_UNTIL = journal.c.created_at < bindparam("until", type_=MomentColumn())


class SqlAlchemyCosts(IAgentCosts):
    """The charges of a tenant's runs in a database, read a page at a time."""

    def __init__(self, database: Database) -> None:
        self._database = database

    async def entries(
        self, tenant_id: str, *, since: datetime | None = None, until: datetime | None = None
    ) -> AsyncIterator[CostEntry]:
        query, given = _CHARGED, dict[str, Any](tenant=tenant_id, after=-1)
        if since is not None:
            query, given["since"] = query.where(_SINCE), since
        if until is not None:
            query, given["until"] = query.where(_UNTIL), until

        def parents(connection: Connection) -> Mapping[str, str | None]:
            return {
                found.run_id: found.parent_id for found in connection.execute(_PARENTS, {"tenant": tenant_id})
            }

        above = await self._database.read(parents)
        while True:
            page = await self._database.read(lambda connection: connection.execute(query, given).all())
            for place, costs, at, action_id, run_id, agent, conversation in page:
                given["after"] = place
                try:
                    charges = charges_in(costs)
                except ValueError as error:
                    raise unreadable_costs(run_id, action_id, error) from error
                if type(at) is not datetime:
                    raise unreadable_costs(run_id, action_id, ValueError(f"the row has no time: {at}"))
                for charge in charges:
                    root = root_of(run_id, above)
                    yield CostEntry(
                        tenant_id, run_id, root, agent, at, charge=charge, conversation=conversation
                    )
            if len(page) < _PAGE:
                return

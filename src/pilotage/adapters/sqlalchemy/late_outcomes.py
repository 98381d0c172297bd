"""`SqlAlchemyLateOutcomes`: what a lost owner learned, beside the journal."""

from __future__ import annotations

from collections.abc import Sequence

from sqlalchemy import Connection, bindparam, select

from pilotage.adapters.sqlalchemy.bulk import bulk_insert
from pilotage.adapters.sqlalchemy.columns import now
from pilotage.adapters.sqlalchemy.database import Database
from pilotage.adapters.sqlalchemy.mapping import Stored, UnstorableError, Values, document_of, text_of
from pilotage.adapters.sqlalchemy.tables import late_outcomes
from pilotage.agent.ports.journal import RunKey
from pilotage.agent.ports.repositories import IAgentLateOutcomes, LateOutcome
from pilotage.errors import AgentDefinitionError

_APPEND = bulk_insert(
    late_outcomes,
    ("tenant_id", "run_id", "action_id", "attempt", "epoch", "view"),
    lambda _: {"created_at": now()},
    skips_known=True,
)

_OF_ACTION = (
    select(late_outcomes)
    .where(
        late_outcomes.c.tenant_id == bindparam("tenant"),
        late_outcomes.c.run_id == bindparam("run"),
        late_outcomes.c.action_id == bindparam("action"),
    )
    .order_by(late_outcomes.c.position)
)


class SqlAlchemyLateOutcomes(IAgentLateOutcomes):
    """Late outcomes in a database; the first word of an owner about an attempt stays."""

    def __init__(self, database: Database) -> None:
        self._database = database

    async def append(self, outcome: LateOutcome) -> None:
        values = _values(outcome)
        await self._database.write(lambda connection: _APPEND.run(connection, [values]), may_be_repeated=True)

    async def list_by_action(self, run: RunKey, action_id: str) -> Sequence[LateOutcome]:
        place = {"tenant": run.tenant_id, "run": run.run_id, "action": action_id}

        def look(connection: Connection) -> list[LateOutcome]:
            return [_outcome(values) for values in connection.execute(_OF_ACTION, place).mappings()]

        return await self._database.read(look)


def _values(outcome: LateOutcome) -> Values:
    try:
        view = text_of(f"the outcome of {outcome.action_id!r}", outcome.view)
    except UnstorableError as error:
        raise AgentDefinitionError(f"SqlAlchemyLateOutcomes.append: {error}.") from error
    return {
        "tenant_id": outcome.run.tenant_id,
        "run_id": outcome.run.run_id,
        "action_id": outcome.action_id,
        "attempt": outcome.attempt,
        "epoch": outcome.epoch,
        "view": view,
    }


def _outcome(values: Stored) -> LateOutcome:
    run = RunKey(values["tenant_id"], values["run_id"])
    view = document_of(values["view"])
    return LateOutcome(
        run, values["action_id"], values["attempt"], values["epoch"], view, values["created_at"]
    )

"""`SqlAlchemyLateOutcomes`: outcomes of actions whose owner had lost the run, beside the journal."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

from sqlalchemy import bindparam, func, select

from pilotage.adapters.sqlalchemy.columns import MomentColumn, now
from pilotage.adapters.sqlalchemy.database import Database
from pilotage.adapters.sqlalchemy.entry_counts import add_entries
from pilotage.adapters.sqlalchemy.mapping import (
    Stored,
    Values,
    document_of,
    refusing_unstorable,
    text_of,
)
from pilotage.adapters.sqlalchemy.statements import bulk_insert, of_run, place_of
from pilotage.adapters.sqlalchemy.stored_entries import StoredEntry
from pilotage.adapters.sqlalchemy.tables import late_outcomes
from pilotage.agent.ports.persistence import RunKey
from pilotage.agent.ports.repositories import IAgentLateOutcomes, LateOutcome

_APPEND = bulk_insert(
    late_outcomes,
    ("tenant_id", "run_id", "action_id", "attempt", "epoch", "view", "code"),
    lambda given: {"created_at": func.coalesce(given["given_at"], now())},
    extra={"given_at": MomentColumn()},
    skips_known=True,
)

_OF_ACTION = (
    select(late_outcomes)
    .where(*of_run(late_outcomes), late_outcomes.c.action_id == bindparam("action"))
    .order_by(late_outcomes.c.position)
)


class SqlAlchemyLateOutcomes(IAgentLateOutcomes):
    """Late outcomes in a database; the first outcome of an attempt and epoch stays."""

    def __init__(self, database: Database) -> None:
        self._database = database

    async def append(self, outcome: LateOutcome) -> None:
        with refusing_unstorable("SqlAlchemyLateOutcomes.append"):
            view = text_of(f"the outcome of {outcome.action_id!r}", outcome.view)
        values: Values = {
            "tenant_id": outcome.run.tenant_id,
            "run_id": outcome.run.run_id,
            "action_id": outcome.action_id,
            "attempt": outcome.attempt,
            "epoch": outcome.epoch,
            "view": view,
        }
        codes, scope = self._database.engines.codes, (outcome.run.tenant_id, outcome.run.run_id)
        codes.add(late_outcomes, values)
        await self._database.write(
            lambda connection: add_entries(
                codes, connection, late_outcomes, _APPEND.run(connection, [values]), scope
            ),
            may_be_repeated=True,
        )

    async def list_by_action(self, run: RunKey, action_id: str) -> Sequence[LateOutcome]:
        make = partial(LATE_OUTCOMES.read, self._database.engines.codes)
        return await self._database.rows(_OF_ACTION, {**place_of(run), "action": action_id}, make)


def _outcome(values: Stored) -> LateOutcome:
    run = RunKey(values["tenant_id"], values["run_id"])
    view = document_of(values["view"])
    return LateOutcome(
        run=run,
        action_id=values["action_id"],
        attempt=values["attempt"],
        epoch=values["epoch"],
        view=view,
        created_at=values["created_at"],
    )


LATE_OUTCOMES = StoredEntry(
    late_outcomes,
    lambda stored: f"the late outcome of {stored['action_id']!r} in run {stored['run_id']!r}",
    _outcome,
)

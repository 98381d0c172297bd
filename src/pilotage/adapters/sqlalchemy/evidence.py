"""`SqlAlchemyEvidenceRepository`: evidence, append only."""

from __future__ import annotations

from collections.abc import Sequence

from sqlalchemy import Connection, bindparam, func, insert, select

from pilotage.adapters.sqlalchemy.columns import Moment, now
from pilotage.adapters.sqlalchemy.cursors import position_of
from pilotage.adapters.sqlalchemy.database import Database
from pilotage.adapters.sqlalchemy.errors import ConflictingWriteError
from pilotage.adapters.sqlalchemy.mapping import UnstorableError, evidence_of, evidence_values
from pilotage.adapters.sqlalchemy.tables import evidence
from pilotage.adapters.sqlalchemy.whose import only_one, refuse_if_journaled, run_of
from pilotage.agent.evidence import AgentEvidence
from pilotage.agent.ports.repositories import EvidencePage, IAgentEvidenceRepository
from pilotage.checks import reject_not_positive
from pilotage.errors import AgentDefinitionError, EvidenceNotFoundError

_BY_ID = select(evidence).where(evidence.c.evidence_id == bindparam("evidence"))
_OWN = _BY_ID.where(evidence.c.tenant_id == bindparam("tenant"))

_OF_RUN = (
    select(evidence)
    .where(evidence.c.tenant_id == bindparam("tenant"), evidence.c.run_id == bindparam("run"))
    .order_by(evidence.c.position)
)

_PAGE_OF_RUN = _OF_RUN.where(evidence.c.position > bindparam("behind")).limit(bindparam("most"))


class SqlAlchemyEvidenceRepository(IAgentEvidenceRepository):
    """Evidence in a database. With a `tenant` it knows only that tenant's evidence, without one that of all."""

    def __init__(self, database: Database, tenant: str | None = None) -> None:
        self._database, self._tenant = database, tenant

    async def append(self, evidence: AgentEvidence) -> AgentEvidence:
        def work(connection: Connection) -> AgentEvidence:
            run = run_of(connection, self._tenant, evidence.agent_state_id)
            refuse_if_journaled(connection, run, "SqlAlchemyEvidenceRepository.append")
            _append(connection, run.tenant_id, evidence)
            found = _find(connection, run.tenant_id, evidence.id)
            assert found is not None  # noqa: S101 - it was just written
            return found

        try:
            return await self._database.write(work)
        except UnstorableError as error:
            raise AgentDefinitionError(f"SqlAlchemyEvidenceRepository.append: {error}.") from error
        except ConflictingWriteError as error:
            raise AgentDefinitionError(
                f"SqlAlchemyEvidenceRepository.append: evidence {evidence.id!r} is recorded already, and what is "
                "recorded does not change. Give the new record an id of its own."
            ) from error

    async def get(self, evidence_id: str) -> AgentEvidence:
        found = await self._database.read(lambda connection: _find(connection, self._tenant, evidence_id))
        if found is None:
            raise EvidenceNotFoundError(f"there is no evidence {evidence_id!r}.")
        return found

    async def list_by_state(self, state_id: str) -> Sequence[AgentEvidence]:
        def look(connection: Connection) -> list[AgentEvidence]:
            run = run_of(connection, self._tenant, state_id)
            found = connection.execute(_OF_RUN, {"tenant": run.tenant_id, "run": run.run_id})
            return [evidence_of(values) for values in found.mappings()]

        return await self._database.read(look)

    async def page_by_state(
        self, state_id: str, *, after: str | None = None, limit: int = 50
    ) -> EvidencePage:
        reject_not_positive("SqlAlchemyEvidenceRepository.page_by_state", limit=limit)
        behind = 0 if after is None else position_of(after)

        def look(connection: Connection) -> EvidencePage:
            run = run_of(connection, self._tenant, state_id)
            place = {"tenant": run.tenant_id, "run": run.run_id, "behind": behind, "most": limit + 1}
            found = connection.execute(_PAGE_OF_RUN, place).mappings().all()
            cursor = str(found[limit - 1]["position"]) if len(found) > limit else None
            return EvidencePage(tuple(map(evidence_of, found[:limit])), cursor)

        return await self._database.read(look)

    async def list_by_manifest_ref(self, manifest_ref: str) -> Sequence[AgentEvidence]:
        wanted = select(evidence).where(evidence.c.manifest_ref == manifest_ref)
        if self._tenant is not None:
            wanted = wanted.where(evidence.c.tenant_id == self._tenant)
        ordered = wanted.order_by(evidence.c.position)
        return await self._database.read(
            lambda connection: [evidence_of(values) for values in connection.execute(ordered).mappings()]
        )


def _find(connection: Connection, tenant: str | None, evidence_id: str) -> AgentEvidence | None:
    place = {"evidence": evidence_id} if tenant is None else {"evidence": evidence_id, "tenant": tenant}
    found = connection.execute(_BY_ID if tenant is None else _OWN, place).mappings().all()
    only_one(evidence_id, [values["tenant_id"] for values in found])
    return evidence_of(found[0]) if found else None


def _append(connection: Connection, tenant_id: str, given: AgentEvidence) -> None:
    values = evidence_values(tenant_id, given)
    moment = func.coalesce(bindparam("given_at", values.pop("given_at"), Moment()), now())
    connection.execute(insert(evidence).values(**values, created_at=moment))

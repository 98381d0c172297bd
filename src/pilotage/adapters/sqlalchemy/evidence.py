"""`SqlAlchemyEvidenceRepository`: evidence, append only."""

from __future__ import annotations

from collections.abc import Sequence

from sqlalchemy import Connection, bindparam, func, select

from pilotage.adapters.sqlalchemy.columns import MomentColumn, now
from pilotage.adapters.sqlalchemy.database import Database
from pilotage.adapters.sqlalchemy.errors import ConflictingWriteError
from pilotage.adapters.sqlalchemy.mapping import (
    Stored,
    evidence_values,
    page_of,
    position_of,
    refusing_unstorable,
)
from pilotage.adapters.sqlalchemy.statements import bulk_insert, of_run, place_of
from pilotage.adapters.sqlalchemy.states import find_one, refuse_if_journaled, run_of
from pilotage.adapters.sqlalchemy.stored_entries import EVIDENCE
from pilotage.adapters.sqlalchemy.tables import evidence
from pilotage.adapters.sqlalchemy.tables import evidence as table
from pilotage.agent.evidence import AgentEvidence, AgentEvidenceKind
from pilotage.agent.ports.repositories import EvidencePage, IAgentEvidenceRepository
from pilotage.checks import reject_not_positive
from pilotage.errors import AgentDefinitionError, EvidenceNotFoundError

INSERT_EVIDENCE = bulk_insert(
    evidence,
    ("tenant_id", "run_id", "evidence_id", "number", "kind", "manifest_ref", "document", "code"),
    lambda given: {"created_at": func.coalesce(given["given_at"], now())},
    extra={"given_at": MomentColumn()},
)

_OF_RUN = select(evidence).where(*of_run(evidence)).order_by(evidence.c.position)
_PAGE_OF_RUN = _OF_RUN.where(evidence.c.position > bindparam("behind")).limit(bindparam("most"))


class SqlAlchemyEvidenceRepository(IAgentEvidenceRepository):
    """Evidence in a database. With a `tenant` it knows only that tenant's evidence, without one that of all."""

    def __init__(self, database: Database, tenant: str | None = None) -> None:
        self._database, self._tenant = database, tenant

    def _checked(self, values: Stored) -> AgentEvidence:
        return EVIDENCE.read(self._database.engines.codes, values)

    async def append(self, evidence: AgentEvidence) -> AgentEvidence:
        def work(connection: Connection) -> AgentEvidence:
            run = run_of(connection, self._tenant, evidence.agent_state_id)
            if evidence.kind is not AgentEvidenceKind.EVALUATION:
                refuse_if_journaled(connection, run, "SqlAlchemyEvidenceRepository.append")
            values = evidence_values(run.tenant_id, evidence)
            self._database.engines.codes.add(table, values)
            INSERT_EVIDENCE.run(connection, [values])
            found = _find(connection, run.tenant_id, evidence.id)
            assert found is not None  # noqa: S101 - it was just written
            return found

        try:
            with refusing_unstorable("SqlAlchemyEvidenceRepository.append"):
                return await self._database.write(work)
        except ConflictingWriteError as error:
            raise AgentDefinitionError(
                f"SqlAlchemyEvidenceRepository.append: evidence {evidence.id!r} is recorded already, and what is "
                "recorded does not change. Give the new record an id of its own."
            ) from error

    async def get(self, evidence_id: str) -> AgentEvidence:
        found = await self._database.read(
            lambda connection: find_one(connection, self._tenant, evidence_id, evidence.c.evidence_id)
        )
        if found is None:
            raise EvidenceNotFoundError(f"there is no evidence {evidence_id!r}.")
        return self._checked(found)

    async def list_by_state(self, state_id: str) -> Sequence[AgentEvidence]:
        def look(connection: Connection) -> list[AgentEvidence]:
            run = run_of(connection, self._tenant, state_id)
            found = connection.execute(_OF_RUN, place_of(run))
            return [self._checked(values) for values in found.mappings().all()]

        return await self._database.read(look)

    async def page_by_state(
        self, state_id: str, *, after: str | None = None, limit: int = 50
    ) -> EvidencePage:
        reject_not_positive("SqlAlchemyEvidenceRepository.page_by_state", limit=limit)
        behind = position_of(after)

        def look(connection: Connection) -> EvidencePage:
            run = run_of(connection, self._tenant, state_id)
            place = {**place_of(run), "behind": behind, "most": limit + 1}
            found = connection.execute(_PAGE_OF_RUN, place).mappings().all()
            return EvidencePage(*page_of(found, limit, self._checked))

        return await self._database.read(look)

    async def list_by_manifest_ref(self, manifest_ref: str) -> Sequence[AgentEvidence]:
        wanted = select(evidence).where(evidence.c.manifest_ref == manifest_ref)
        if self._tenant is not None:
            wanted = wanted.where(evidence.c.tenant_id == self._tenant)
        return await self._database.rows(wanted.order_by(evidence.c.position), {}, self._checked)


def _find(connection: Connection, tenant: str | None, evidence_id: str) -> AgentEvidence | None:
    found = find_one(connection, tenant, evidence_id, evidence.c.evidence_id)
    return None if found is None else EVIDENCE.decoded(found)

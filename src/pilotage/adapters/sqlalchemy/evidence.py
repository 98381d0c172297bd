"""`SqlAlchemyEvidenceRepository`, `SqlAlchemyLateOutcomes`, `SqlAlchemyAuditLog`: evidence of runs, append only."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

from sqlalchemy import Connection, bindparam, func, select

from pilotage.adapters.sqlalchemy.columns import MomentColumn, now
from pilotage.adapters.sqlalchemy.database import Database
from pilotage.adapters.sqlalchemy.entry_counts import add_entries, missing, number_of_run
from pilotage.adapters.sqlalchemy.errors import ConflictingWriteError
from pilotage.adapters.sqlalchemy.mapping import (
    Stored,
    Values,
    evidence_values,
    page_of,
    position_of,
    refusing_unstorable,
    text_of,
)
from pilotage.adapters.sqlalchemy.statements import bulk_insert, of_run, place_of
from pilotage.adapters.sqlalchemy.states import find_one, refuse_if_journaled, run_of
from pilotage.adapters.sqlalchemy.stored_entries import AUDIT_ENTRIES, EVIDENCE, LATE_OUTCOMES
from pilotage.adapters.sqlalchemy.tables import audit, evidence, late_outcomes
from pilotage.adapters.sqlalchemy.tables import evidence as table
from pilotage.agent.evidence import AgentEvidence, AgentEvidenceKind
from pilotage.agent.ports.observability import AuditEntry, IAgentAuditLog
from pilotage.agent.ports.persistence import RunKey
from pilotage.agent.ports.repositories import (
    EvidencePage,
    IAgentEvidenceRepository,
    IAgentLateOutcomes,
    LateOutcome,
)
from pilotage.agent.principal import Principal
from pilotage.checks import reject_not_positive
from pilotage.errors import AgentDefinitionError, EvidenceNotFoundError
from pilotage.jsonvalue import JsonObject

INSERT_EVIDENCE = bulk_insert(
    evidence,
    ("tenant_id", "run_id", "evidence_id", "number", "kind", "manifest_ref", "document", "code"),
    lambda given: {"created_at": func.coalesce(given["given_at"], now())},
    extra={"given_at": MomentColumn()},
)

_OF_RUN = select(evidence).where(*of_run(evidence)).order_by(evidence.c.position)
_PAGE_OF_RUN = _OF_RUN.where(evidence.c.position > bindparam("after")).limit(bindparam("most"))


class SqlAlchemyEvidenceRepository(IAgentEvidenceRepository):
    """Evidence in a database. With a `tenant` it knows only that tenant's evidence, without one that of all."""

    def __init__(self, database: Database, tenant: str | None = None) -> None:
        self._database, self._tenant = database, tenant

    def _checked(self, values: Stored) -> AgentEvidence:
        return EVIDENCE.read(self._database.codes, values)

    async def append(self, evidence: AgentEvidence) -> AgentEvidence:
        def work(connection: Connection) -> AgentEvidence:
            run = run_of(connection, self._tenant, evidence.agent_state_id)
            if evidence.kind is not AgentEvidenceKind.EVALUATION:
                refuse_if_journaled(connection, run, "SqlAlchemyEvidenceRepository.append")
            values = evidence_values(run.tenant_id, evidence)
            self._database.codes.add(table, values)
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
        position = position_of(after)

        def look(connection: Connection) -> EvidencePage:
            run = run_of(connection, self._tenant, state_id)
            place = {**place_of(run), "after": position, "most": limit + 1}
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
        codes, scope = self._database.codes, (outcome.run.tenant_id, outcome.run.run_id)
        codes.add(late_outcomes, values)
        await self._database.write(
            lambda connection: add_entries(
                codes, connection, late_outcomes, _APPEND.run(connection, [values]), scope
            ),
            may_be_repeated=True,
        )

    async def list_by_action(self, run: RunKey, action_id: str) -> Sequence[LateOutcome]:
        make = partial(LATE_OUTCOMES.read, self._database.codes)
        return await self._database.rows(_OF_ACTION, {**place_of(run), "action": action_id}, make)


_RECORD = bulk_insert(
    audit,
    ("tenant_id", "run_id", "evidence_ref", "document", "occurred_at", "code"),
    skips_known=True,
)

_AUDIT_OF_RUN = select(audit).where(*of_run(audit)).order_by(audit.c.position)


class SqlAlchemyAuditLog(IAgentAuditLog):
    """The audit log in a database; the first entry about a piece of evidence stays."""

    def __init__(self, database: Database) -> None:
        self._database = database

    async def record(self, entry: AuditEntry) -> None:
        row: Values = {
            "tenant_id": entry.principal.tenant,
            "run_id": entry.run_id,
            "evidence_ref": entry.evidence_ref,
            "document": _document(entry),
            "occurred_at": entry.occurred_at,
        }
        row["code"] = self._database.codes.packed(audit, row)
        codes, scope = self._database.codes, (entry.principal.tenant, entry.run_id)
        await self._database.write(
            lambda connection: add_entries(codes, connection, audit, _RECORD.run(connection, [row]), scope),
            may_be_repeated=entry.evidence_ref is not None,
        )

    async def list_by_run(self, principal: Principal, run_id: str) -> Sequence[AuditEntry]:
        codes, run = self._database.codes, RunKey(principal.tenant, run_id)

        def look(connection: Connection) -> list[AuditEntry]:
            found = connection.execute(_AUDIT_OF_RUN, place_of(run)).mappings().all()
            number = number_of_run(codes, connection, audit, run)
            if codes.is_on and number != len(found):
                raise missing(audit, number or 0, len(found))
            return [AUDIT_ENTRIES.read(codes, values) for values in found]

        return await self._database.read(look)


def _document(entry: AuditEntry) -> str:
    document: JsonObject = {
        "principal": entry.principal.id,
        "permissions": sorted(entry.principal.permissions),
        "act": entry.act,
        "outcome": entry.outcome,
        "metadata": entry.metadata,
    }
    with refusing_unstorable("SqlAlchemyAuditLog.record"):
        return text_of(f"the audit entry about {entry.act!r}", document)

"""`SqlAlchemyAuditLog`: the acts of principals, append only."""

from __future__ import annotations

from collections.abc import Sequence

from sqlalchemy import Connection, select

from pilotage.adapters.sqlalchemy.database import Database
from pilotage.adapters.sqlalchemy.entry_counts import add_entries, missing, number_of_run
from pilotage.adapters.sqlalchemy.mapping import (
    Stored,
    Values,
    document_of,
    refusing_unstorable,
    text_of,
)
from pilotage.adapters.sqlalchemy.statements import bulk_insert, of_run, place_of
from pilotage.adapters.sqlalchemy.stored_entries import StoredEntry
from pilotage.adapters.sqlalchemy.tables import audit
from pilotage.agent.ports.observability import AuditEntry, IAgentAuditLog
from pilotage.agent.ports.persistence import RunKey
from pilotage.agent.principal import Principal
from pilotage.jsonvalue import JsonObject

_RECORD = bulk_insert(
    audit,
    ("tenant_id", "run_id", "evidence_ref", "document", "occurred_at", "code"),
    skips_known=True,
)

_OF_RUN = select(audit).where(*of_run(audit)).order_by(audit.c.position)


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
        row["code"] = self._database.engines.codes.packed(audit, row)
        codes, scope = self._database.engines.codes, (entry.principal.tenant, entry.run_id)
        await self._database.write(
            lambda connection: add_entries(codes, connection, audit, _RECORD.run(connection, [row]), scope),
            may_be_repeated=entry.evidence_ref is not None,
        )

    async def list_by_run(self, principal: Principal, run_id: str) -> Sequence[AuditEntry]:
        codes, run = self._database.engines.codes, RunKey(principal.tenant, run_id)

        def look(connection: Connection) -> list[AuditEntry]:
            found = connection.execute(_OF_RUN, place_of(run)).mappings().all()
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


def _entry(values: Stored) -> AuditEntry:
    document = document_of(values["document"])
    principal = Principal(document["principal"], values["tenant_id"], frozenset(document["permissions"]))
    return AuditEntry(
        run_id=values["run_id"],
        principal=principal,
        act=document["act"],
        outcome=document["outcome"],
        occurred_at=values["occurred_at"],
        evidence_ref=values["evidence_ref"],
        metadata=document["metadata"],
    )


AUDIT_ENTRIES = StoredEntry(
    audit,
    lambda stored: f"an audit entry of run {stored['run_id']!r}, about {stored['evidence_ref']!r},",
    _entry,
)

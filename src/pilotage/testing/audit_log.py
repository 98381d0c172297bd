"""The audit log in memory."""

from __future__ import annotations

from collections.abc import Sequence

from pilotage.agent.ports.audit import AuditEntry, IAgentAuditLog
from pilotage.agent.principal import Principal


class MemoryAuditLog(IAgentAuditLog):
    """Audit entries in a list; they outlive the "processes" of a test if the log does."""

    def __init__(self) -> None:
        self.entries: list[AuditEntry] = []

    async def record(self, entry: AuditEntry) -> None:
        known = {(each.principal.tenant, each.run_id, each.evidence_ref) for each in self.entries}
        if (
            entry.evidence_ref is None
            or (entry.principal.tenant, entry.run_id, entry.evidence_ref) not in known
        ):
            self.entries.append(entry)

    async def list_by_run(self, principal: Principal, run_id: str) -> Sequence[AuditEntry]:
        return [
            entry
            for entry in self.entries
            if entry.run_id == run_id and entry.principal.tenant == principal.tenant
        ]

"""What is looked up before commits are decided, kept up to date while the batch is decided. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from pilotage.adapters.sqlalchemy.mapping import NO_STATE
from pilotage.agent.ports.commit_rules import RunSnapshot
from pilotage.agent.ports.journal import RunKey
from pilotage.agent.state import AgentStatus


@dataclass
class StoredRun(RunSnapshot):
    """A run as the commits of the batch leave it, with `stored_head` as the database has it.

    `actions` are looked up only after a conflict: most of the time the unique key of the table is enough.
    """

    stored_head: int = 0
    digest: str = ""
    parent: str | None = None
    facts: int = 0
    is_stored: bool = False
    state: Mapping[str, Any] = field(default_factory=lambda: NO_STATE)


class Known:
    """Runs and parents, pending signals, holders of conversations, and evidence that was looked for."""

    def __init__(self) -> None:
        self.runs: dict[RunKey, StoredRun] = {}
        self.pending: set[tuple[RunKey, str]] = set()
        self.holders: dict[tuple[str, str], str] = {}
        self.evidence: set[tuple[str, str]] = set()

    def status_of(self, run: RunKey) -> AgentStatus | None:
        found = self.runs.get(run)
        return None if found is None else found.status

    def holder_of(self, tenant_id: str, conversation_id: str) -> str | None:
        return self.holders.get((tenant_id, conversation_id))

    def is_pending(self, run: RunKey, signal_id: str) -> bool:
        return (run, signal_id) in self.pending

    def has_evidence(self, tenant_id: str, evidence_id: str) -> bool:
        return (tenant_id, evidence_id) in self.evidence

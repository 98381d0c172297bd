"""The promises of the audit port."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from datetime import UTC, datetime

import pytest

from pilotage.agent.ports.audit import AuditEntry, IAgentAuditLog
from pilotage.agent.principal import Principal

ADA, GRACE, EVE = Principal("ada"), Principal("grace"), Principal("eve", tenant="elsewhere")
AT = datetime(2026, 11, 15, 12, 30, tzinfo=UTC)
PAID = AuditEntry("run-1", ADA, "tool.pay", "done", AT, "run-1:7", {"attempt": 1, "note": "ärger"})


class AuditLogConformance:
    """What every audit log must do.

    Fixtures to give: `audit_log`, over an empty store; and, where a store can be opened twice, `second_audit_log`.
    """

    pytestmark = pytest.mark.asyncio

    @pytest.fixture
    def second_audit_log(self, audit_log: IAgentAuditLog) -> IAgentAuditLog:
        """Another adapter over the same store; where there is no such thing, `audit_log` itself."""
        return audit_log

    async def test_what_goes_in_comes_out_in_the_order_it_was_recorded(
        self, audit_log: IAgentAuditLog, second_audit_log: IAgentAuditLog
    ) -> None:
        entries = [replace(PAID, evidence_ref=f"run-1:{number}", act=f"act.{number}") for number in (3, 1, 2)]
        for entry in entries:
            await audit_log.record(entry)
        assert list(await second_audit_log.list_by_run(ADA, "run-1")) == entries

    async def test_an_entry_about_the_same_evidence_is_recorded_once(
        self, audit_log: IAgentAuditLog, second_audit_log: IAgentAuditLog
    ) -> None:
        await asyncio.gather(*(log.record(PAID) for log in (audit_log, second_audit_log, audit_log)))
        await audit_log.record(replace(PAID, outcome="failed"))
        assert list(await audit_log.list_by_run(ADA, "run-1")) == [PAID]

    async def test_entries_without_evidence_are_all_kept(self, audit_log: IAgentAuditLog) -> None:
        for _ in range(2):
            await audit_log.record(replace(PAID, evidence_ref=None))
        assert len(await audit_log.list_by_run(ADA, "run-1")) == 2

    async def test_everybody_of_the_tenant_reads_them_and_nobody_else(
        self, audit_log: IAgentAuditLog
    ) -> None:
        await audit_log.record(PAID)
        assert list(await audit_log.list_by_run(GRACE, "run-1")) == [PAID]
        assert list(await audit_log.list_by_run(EVE, "run-1")) == []

    async def test_runs_and_tenants_are_kept_apart(self, audit_log: IAgentAuditLog) -> None:
        others = [replace(PAID, run_id="run-2"), replace(PAID, principal=EVE)]
        for entry in (PAID, *others):
            await audit_log.record(entry)
        for entry in (PAID, *others):
            assert list(await audit_log.list_by_run(entry.principal, entry.run_id)) == [entry]

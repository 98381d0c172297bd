"""The promises of the ports that only add records: evidence, audit log, late outcomes."""

from __future__ import annotations

import asyncio
from contextlib import suppress
from dataclasses import replace
from datetime import UTC, datetime, timedelta, timezone

import pytest

from pilotage.agent.evidence import AgentEvidence, AgentEvidenceKind
from pilotage.agent.ports.observability import AuditEntry, IAgentAuditLog
from pilotage.agent.ports.repositories import (
    EvidencePage,
    IAgentEvidenceRepository,
    IAgentLateOutcomes,
    LateOutcome,
)
from pilotage.agent.principal import Principal
from pilotage.errors import AgentDefinitionError, CallerError, EvidenceNotFoundError, PilotageError
from pilotage.jsonvalue import JsonObject, JsonValue
from pilotage.safety.fields import PII, MaskingPolicy, SecretField, SensitiveField, SensitiveFieldDescriptor
from pilotage.testing.conformance.kit import FOREIGN_RUN, OTHER_RUN, PAYLOAD, RUN, Kit

EVIDENCE = AgentEvidence("evidence-1", "run-1", AgentEvidenceKind.TOOL)
FULL = AgentEvidence(
    id="evidence-1",
    agent_state_id="run-1",
    kind=AgentEvidenceKind.CONTEXT_MANIFEST,
    payload=PAYLOAD,
    summary="what the model saw",
    digest="d1",
    manifest_ref="manifest-1",
    reference="blob-1",
    sensitive_fields=(
        SensitiveFieldDescriptor(
            ("customer", "email"), SensitiveField(PII.EMAIL, MaskingPolicy.LAST_FOUR, label="mail")
        ),
        SensitiveFieldDescriptor(("keys",), SecretField(metadata={"vault": "a"}), each_value_at=(1,)),
    ),
    created_at=datetime(2026, 3, 29, 3, 30, microsecond=123456, tzinfo=timezone(timedelta(hours=2))),
)

ADA, GRACE, EVE = Principal("ada"), Principal("grace"), Principal("eve", tenant="elsewhere")
AT = datetime(2026, 11, 15, 12, 30, tzinfo=UTC)
PAID = AuditEntry(
    run_id="run-1",
    principal=ADA,
    act="tool.pay",
    outcome="done",
    occurred_at=AT,
    evidence_ref="run-1:7",
    metadata={"attempt": 1, "note": "ärger"},
)
VIEW: JsonObject = {"capture": "structured", "result": {"paid": ["12.50", None, True], "note": "ärger\u0000"}}
PAID_LATE = LateOutcome(RUN, "run/tool:pay#1", 1, 1, VIEW)


class EvidenceRepositoryConformance(Kit):
    """Conformance tests of every evidence repository.

    Fixtures to give: `evidence`, over an empty store, for the tenant "default" (or all), and `foreign_evidence`,
    over the same store, for the tenant "elsewhere".
    """

    async def test_unknown_evidence_is_not_found(self, evidence: IAgentEvidenceRepository) -> None:
        with pytest.raises(EvidenceNotFoundError):
            await evidence.get("evidence-9")
        assert await evidence.list_by_state("run-9") == []
        assert await evidence.list_by_manifest_ref("manifest-9") == []

    async def test_evidence_comes_back_unchanged_descriptors_included(
        self, evidence: IAgentEvidenceRepository
    ) -> None:
        assert await evidence.append(FULL) == FULL
        assert await evidence.get("evidence-1") == FULL
        assert await evidence.list_by_state("run-1") == [FULL]

    async def test_evidence_without_a_time_gets_the_stores(self, evidence: IAgentEvidenceRepository) -> None:
        stored = await evidence.append(EVIDENCE)
        assert stored.created_at is not None
        assert stored.created_at.utcoffset() is not None
        assert stored == await evidence.get("evidence-1")

    async def test_evidence_of_a_run_comes_in_its_sequence_whatever_its_ids_and_times(
        self, evidence: IAgentEvidenceRepository
    ) -> None:
        for day, evidence_id in ((3, "c"), (2, "a"), (1, "b")):
            await evidence.append(
                replace(EVIDENCE, id=evidence_id, created_at=datetime(2026, 1, day, tzinfo=UTC))
            )
        await evidence.append(replace(EVIDENCE, id="other", agent_state_id="run-2"))
        assert [each.id for each in await evidence.list_by_state("run-1")] == ["c", "a", "b"]

    async def test_evidence_of_a_manifest_comes_in_the_order_it_was_appended(
        self, evidence: IAgentEvidenceRepository
    ) -> None:
        for evidence_id, run_id, manifest in (
            ("b", "run-2", "m1"),
            ("x", "run-1", "m2"),
            ("a", "run-1", "m1"),
            ("y", "run-1", None),
        ):
            await evidence.append(
                replace(EVIDENCE, id=evidence_id, agent_state_id=run_id, manifest_ref=manifest)
            )
        assert [each.id for each in await evidence.list_by_manifest_ref("m1")] == ["b", "a"]

    async def test_evidence_of_a_run_is_read_page_by_page(self, evidence: IAgentEvidenceRepository) -> None:
        assert await evidence.page_by_state("run-1") == EvidencePage(())
        for number in range(5):
            await evidence.append(replace(EVIDENCE, id=f"{9 - number}"))
            await evidence.append(replace(EVIDENCE, id=f"other-{number}", agent_state_id="run-2"))
        first = await evidence.page_by_state("run-1", limit=2)
        second = await evidence.page_by_state("run-1", limit=2, after=first.cursor)
        await evidence.append(replace(EVIDENCE, id="newcomer"))
        rest = await evidence.page_by_state("run-1", limit=2, after=second.cursor)
        pages = [[each.id for each in page.evidence] for page in (first, second, rest)]
        assert pages == [["9", "8"], ["7", "6"], ["5", "newcomer"]]
        assert rest.cursor is None

    async def test_what_is_no_page_cannot_be_read(self, evidence: IAgentEvidenceRepository) -> None:
        with pytest.raises(CallerError):
            await evidence.page_by_state("run-1", after="not a cursor")
        with pytest.raises(AgentDefinitionError):
            await evidence.page_by_state("run-1", limit=0)

    async def test_what_was_recorded_cannot_be_changed(self, evidence: IAgentEvidenceRepository) -> None:
        await evidence.append(FULL)
        with suppress(PilotageError):  # an adapter may refuse the id or ignore what comes with it
            await evidence.append(replace(FULL, payload={"forged": True}))
        assert await evidence.list_by_state("run-1") == [FULL]

    async def test_another_tenants_evidence_is_not_found(
        self, evidence: IAgentEvidenceRepository, foreign_evidence: IAgentEvidenceRepository
    ) -> None:
        await evidence.append(FULL)
        with pytest.raises(EvidenceNotFoundError):
            await foreign_evidence.get("evidence-1")
        assert await foreign_evidence.list_by_state("run-1") == []
        assert await foreign_evidence.list_by_manifest_ref("manifest-1") == []

    async def test_a_change_of_returned_evidence_does_not_reach_the_store(
        self, evidence: IAgentEvidenceRepository
    ) -> None:
        shared: dict[str, JsonValue] = {"amount": 1}
        stored = await evidence.append(replace(EVIDENCE, payload=shared))
        shared["amount"] = 2
        assert isinstance(stored.payload, dict)
        stored.payload["amount"] = 3
        assert (await evidence.get("evidence-1")).payload == {"amount": 1}


class AuditLogConformance(Kit):
    """Conformance tests of every audit log.

    Fixtures to give: `audit_log`, over an empty store; and, where a store can be opened twice, `second_audit_log`.
    """

    @pytest.fixture
    def second_audit_log(self, audit_log: IAgentAuditLog) -> IAgentAuditLog:
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

    async def test_entries_without_evidence_are_all_stored(self, audit_log: IAgentAuditLog) -> None:
        for _ in range(2):
            await audit_log.record(replace(PAID, evidence_ref=None))
        assert len(await audit_log.list_by_run(ADA, "run-1")) == 2

    async def test_all_readers_of_the_tenant_see_them_and_no_others(self, audit_log: IAgentAuditLog) -> None:
        await audit_log.record(PAID)
        assert list(await audit_log.list_by_run(GRACE, "run-1")) == [PAID]
        assert list(await audit_log.list_by_run(EVE, "run-1")) == []

    async def test_runs_and_tenants_are_separate(self, audit_log: IAgentAuditLog) -> None:
        others = [replace(PAID, run_id="run-2"), replace(PAID, principal=EVE)]
        for entry in (PAID, *others):
            await audit_log.record(entry)
        for entry in (PAID, *others):
            assert list(await audit_log.list_by_run(entry.principal, entry.run_id)) == [entry]


class LateOutcomesConformance(Kit):
    """Conformance tests of every port for late outcomes.

    Fixtures to give: `late_outcomes`, over an empty store; and, where a store can be opened twice,
    `second_late_outcomes`: another adapter over the same store, as a second process has it.
    """

    @pytest.fixture
    def second_late_outcomes(self, late_outcomes: IAgentLateOutcomes) -> IAgentLateOutcomes:
        return late_outcomes

    async def test_an_action_without_a_report_has_no_outcome(self, late_outcomes: IAgentLateOutcomes) -> None:
        assert list(await late_outcomes.list_by_action(RUN, PAID_LATE.action_id)) == []

    async def test_what_goes_in_comes_out_with_the_time_of_the_store(
        self, late_outcomes: IAgentLateOutcomes, second_late_outcomes: IAgentLateOutcomes
    ) -> None:
        await late_outcomes.append(PAID_LATE)
        (found,) = await second_late_outcomes.list_by_action(RUN, PAID_LATE.action_id)
        assert replace(found, created_at=None) == PAID_LATE
        assert found.created_at is not None
        assert found.created_at.utcoffset() is not None

    async def test_they_come_in_the_order_they_were_reported(
        self, late_outcomes: IAgentLateOutcomes, second_late_outcomes: IAgentLateOutcomes
    ) -> None:
        for attempt, epoch in ((2, 3), (1, 1), (2, 2)):
            await late_outcomes.append(replace(PAID_LATE, attempt=attempt, epoch=epoch))
        found = await second_late_outcomes.list_by_action(RUN, PAID_LATE.action_id)
        assert [(each.attempt, each.epoch) for each in found] == [(2, 3), (1, 1), (2, 2)]

    async def test_the_first_word_of_an_owner_about_an_attempt_stays(
        self, late_outcomes: IAgentLateOutcomes
    ) -> None:
        for view in (VIEW, {"error": "no"}):
            await late_outcomes.append(replace(PAID_LATE, view=view))
        assert [each.view for each in await late_outcomes.list_by_action(RUN, PAID_LATE.action_id)] == [VIEW]

    async def test_of_many_at_once_one_stays(
        self, late_outcomes: IAgentLateOutcomes, second_late_outcomes: IAgentLateOutcomes
    ) -> None:
        ports = [late_outcomes, second_late_outcomes] * 5
        await asyncio.gather(*(port.append(PAID_LATE) for port in ports))
        assert len(await late_outcomes.list_by_action(RUN, PAID_LATE.action_id)) == 1

    async def test_actions_runs_and_tenants_are_separate(self, late_outcomes: IAgentLateOutcomes) -> None:
        others = [
            replace(PAID_LATE, action_id="run/tool:pay#2"),
            replace(PAID_LATE, action_id="run/tool:pay#1/step:x#1"),
            replace(PAID_LATE, run=OTHER_RUN),
            replace(PAID_LATE, run=FOREIGN_RUN),
        ]
        for outcome in (PAID_LATE, *others):
            await late_outcomes.append(outcome)
        for outcome in (PAID_LATE, *others):
            (found,) = await late_outcomes.list_by_action(outcome.run, outcome.action_id)
            assert (found.run, found.action_id) == (outcome.run, outcome.action_id)

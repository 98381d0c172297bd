"""The promises of the evidence repository."""

from __future__ import annotations

from contextlib import suppress
from dataclasses import replace
from datetime import UTC, datetime, timedelta, timezone

import pytest

from pilotage.agent.evidence import AgentEvidence, AgentEvidenceKind
from pilotage.agent.ports.repositories import EvidencePage, IAgentEvidenceRepository
from pilotage.errors import AgentDefinitionError, CallerError, EvidenceNotFoundError, PilotageError
from pilotage.jsonvalue import JsonValue
from pilotage.safety.fields import PII, SecretField, SensitiveField, SensitiveFieldDescriptor
from pilotage.safety.masking import MaskingPolicy
from pilotage.testing.conformance.samples import PAYLOAD

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
    created_at=datetime(2026, 3, 29, 3, 30, 0, 123456, tzinfo=timezone(timedelta(hours=2))),
)


class EvidenceRepositoryConformance:
    """What every evidence repository must do.

    Fixtures to give: `evidence`, over an empty store, for the tenant "default" (or all), and `foreign_evidence`,
    over the same store, for the tenant "elsewhere".
    """

    pytestmark = pytest.mark.asyncio

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

    async def test_what_is_stored_is_nobodys_object(self, evidence: IAgentEvidenceRepository) -> None:
        shared: dict[str, JsonValue] = {"amount": 1}
        stored = await evidence.append(replace(EVIDENCE, payload=shared))
        shared["amount"] = 2
        assert isinstance(stored.payload, dict)
        stored.payload["amount"] = 3
        assert (await evidence.get("evidence-1")).payload == {"amount": 1}

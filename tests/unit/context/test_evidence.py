"""Manifests and digests as records: compact, found by their manifest, without words that were said."""

from __future__ import annotations

from datetime import UTC, datetime

from pilotage.agent.context import ContextDigest, ContextManifest, ContextManifestEntry, ContextPackRole
from pilotage.agent.evidence import AgentEvidenceKind
from pilotage.context.assemble import digest_evidence, manifest_evidence
from pilotage.safety.fields import PII, SensitiveField, SensitiveFieldDescriptor

NOW = datetime(2026, 1, 2, tzinfo=UTC)
EMAIL = SensitiveFieldDescriptor((), SensitiveField(PII.EMAIL))


def test_what_is_not_given_is_not_in_a_manifest_record() -> None:
    entry = ContextManifestEntry("note-1", "crm", ContextPackRole.MEMORY, "crm:17")
    candidate = manifest_evidence(ContextManifest("m-1", (entry,)))
    assert candidate.kind is AgentEvidenceKind.CONTEXT_MANIFEST
    assert candidate.manifest_ref == "m-1"
    assert candidate.payload == {
        "id": "m-1",
        "entries": [{"pack_id": "note-1", "source": "crm", "role": "memory", "origin_ref": "crm:17"}],
    }


def test_what_is_given_is_in_a_manifest_record() -> None:
    entry = ContextManifestEntry(
        "note-1", "crm", ContextPackRole.MEMORY, "crm:17", "e-1", "d-1", (EMAIL,), {"tokens": 0}
    )
    payload = manifest_evidence(ContextManifest("m-1", (entry,), "m-0", ("e-1",), NOW, {"n": 1})).payload
    assert payload == {
        "id": "m-1",
        "entries": [
            {
                "pack_id": "note-1",
                "source": "crm",
                "role": "memory",
                "origin_ref": "crm:17",
                "evidence_ref": "e-1",
                "digest_ref": "d-1",
                "sensitive_fields": [EMAIL.to_metadata()],
                "metadata": {"tokens": 0},
            }
        ],
        "origin_ref": "m-0",
        "evidence_refs": ["e-1"],
        "created_at": "2026-01-02T00:00:00+00:00",
        "metadata": {"n": 1},
    }


def test_the_record_of_a_digest_has_no_summary() -> None:
    digest = ContextDigest("d-1", "run-1", "m-1", "abc", ("transcript:2-9",), "e-1", "keep", "Ada said.", NOW)
    candidate = digest_evidence(digest)
    assert (candidate.kind, candidate.digest) == (AgentEvidenceKind.CONTEXT_DIGEST, "abc")
    assert (candidate.manifest_ref, candidate.reference) == ("m-1", "e-1")
    assert candidate.payload == {
        "id": "d-1",
        "context_identity": "run-1",
        "source_manifest_ref": "m-1",
        "digest": "abc",
        "derived_from_pack_ids": ["transcript:2-9"],
        "compression_evidence_ref": "e-1",
        "algorithm": "keep",
        "created_at": "2026-01-02T00:00:00+00:00",
    }

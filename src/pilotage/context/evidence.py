"""Manifests and digests as evidence: compact JSON, without content.

Pure. What is not given is left out, because a manifest is stored for every model call. A digest's summary
is left out too: it is made of what people and tools said, and stays with the recorded reply it came from.
"""

from __future__ import annotations

from pilotage.agent.context import ContextDigest, ContextManifest, ContextManifestEntry
from pilotage.agent.evidence import AgentEvidenceCandidate, AgentEvidenceKind
from pilotage.jsonvalue import JsonObject, JsonValue


def manifest_payload(manifest: ContextManifest) -> JsonObject:
    """The manifest as JSON; it has no key for what is not given."""
    return _given(
        id=manifest.id,
        entries=[_entry(entry) for entry in manifest.entries],
        origin_ref=manifest.origin_ref,
        evidence_refs=list(manifest.evidence_refs),
        created_at=manifest.created_at.isoformat() if manifest.created_at else None,
        metadata=manifest.metadata,
    )


def _entry(entry: ContextManifestEntry) -> JsonObject:
    return _given(
        pack_id=entry.pack_id,
        source=entry.source,
        role=entry.role.value,
        origin_ref=entry.origin_ref,
        evidence_ref=entry.evidence_ref,
        digest_ref=entry.digest_ref,
        sensitive_fields=[field.to_metadata() for field in entry.sensitive_fields],
        metadata=entry.metadata,
    )


def manifest_evidence(manifest: ContextManifest) -> AgentEvidenceCandidate:
    """What a model was shown, as a record that is found by the manifest's id."""
    return AgentEvidenceCandidate(
        AgentEvidenceKind.CONTEXT_MANIFEST, manifest_payload(manifest), manifest_ref=manifest.id
    )


def digest_evidence(digest: ContextDigest) -> AgentEvidenceCandidate:
    """What a context was condensed from and how, as a record; the words of the summary are not in it."""
    payload = _given(
        id=digest.id,
        context_identity=digest.context_identity,
        source_manifest_ref=digest.source_manifest_ref,
        digest=digest.digest,
        derived_from_pack_ids=list(digest.derived_from_pack_ids),
        compression_evidence_ref=digest.compression_evidence_ref,
        algorithm=digest.algorithm,
        created_at=digest.created_at.isoformat() if digest.created_at else None,
        metadata=digest.metadata,
    )
    return AgentEvidenceCandidate(
        AgentEvidenceKind.CONTEXT_DIGEST,
        payload,
        digest=digest.digest,
        manifest_ref=digest.source_manifest_ref,
        reference=digest.compression_evidence_ref,
    )


def _given(**facts: JsonValue) -> JsonObject:
    return {name: fact for name, fact in facts.items() if fact is not None and fact not in ([], {})}

"""Assembles a request with context packs into the request for the model, and its manifest.

Pure. A manifest names every pack but never holds content, and the whole transcript is one entry of it: it is stored for
every model call, so its size must not depend on the length of the run, and absent fields are left out. For a call
that shows only a transcript, the row holds the figures; the rest of the manifest follows from them. A digest's summary
is not in its evidence: it is in the recorded reply of the summary call.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import replace
from datetime import datetime

from pilotage.agent.context import (
    VOLATILE,
    ContextDigest,
    ContextManifest,
    ContextManifestEntry,
    ContextPack,
    ContextPackRole,
    render_context_pack,
)
from pilotage.agent.evidence import AgentEvidenceCandidate, AgentEvidenceKind
from pilotage.agent.model_request import ModelRequest
from pilotage.context.transcript import Transcript
from pilotage.filling import changing, unchecked
from pilotage.jsonvalue import JsonObject, JsonValue
from pilotage.safety.guard import ContextExposurePolicy
from pilotage.values import value

TRANSCRIPT_ENTRY = "pilotage:transcript"
"""The pack id of the entry for all messages together."""

_STATE = ContextPackRole.STATE
_placed = changing(ModelRequest, "messages", "context", "context_manifest")
_new_entry = unchecked(ContextManifestEntry)
_new_manifest = unchecked(ContextManifest)


@value
class Assembled:
    """A request for the model, and its manifest.

    `tokens` estimates the messages and the placed packs, without the tools. `is_plain` is true if the model is shown
    the messages and nothing else.
    """

    request: ModelRequest
    manifest: ContextManifest
    tokens: int
    is_plain: bool = False


_new_assembled = unchecked(Assembled)


@value
class _Described:
    entry: ContextManifestEntry
    tokens: int


def assemble(
    request: ModelRequest,
    *,
    manifest_id: str,
    policy: ContextExposurePolicy | None = None,
    created_at: datetime | None = None,
    transcript: Transcript | None = None,
    volatile: Collection[str] = (),
) -> Assembled:
    """Place the packs of a request among its messages, guarded, and return it with its manifest.

    `transcript` holds the messages that a caller with several calls has measured before; without it all messages are
    measured now. A manifest in the request has more facts about its packs (their origin, their evidence): its
    entries are used, and its id becomes the origin of the new one. A request that is assembled already has no packs,
    so all its entries are used. `volatile` are the packs that are fetched anew for each request.
    """
    measured = transcript or Transcript.of(salt=manifest_id)
    shown = measured.grown_to(request.messages)
    if not request.context and request.context_manifest is None:
        return _without_packs(request, shown, manifest_id, created_at)
    given = request.context_manifest
    described = [_describe(pack, given, policy, shown, pack.id in volatile) for pack in request.context]
    packs = tuple(d.entry for d in described) if request.context or not given else _pack_entries(given)
    manifest = ContextManifest(
        manifest_id,
        (*packs, transcript_entry(_figures(shown), request.context_digest)),
        origin_ref=given.id if given else None,
        evidence_refs=given.evidence_refs if given else (),
        created_at=created_at,
    )
    messages = replace(request, context_manifest=manifest).assemble_messages(policy)
    placed = _placed(request, messages, (), manifest)
    return Assembled(placed, manifest, shown.tokens + sum(d.tokens for d in described))


def _without_packs(
    request: ModelRequest, shown: Transcript, manifest_id: str, created_at: datetime | None
) -> Assembled:
    """Return the assembled request of the usual case: messages and no packs."""
    entries = (transcript_entry(_figures(shown), request.context_digest),)
    if created_at is None and manifest_id.strip():
        manifest = _new_manifest(manifest_id, entries)
    else:
        manifest = ContextManifest(manifest_id, entries, created_at=created_at)
    placed = _placed(request, tuple(request.messages), (), manifest)
    is_plain = created_at is None and request.context_digest is None
    return _new_assembled(placed, manifest, shown.tokens, is_plain)


def _figures(shown: Transcript) -> JsonObject:
    return {"messages": shown.digest.count, "tokens": shown.tokens, "digest": shown.digest.value}


def transcript_entry(figures: JsonObject, condensed: ContextDigest | None = None) -> ContextManifestEntry:
    """Return the entry for all messages together: their number, tokens and digest."""
    return _new_entry(
        TRANSCRIPT_ENTRY,
        source="transcript",
        role=_STATE,
        origin_ref=f"transcript:1-{figures['messages']}",
        digest_ref=condensed.id if condensed else None,
        metadata=figures,
    )


def _pack_entries(manifest: ContextManifest) -> tuple[ContextManifestEntry, ...]:
    return tuple(entry for entry in manifest.entries if entry.pack_id != TRANSCRIPT_ENTRY)


def _describe(
    pack: ContextPack,
    given: ContextManifest | None,
    policy: ContextExposurePolicy | None,
    shown: Transcript,
    is_volatile: bool,
) -> _Described:
    rendered = render_context_pack(pack, policy)
    tokens = shown.estimator.tokens_of(rendered)
    known = next((e for e in given.entries if e.pack_id == pack.id), None) if given else None
    entry = known or ContextManifestEntry(pack.id, pack.source, pack.role, origin_ref=pack.source)
    facts: JsonObject = {"tokens": tokens, "digest": shown.digest.of_text(rendered)}
    if is_volatile:
        facts = {**facts, VOLATILE: True}
    return _Described(
        replace(entry, sensitive_fields=pack.sensitive_fields, metadata={**entry.metadata, **facts}), tokens
    )


def manifest_payload(manifest: ContextManifest) -> JsonObject:
    """Return the manifest as JSON, without keys for absent values."""
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
    """Return the evidence of a manifest, which is found by the manifest's id."""
    return AgentEvidenceCandidate(
        AgentEvidenceKind.CONTEXT_MANIFEST, manifest_payload(manifest), manifest_ref=manifest.id
    )


def digest_evidence(digest: ContextDigest) -> AgentEvidenceCandidate:
    """Return the evidence of a condensed context: its sources and method, without the text of the summary."""
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


def manifest_id_of(action_id: str) -> str:
    """Return the id of the manifest of a call."""
    return f"{action_id}/context"


def stored_manifest(assembled: Assembled) -> JsonObject:
    """Return the manifest as the row of the call stores it; its id is derived from that of the call."""
    manifest = assembled.manifest
    return manifest.entries[-1].metadata if assembled.is_plain else manifest_payload(manifest)


def whole_manifest(stored: JsonObject, action_id: str) -> JsonObject:
    """Return the whole manifest of a call."""
    if "entries" in stored:
        return stored
    return manifest_payload(ContextManifest(manifest_id_of(action_id), (transcript_entry(stored),)))

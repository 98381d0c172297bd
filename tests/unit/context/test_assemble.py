"""Assembling places the packs and records what the model was shown, in little space."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime

import pytest
from tests.unit.context.transcripts import LONG, a_loop

from pilotage.agent.compaction import message_tokens
from pilotage.agent.context import (
    ContextDigest,
    ContextManifest,
    ContextManifestEntry,
    ContextPack,
    ContextPackRole,
)
from pilotage.agent.evidence import AgentEvidenceKind
from pilotage.agent.messages import ModelMessage, ModelMessageRole
from pilotage.agent.model_request import ModelRequest
from pilotage.context.assemble import (
    TRANSCRIPT_ENTRY,
    assemble,
    digest_evidence,
    manifest_evidence,
    manifest_id_of,
    manifest_payload,
    stored_manifest,
    whole_manifest,
)
from pilotage.context.transcript import Transcript
from pilotage.jsonvalue import canonical_json
from pilotage.safety.fields import PII, SensitiveField, SensitiveFieldDescriptor
from pilotage.safety.guard import ContextExposurePolicy

NOTE = ContextPack("note-1", "Ada prefers tea.", "crm", ContextPackRole.MEMORY)
RULE = ContextPack("rule-1", "Never guess.", "handbook", ContextPackRole.INSTRUCTION)
EMAIL = SensitiveFieldDescriptor((), SensitiveField(PII.EMAIL))
MAIL = ContextPack("mail-1", "ada@example.org", "crm", ContextPackRole.EVIDENCE, sensitive_fields=(EMAIL,))
NOW = datetime(2026, 1, 2, tzinfo=UTC)


def test_packs_are_placed_and_the_request_has_its_manifest() -> None:
    request = ModelRequest(a_loop(1), context=[NOTE, RULE])
    assembled = assemble(request, manifest_id="m-1", created_at=NOW)
    assert assembled.request.context == ()
    assert assembled.request.context_manifest is assembled.manifest
    assert assembled.request.messages == request.assemble_messages()
    roles = [message.role.value for message in assembled.request.messages]
    assert roles == ["system", "system", "evidence", "user", "assistant", "tool"]
    assert assembled.manifest.created_at == NOW


def test_everything_else_of_the_request_stays() -> None:
    request = ModelRequest(a_loop(1), metadata={"trace": "t-1"})
    assembled = assemble(request, manifest_id="m-1").request
    assert assembled == replace(request, context_manifest=assembled.context_manifest)


def test_the_manifest_names_each_pack_and_the_transcript_once() -> None:
    manifest = assemble(ModelRequest(a_loop(40), context=[NOTE, MAIL]), manifest_id="m-1").manifest
    note, mail, transcript = manifest.entries
    assert (note.pack_id, note.source, note.role, note.origin_ref) == (
        "note-1",
        "crm",
        ContextPackRole.MEMORY,
        "crm",
    )
    assert mail.sensitive_fields == (EMAIL,)
    assert transcript.pack_id == TRANSCRIPT_ENTRY
    assert transcript.origin_ref == "transcript:1-82"
    assert transcript.metadata["messages"] == 82


def test_a_manifest_takes_as_much_room_after_a_thousand_turns_as_after_ten() -> None:
    sizes = [
        len(
            canonical_json(
                manifest_payload(assemble(ModelRequest(a_loop(turns)), manifest_id="m-1").manifest)
            )
        )
        for turns in (10, 1_000)
    ]
    assert sizes[1] - sizes[0] < 10
    assert sizes[1] < 300


def test_a_manifest_holds_no_content() -> None:
    secret_words = ["ada@example.org", "Ada prefers tea", "Where is Ada"]
    for policy in (None, ContextExposurePolicy(include_pii_values=True)):
        manifest = assemble(
            ModelRequest(a_loop(2), context=[NOTE, MAIL]), manifest_id="m-1", policy=policy
        ).manifest
        text = canonical_json(manifest_payload(manifest))
        assert [words for words in secret_words if words in text] == []


def test_content_is_guarded_by_the_policy() -> None:
    request = ModelRequest(a_loop(1), context=[MAIL])
    shown = {
        pii: assemble(request, manifest_id="m-1", policy=ContextExposurePolicy(include_pii_values=pii))
        for pii in (True, False)
    }
    texts = {pii: each.request.messages[1].text for pii, each in shown.items()}
    assert "ada@example.org" in texts[True]
    assert "ada@example.org" not in texts[False]
    digests = {str(each.manifest.entries[0].metadata["digest"]) for each in shown.values()}
    assert len(digests) == 2


def test_what_the_application_knows_about_a_pack_is_kept() -> None:
    known = ContextManifestEntry(
        "note-1", "crm", ContextPackRole.MEMORY, "crm:customers/17", evidence_ref="e-1", metadata={"page": 3}
    )
    given = ContextManifest("given", (known,), evidence_refs=("e-1",))
    request = ModelRequest(a_loop(1), context=[NOTE, RULE], context_manifest=given)
    manifest = assemble(request, manifest_id="m-1").manifest
    note, rule, _ = manifest.entries
    assert (note.origin_ref, note.evidence_ref, note.metadata["page"]) == ("crm:customers/17", "e-1", 3)
    assert rule.origin_ref == "handbook"
    assert (manifest.origin_ref, manifest.evidence_refs) == ("given", ("e-1",))


def test_an_assembled_request_can_be_assembled_again() -> None:
    once = assemble(ModelRequest(a_loop(1), context=[NOTE]), manifest_id="m-1")
    longer = replace(once.request, messages=[*once.request.messages, ModelMessage.assistant("Home.")])
    twice = assemble(longer, manifest_id="m-2")
    assert twice.request.messages == longer.messages
    assert [entry.pack_id for entry in twice.manifest.entries] == ["note-1", TRANSCRIPT_ENTRY]
    assert twice.manifest.entries[-1].metadata["messages"] == len(longer.messages)


def test_the_transcript_entry_refers_to_what_the_context_was_condensed_to() -> None:
    digest = ContextDigest("d-1", "run-1", "m-0", "abc")
    request = ModelRequest(a_loop(1), context_digest=digest)
    assert assemble(request, manifest_id="m-1").manifest.entries[-1].digest_ref == "d-1"


def test_tokens_are_those_of_all_that_is_shown() -> None:
    request = ModelRequest(a_loop(2), context=[NOTE])
    assembled = assemble(request, manifest_id="m-1")
    assert assembled.tokens >= sum(map(message_tokens, request.messages))
    frames = sum(message_tokens(message) for message in assembled.request.messages) - assembled.tokens
    assert 0 <= frames <= 4 * len(request.context)


def test_a_transcript_held_by_the_caller_gives_the_same_manifest() -> None:
    messages = a_loop(5, LONG)
    held = Transcript.of(messages[:6], salt="m-1")
    request = ModelRequest(messages, context=[NOTE])
    assert assemble(request, manifest_id="m-1", transcript=held) == assemble(request, manifest_id="m-1")


def test_no_pack_becomes_the_words_of_a_user() -> None:
    packs = [ContextPack(role.value, "obey", "somewhere", role) for role in ContextPackRole]
    messages = assemble(ModelRequest(a_loop(1), context=packs), manifest_id="m-1").request.messages
    assert [m.text for m in messages if m.role is ModelMessageRole.USER] == ["Where is Ada?"]


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


CALL = "run/model#1"
ASKED = (ModelMessage.user("Where is Ada?"),)
ABSENCE = ContextPack("note-1", "Ada is out.", "crm", ContextPackRole.MEMORY)
GIVEN = ContextManifest("given", (), evidence_refs=("e-1",))


@pytest.mark.parametrize(
    "request_",
    [
        ModelRequest(ASKED),
        ModelRequest(ASKED, context=[ABSENCE]),
        ModelRequest(ASKED, context_manifest=GIVEN),
        ModelRequest(ASKED, context_digest=ContextDigest("d-1", "run-1", "m-0", "abc")),
    ],
)
def test_a_reader_gets_the_whole_manifest_whatever_is_kept_of_it(request_: ModelRequest) -> None:
    assembled = assemble(request_, manifest_id=manifest_id_of(CALL))
    assert whole_manifest(stored_manifest(assembled), CALL) == manifest_payload(assembled.manifest)


def test_of_a_transcript_alone_only_figures_are_kept() -> None:
    kept = stored_manifest(assemble(ModelRequest(ASKED), manifest_id=manifest_id_of(CALL)))
    assert kept.keys() == {"messages", "tokens", "digest"}
    assert len(canonical_json(kept)) < 120


def test_a_manifest_with_a_time_is_kept_whole() -> None:
    made = datetime(2026, 11, 15, tzinfo=UTC)
    assembled = assemble(ModelRequest(ASKED), manifest_id=manifest_id_of(CALL), created_at=made)
    assert whole_manifest(stored_manifest(assembled), CALL) == manifest_payload(assembled.manifest)


def test_a_manifest_that_was_kept_whole_is_read_as_it_is() -> None:
    whole = manifest_payload(ContextManifest("an older one", ()))
    assert whole_manifest({**whole, "entries": []}, CALL) == {**whole, "entries": []}

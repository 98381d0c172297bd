"""What the row of a model call keeps of its manifest, and what readers get."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest

from pilotage.agent.context import ContextDigest, ContextManifest, ContextPack, ContextPackRole
from pilotage.agent.messages import ModelMessage
from pilotage.agent.model_request import ModelRequest
from pilotage.context.assemble import (
    assemble,
    kept_manifest,
    manifest_id_of,
    manifest_payload,
    whole_manifest,
)
from pilotage.jsonvalue import canonical_json

CALL = "run/model#1"
ASKED = (ModelMessage.user("Where is Ada?"),)
NOTE = ContextPack("note-1", "Ada is out.", "crm", ContextPackRole.MEMORY)
GIVEN = ContextManifest("given", (), evidence_refs=("e-1",))


@pytest.mark.parametrize(
    "request_",
    [
        ModelRequest(ASKED),
        ModelRequest(ASKED, context=[NOTE]),
        ModelRequest(ASKED, context_manifest=GIVEN),
        ModelRequest(ASKED, context_digest=ContextDigest("d-1", "run-1", "m-0", "abc")),
    ],
)
def test_a_reader_gets_the_whole_manifest_whatever_is_kept_of_it(request_: ModelRequest) -> None:
    assembled = assemble(request_, manifest_id=manifest_id_of(CALL))
    assert whole_manifest(kept_manifest(assembled), CALL) == manifest_payload(assembled.manifest)


def test_of_a_transcript_alone_only_figures_are_kept() -> None:
    kept = kept_manifest(assemble(ModelRequest(ASKED), manifest_id=manifest_id_of(CALL)))
    assert kept.keys() == {"messages", "tokens", "digest"}
    assert len(canonical_json(kept)) < 120


def test_a_manifest_with_a_time_is_kept_whole() -> None:
    made = datetime(2026, 11, 15, tzinfo=UTC)
    assembled = assemble(ModelRequest(ASKED), manifest_id=manifest_id_of(CALL), created_at=made)
    assert whole_manifest(kept_manifest(assembled), CALL) == manifest_payload(assembled.manifest)


def test_a_manifest_that_was_kept_whole_is_read_as_it_is() -> None:
    whole = manifest_payload(ContextManifest("an older one", ()))
    assert whole_manifest({**whole, "entries": []}, CALL) == {**whole, "entries": []}

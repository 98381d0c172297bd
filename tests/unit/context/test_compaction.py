"""A compaction that is carried out leaves a digest and evidence from before and after."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime

from tests.unit.context.transcripts import LONG, a_loop

from pilotage.agent.compaction import BYTE_ESTIMATOR, Rewrite, SummaryNeeded
from pilotage.agent.context import (
    ContextHealthSignal,
    ContextManifest,
    ContextOptimizationAction,
    ContextOptimizationActionKind,
    ContextRotSymptom,
)
from pilotage.agent.evidence import AgentEvidenceKind
from pilotage.agent.messages import ModelMessage
from pilotage.context.compaction import Compaction, KeepRecent, SummariseOldTurns, carry_out
from pilotage.context.transcript import Transcript
from pilotage.jsonvalue import canonical_json

NOW = datetime(2026, 1, 2, tzinfo=UTC)
MANIFEST = ContextManifest("m-1", ())
SIGNAL = ContextHealthSignal("s-1", ContextRotSymptom.OVER_BUDGET, manifest_ref="m-1")
ACTION = ContextOptimizationAction(
    "a-1", ContextOptimizationActionKind.COMPRESSION, ("s-1",), metadata={"n": 1}
)
SHOWN = Transcript.of(a_loop(4, LONG), salt="run-1")


def carried_out(rewrite: Rewrite, shown: Transcript = SHOWN) -> Compaction:
    return carry_out(
        rewrite,
        shown,
        action=ACTION,
        manifest=MANIFEST,
        context_identity="run-1",
        signals=[SIGNAL],
        created_at=NOW,
    )


def a_rewrite(shown: Transcript = SHOWN) -> Rewrite:
    plan = KeepRecent(turns=2).plan(shown.messages, excess=1, estimator=BYTE_ESTIMATOR)
    assert isinstance(plan, Rewrite)
    return plan


def test_the_new_transcript_is_measured() -> None:
    compaction = carried_out(a_rewrite())
    assert compaction.messages == a_rewrite().after
    assert compaction.shown == Transcript.of(a_rewrite().after, salt="run-1")
    assert compaction.tokens_saved == SHOWN.tokens - compaction.shown.tokens > 500


def test_the_digest_says_what_was_condensed_and_how() -> None:
    digest = carried_out(a_rewrite()).digest
    assert (digest.id, digest.algorithm) == ("a-1/keep_recent", "keep_recent")
    assert (digest.context_identity, digest.source_manifest_ref) == ("run-1", "m-1")
    assert digest.derived_from_pack_ids == ("transcript:3-6",)
    assert (digest.summary, digest.created_at) == (None, NOW)


def test_messages_that_do_not_stand_in_a_row_are_named_apart() -> None:
    messages = [*a_loop(1), ModelMessage.evidence("seen"), *a_loop(3)[2:]]
    rewrite = a_rewrite(Transcript.of(messages, salt="run-1"))
    assert carried_out(rewrite).digest.derived_from_pack_ids == ("transcript:3-4", "transcript:6-7")


def test_the_digest_depends_on_what_was_left_out_and_on_the_run() -> None:
    other = Transcript.of(a_loop(4, "short"), salt="run-1")
    elsewhere = Transcript.of(SHOWN.messages, salt="run-2")
    digests = {
        carried_out(a_rewrite()).digest.digest,
        carried_out(a_rewrite(other), other).digest.digest,
        carried_out(a_rewrite(), elsewhere).digest.digest,
    }
    assert len(digests) == 3


def test_a_summary_is_in_the_digest_but_in_no_evidence() -> None:
    plan = SummariseOldTurns(keep_recent=1, max_summary_chars=500).plan(
        SHOWN.messages, excess=1, estimator=BYTE_ESTIMATOR
    )
    assert isinstance(plan, SummaryNeeded)
    compaction = carried_out(plan.with_summary("Ada was not found."))
    assert compaction.digest.summary == "Ada was not found."
    for candidate in (compaction.before, compaction.after):
        assert "Ada was not found." not in canonical_json(candidate.payload)


def test_there_is_evidence_from_before_and_after() -> None:
    compaction = carried_out(a_rewrite())
    before, after = compaction.before, compaction.after
    assert {before.kind, after.kind} == {AgentEvidenceKind.CONTEXT_OPTIMIZATION}
    assert (before.payload["stage"], after.payload["stage"]) == ("before", "after")
    assert before.payload["signals"] == after.payload["signals"] == (SIGNAL.evidence_payload(),)
    assert (before.digest, after.digest) == (None, "a-1/keep_recent")
    assert (before.manifest_ref, after.manifest_ref) == ("m-1", "m-1")
    assert before.payload["action"] == replace(ACTION, manifest_ref="m-1").evidence_payload()
    done = replace(
        ACTION,
        manifest_ref="m-1",
        digest_ref="a-1/keep_recent",
        metadata={
            "n": 1,
            "tokens_before": SHOWN.tokens,
            "tokens_after": compaction.shown.tokens,
            "messages_before": 10,
            "messages_after": 6,
        },
    )
    assert after.payload["action"] == done.evidence_payload()

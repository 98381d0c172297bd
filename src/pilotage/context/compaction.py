"""A rewrite that is carried out: the new transcript, its digest, and the evidence before and after.

Pure. Nothing is lost by it: the run's record keeps every message, a rewrite changes only what the model is
shown from now on.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from datetime import datetime

from pilotage.agent.compaction.plan import Rewrite
from pilotage.agent.context import ContextDigest, ContextManifest
from pilotage.agent.context_health import (
    ContextHealthSignal,
    ContextOptimizationAction,
    ContextOptimizationEvidenceStage,
)
from pilotage.agent.evidence import AgentEvidenceCandidate
from pilotage.agent.messages import ModelMessage
from pilotage.context.transcript import Transcript, TranscriptDigest
from pilotage.jsonvalue import JsonObject
from pilotage.values import value


@value
class Compaction:
    """What came out of a rewrite, and what to record about it."""

    shown: Transcript
    digest: ContextDigest
    before: AgentEvidenceCandidate
    after: AgentEvidenceCandidate
    tokens_saved: int

    @property
    def messages(self) -> tuple[ModelMessage, ...]:
        """The messages as they are shown from now on."""
        return self.shown.messages


def carry_out(
    rewrite: Rewrite,
    shown: Transcript,
    *,
    action: ContextOptimizationAction,
    manifest: ContextManifest,
    context_identity: str,
    signals: Sequence[ContextHealthSignal] = (),
    created_at: datetime | None = None,
) -> Compaction:
    """Carry out a rewrite of a transcript.

    `action` is what the context handler decided on because of `signals`, `manifest` describes the transcript
    before, `context_identity` names the run or conversation. The id of the digest comes from the action's.
    """
    condensed = Transcript.of(rewrite.after, salt=shown.digest.salt, estimator=shown.estimator)
    digest = ContextDigest(
        id=f"{action.id}/{rewrite.algorithm}",
        context_identity=context_identity,
        source_manifest_ref=manifest.id,
        digest=_digest_of_touched(rewrite, shown.digest.salt),
        derived_from_pack_ids=_ranges(rewrite.touched),
        algorithm=rewrite.algorithm,
        summary=rewrite.summary.text if rewrite.summary else None,
        created_at=created_at,
    )
    begun = replace(action, manifest_ref=manifest.id)
    facts = _facts(shown, condensed)
    ended = replace(begun, digest_ref=digest.id, metadata={**action.metadata, **facts})
    stages = ContextOptimizationEvidenceStage
    evidence = AgentEvidenceCandidate.context_optimization
    return Compaction(
        condensed,
        digest,
        before=evidence(action=begun, stage=stages.BEFORE, signals=signals),
        after=evidence(action=ended, stage=stages.AFTER, signals=signals),
        tokens_saved=shown.tokens - condensed.tokens,
    )


def _facts(before: Transcript, after: Transcript) -> JsonObject:
    return {
        "tokens_before": before.tokens,
        "tokens_after": after.tokens,
        "messages_before": len(before.messages),
        "messages_after": len(after.messages),
    }


def _digest_of_touched(rewrite: Rewrite, salt: str) -> str:
    return TranscriptDigest(salt).extended(rewrite.before[index] for index in rewrite.touched).value


def _ranges(indices: Sequence[int]) -> tuple[str, ...]:
    """Places in the transcript, counted from one: a hundred messages in a row take one line."""
    spans: list[tuple[int, int]] = []
    for place in (index + 1 for index in indices):
        if spans and spans[-1][1] == place - 1:
            spans[-1] = (spans[-1][0], place)
        else:
            spans.append((place, place))
    return tuple(f"transcript:{first}-{last}" for first, last in spans)

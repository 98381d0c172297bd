"""The context of model calls: assembling requests, budgets, compaction."""

# Names are packed.
# ruff: noqa: I001
# fmt: off
from pilotage.agent.compaction import (
    BYTE_ESTIMATOR, LEAST_TRUSTED, ByteEstimator, CompactionPlan, CompactionStrategy, NothingToDo, Rewrite,
    Summary, SummaryNeeded, TokenEstimator, Unit, fixed_tokens, message_tokens, units_of, untouchable,
)
from pilotage.context.assemble import (
    TRANSCRIPT_ENTRY, Assembled, assemble, digest_evidence, manifest_evidence, manifest_payload,
)
from pilotage.context.compaction import (
    Compaction, ContextWindow, KeepRecent, SummariseOldTurns, TrimToolResults, carry_out,
)
from pilotage.context.health import (
    KeepWithinBudget, excess_of, health_signals, over_budget, room_of, stale_packs,
)
from pilotage.context.observation import repeated_packs, repeated_results, reply_count, unused_packs
from pilotage.context.transcript import Transcript, TranscriptDigest

__all__ = [
    "BYTE_ESTIMATOR", "LEAST_TRUSTED", "TRANSCRIPT_ENTRY", "Assembled", "ByteEstimator", "Compaction",
    "CompactionPlan", "CompactionStrategy", "ContextWindow", "KeepRecent", "KeepWithinBudget", "NothingToDo",
    "Rewrite", "SummariseOldTurns", "Summary", "SummaryNeeded", "TokenEstimator", "Transcript",
    "TranscriptDigest", "TrimToolResults", "Unit", "assemble", "carry_out", "digest_evidence", "excess_of",
    "fixed_tokens", "health_signals", "manifest_evidence", "manifest_payload", "message_tokens",
    "over_budget", "repeated_packs", "repeated_results", "reply_count", "room_of", "stale_packs", "units_of",
    "untouchable", "unused_packs",
]

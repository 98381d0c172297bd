"""What the model gets to see: assembling requests, budgets, compaction."""

from __future__ import annotations

from pilotage.agent.compaction.estimate import (
    BYTE_ESTIMATOR,
    ByteEstimator,
    TokenEstimator,
    fixed_tokens,
    message_tokens,
)
from pilotage.agent.compaction.plan import (
    CompactionPlan,
    CompactionStrategy,
    NothingToDo,
    Rewrite,
    SummaryNeeded,
)
from pilotage.agent.compaction.rules import untouchable
from pilotage.agent.compaction.summary import LEAST_TRUSTED, Summary
from pilotage.agent.compaction.turns import Unit, units_of
from pilotage.context.assemble import TRANSCRIPT_ENTRY, Assembled, assemble
from pilotage.context.compaction import Compaction, carry_out
from pilotage.context.evidence import digest_evidence, manifest_evidence, manifest_payload
from pilotage.context.handler import KeepWithinBudget
from pilotage.context.health import excess_of, health_signals, over_budget, room_of, stale_packs
from pilotage.context.strategies import KeepRecent, SummariseOldTurns, TrimToolResults
from pilotage.context.transcript import Transcript, TranscriptDigest
from pilotage.context.window import ContextWindow

__all__ = [
    "BYTE_ESTIMATOR",
    "LEAST_TRUSTED",
    "TRANSCRIPT_ENTRY",
    "Assembled",
    "ByteEstimator",
    "Compaction",
    "CompactionPlan",
    "CompactionStrategy",
    "ContextWindow",
    "KeepRecent",
    "KeepWithinBudget",
    "NothingToDo",
    "Rewrite",
    "SummariseOldTurns",
    "Summary",
    "SummaryNeeded",
    "TokenEstimator",
    "Transcript",
    "TranscriptDigest",
    "TrimToolResults",
    "Unit",
    "assemble",
    "carry_out",
    "digest_evidence",
    "excess_of",
    "fixed_tokens",
    "health_signals",
    "manifest_evidence",
    "manifest_payload",
    "message_tokens",
    "over_budget",
    "room_of",
    "stale_packs",
    "units_of",
    "untouchable",
]

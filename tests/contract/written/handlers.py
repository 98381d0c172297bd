"""A context handler with the one method of section 14, and a cleanup hook with the call of section 19."""

from __future__ import annotations

from collections.abc import Sequence

from pilotage.agent import (
    ContextHealthSignal,
    ContextManifest,
    ContextOptimizationAction,
    ContextOptimizationActionKind,
    IAgentContextHandler,
)


class Compressing(IAgentContextHandler):
    """Answers every signal with a compression."""

    async def select_optimization_actions(
        self, signals: Sequence[ContextHealthSignal], manifest: ContextManifest
    ) -> Sequence[ContextOptimizationAction]:
        kind = ContextOptimizationActionKind.COMPRESSION
        return [
            ContextOptimizationAction(f"{signal.id}/compression", kind, (signal.id,)) for signal in signals
        ]

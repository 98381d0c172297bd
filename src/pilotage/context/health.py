"""Symptoms that the framework detects in a context, and the default handler that acts on them.

Pure decisions. A context can be too large, packs too old; contradictions, low relevance and pollution are reported by
applications. The default handler condenses a context that is too large, and gives a child a summary and references.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime

from pilotage.agent.context import (
    ContextFreshness,
    ContextHealthSignal,
    ContextManifest,
    ContextOptimizationAction,
    ContextOptimizationActionKind,
    ContextPack,
    ContextPackRole,
    ContextRotSymptom,
    ContextSensitivity,
    ContextTokenBudget,
)
from pilotage.agent.delegation import DelegationContextSlice, DelegationPacket
from pilotage.agent.ports.handlers import IAgentContextHandler
from pilotage.checks import reject_not_positive, reject_outside_unit
from pilotage.context.assemble import TRANSCRIPT_ENTRY
from pilotage.errors import AgentDefinitionError


def room_of(budget: ContextTokenBudget) -> int | None:
    """Return the number of tokens a request may take so that the answer still fits; None for no limit.

    Raises:
        AgentDefinitionError: all tokens are reserved for the answer.
    """
    if budget.max_tokens is None:
        return None
    room = budget.max_tokens - (budget.reserved_output_tokens or 0)
    if room <= 0:
        raise AgentDefinitionError(
            f"ContextTokenBudget keeps {budget.reserved_output_tokens!r} of {budget.max_tokens!r} tokens for "
            "the answer, so no request fits. Reserve fewer, or raise max_tokens."
        )
    return room


def excess_of(tokens: int, budget: ContextTokenBudget, *, aim: float = 1.0) -> int:
    """Return the number of tokens by which a request exceeds its room; zero if it fits.

    Compaction aims at a share of the room, so that the next turn still fits.

    Raises:
        AgentDefinitionError: the budget leaves no room at all, or the aim is no share of it.
    """
    reject_outside_unit("excess_of", aim=aim)
    room = room_of(budget)
    return 0 if room is None else max(0, tokens - int(room * aim))


def over_budget(
    tokens: int, budget: ContextTokenBudget, *, manifest_ref: str, observed_at: datetime | None = None
) -> ContextHealthSignal | None:
    """Return the signal of a request that takes more than its room; its score is the share that is too much.

    Raises:
        AgentDefinitionError: the budget leaves no room at all.
    """
    excess = excess_of(tokens, budget)
    if not excess:
        return None
    return ContextHealthSignal(
        f"{manifest_ref}/over_budget",
        ContextRotSymptom.OVER_BUDGET,
        manifest_ref=manifest_ref,
        score=excess / tokens,
        observed_at=observed_at,
        metadata={"tokens": tokens, "room": tokens - excess},
    )


def stale_packs(
    packs: Sequence[ContextPack], *, manifest_ref: str, observed_at: datetime | None = None
) -> tuple[ContextHealthSignal, ...]:
    """Return a signal for each pack whose source says that it is stale."""
    return tuple(
        ContextHealthSignal(
            f"{manifest_ref}/stale/{pack.id}",
            ContextRotSymptom.STALE,
            manifest_ref=manifest_ref,
            pack_id=pack.id,
            observed_at=observed_at,
        )
        for pack in packs
        if pack.freshness is ContextFreshness.STALE
    )


def health_signals(
    tokens: int,
    packs: Sequence[ContextPack],
    budget: ContextTokenBudget,
    *,
    manifest_ref: str,
    observed_at: datetime | None = None,
) -> tuple[ContextHealthSignal, ...]:
    """Return all signals of a request that can be detected before it is sent.

    Raises:
        AgentDefinitionError: the budget leaves no room at all.
    """
    too_large = over_budget(tokens, budget, manifest_ref=manifest_ref, observed_at=observed_at)
    too_old = stale_packs(packs, manifest_ref=manifest_ref, observed_at=observed_at)
    return (too_large, *too_old) if too_large else too_old


_SUMMARISED = frozenset({ContextPackRole.TASK, ContextPackRole.STATE, ContextPackRole.DELEGATION})
_REFERRED_TO = frozenset({ContextPackRole.EVIDENCE, ContextPackRole.TOOL_RESULT})
_MAY_TRAVEL = frozenset({ContextSensitivity.PUBLIC, ContextSensitivity.INTERNAL})


class KeepWithinBudget(IAgentContextHandler):
    """Default context handler: condenses a context that is too large and ignores every other symptom.

    A child gets the text that its parent wrote for it, then the packs about task and state, at most
    `max_summary_chars` of them, and the ids of evidence. Instructions, memories, and everything confidential,
    sensitive or redacted are not passed on.
    """

    def __init__(self, max_summary_chars: int = 2_000) -> None:
        reject_not_positive("KeepWithinBudget", max_summary_chars=max_summary_chars)
        self._max_summary_chars = max_summary_chars

    async def select_optimization_actions(
        self, signals: Sequence[ContextHealthSignal], manifest: ContextManifest
    ) -> Sequence[ContextOptimizationAction]:
        over = [signal for signal in signals if signal.symptom is ContextRotSymptom.OVER_BUDGET]
        return (compression(over, manifest),) if over else ()

    async def slice_for_child(
        self, packet: DelegationPacket, packs: Sequence[ContextPack]
    ) -> DelegationContextSlice:
        return slice_of(packet, packs, self._max_summary_chars)


def compression(
    signals: Sequence[ContextHealthSignal], manifest: ContextManifest
) -> ContextOptimizationAction:
    """Return the action that condenses the transcript of a manifest because of some signals."""
    return ContextOptimizationAction(
        f"{manifest.id}/compression",
        ContextOptimizationActionKind.COMPRESSION,
        signal_refs=tuple(signal.id for signal in signals),
        target_pack_ids=(TRANSCRIPT_ENTRY,),
        manifest_ref=manifest.id,
        reason="The context takes more tokens than its budget has room for.",
    )


def slice_of(
    packet: DelegationPacket, packs: Sequence[ContextPack], max_summary_chars: int
) -> DelegationContextSlice:
    """Return the part of the parent's packs that goes along with a task."""
    shared = [pack for pack in packs if pack.sensitivity in _MAY_TRAVEL]
    summarised = [f"{pack.source}: {pack.guarded_content()}" for pack in shared if pack.role in _SUMMARISED]
    written = packet.context.summary
    summary = "\n\n".join([written, *summarised] if written else summarised)[:max_summary_chars]
    refs = [pack.id for pack in shared if pack.role in _REFERRED_TO]
    return DelegationContextSlice(
        summary=summary if summary.strip() else None,
        evidence_refs=tuple(dict.fromkeys((*packet.context.evidence_refs, *refs))),
        manifest_ref=packet.context.manifest_ref,
        metadata={**packet.context.metadata, "withheld_packs": len(packs) - len(shared)},
    )

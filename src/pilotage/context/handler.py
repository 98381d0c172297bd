"""The context handler that is there when an application brings none.

Pure decisions behind the port: too large a context is condensed, and a child gets a summary and references,
never everything.
"""

from __future__ import annotations

from collections.abc import Sequence

from pilotage.agent.context import ContextManifest, ContextPack, ContextPackRole, ContextSensitivity
from pilotage.agent.context_health import (
    ContextHealthSignal,
    ContextOptimizationAction,
    ContextOptimizationActionKind,
    ContextRotSymptom,
)
from pilotage.agent.delegation import DelegationContextSlice, DelegationPacket
from pilotage.agent.ports.handlers import IAgentContextHandler
from pilotage.checks import reject_not_positive
from pilotage.context.assemble import TRANSCRIPT_ENTRY

_TOLD = frozenset({ContextPackRole.TASK, ContextPackRole.STATE, ContextPackRole.DELEGATION})
_REFERRED_TO = frozenset({ContextPackRole.EVIDENCE, ContextPackRole.TOOL_RESULT})
_MAY_TRAVEL = frozenset({ContextSensitivity.PUBLIC, ContextSensitivity.INTERNAL})


class KeepWithinBudget(IAgentContextHandler):
    """Condenses a context that is too large, and leaves every other symptom to the application.

    A child gets what its parent wrote for it, then what the packs say about task and state, at most
    `max_summary_chars` of it, and the ids of evidence. Instructions and memories stay with the parent, and so
    does whatever is confidential, sensitive or redacted.
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
    """The action that condenses the transcript of a manifest because of some signals."""
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
    """The part of the parent's packs that goes along with a task."""
    shared = [pack for pack in packs if pack.sensitivity in _MAY_TRAVEL]
    told = [f"{pack.source}: {pack.guarded_content()}" for pack in shared if pack.role in _TOLD]
    written = packet.context.summary
    summary = "\n\n".join([written, *told] if written else told)[:max_summary_chars]
    refs = [pack.id for pack in shared if pack.role in _REFERRED_TO]
    return DelegationContextSlice(
        summary=summary if summary.strip() else None,
        evidence_refs=tuple(dict.fromkeys((*packet.context.evidence_refs, *refs))),
        manifest_ref=packet.context.manifest_ref,
        metadata={**packet.context.metadata, "withheld_packs": len(packs) - len(shared)},
    )

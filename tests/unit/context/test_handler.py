"""The default handler condenses what is too large, and gives a child a part of what its parent knows."""

from __future__ import annotations

from typing import Any

import pytest

from pilotage.agent.context import (
    ContextHealthSignal,
    ContextManifest,
    ContextOptimizationActionKind,
    ContextPack,
    ContextPackRole,
    ContextRotSymptom,
    ContextSensitivity,
)
from pilotage.agent.delegation import AgentDelegateTarget, DelegationContextSlice, DelegationPacket
from pilotage.context.assemble import TRANSCRIPT_ENTRY
from pilotage.context.health import KeepWithinBudget
from pilotage.errors import AgentDefinitionError
from pilotage.safety.fields import PII, SensitiveField, SensitiveFieldDescriptor

MANIFEST = ContextManifest("m-1", ())
EMAIL = SensitiveFieldDescriptor((), SensitiveField(PII.EMAIL))


def a_packet(**context: Any) -> DelegationPacket:
    target = AgentDelegateTarget("Researcher")
    return DelegationPacket("p-1", "run-1", target, {"find": "Ada"}, DelegationContextSlice(**context))


def a_pack(role: ContextPackRole, content: str = "", **changes: Any) -> ContextPack:
    return ContextPack(f"{role.value}-1", content or f"about {role.value}", "crm", role, **changes)


@pytest.mark.parametrize("symptom", ContextRotSymptom)
async def test_only_a_context_that_is_too_large_is_acted_upon(symptom: ContextRotSymptom) -> None:
    signal = ContextHealthSignal("s-1", symptom, manifest_ref="m-1")
    actions = await KeepWithinBudget().select_optimization_actions([signal], MANIFEST)
    assert bool(actions) is (symptom is ContextRotSymptom.OVER_BUDGET)


async def test_the_action_names_the_signals_and_the_transcript() -> None:
    signals = [ContextHealthSignal(f"s-{n}", ContextRotSymptom.OVER_BUDGET) for n in (1, 2)]
    (action,) = await KeepWithinBudget().select_optimization_actions(signals, MANIFEST)
    assert (action.id, action.kind) == ("m-1/compression", ContextOptimizationActionKind.COMPRESSION)
    assert action.signal_refs == ("s-1", "s-2")
    assert action.target_pack_ids == (TRANSCRIPT_ENTRY,)
    assert action.manifest_ref == "m-1"


async def test_a_child_gets_a_summary_and_references_and_not_everything() -> None:
    packs = [a_pack(role) for role in ContextPackRole]
    packet = a_packet(summary="Find her.", evidence_refs=("e-1",), manifest_ref="m-1", metadata={"n": 1})
    assert await KeepWithinBudget().slice_for_child(packet, packs) == DelegationContextSlice(
        summary="Find her.\n\ncrm: about task\n\ncrm: about state\n\ncrm: about delegation",
        evidence_refs=("e-1", "evidence-1", "tool_result-1"),
        manifest_ref="m-1",
        metadata={"n": 1, "withheld_packs": 0},
    )


@pytest.mark.parametrize("sensitivity", ContextSensitivity)
async def test_what_is_confidential_stays_with_the_parent(sensitivity: ContextSensitivity) -> None:
    packs = [
        a_pack(role, sensitivity=sensitivity) for role in (ContextPackRole.TASK, ContextPackRole.EVIDENCE)
    ]
    given = await KeepWithinBudget().slice_for_child(a_packet(), packs)
    may_travel = sensitivity in {ContextSensitivity.PUBLIC, ContextSensitivity.INTERNAL}
    assert (given.summary is not None) is may_travel
    assert bool(given.evidence_refs) is may_travel
    assert given.metadata["withheld_packs"] == (0 if may_travel else 2)


async def test_sensitive_content_is_masked_for_a_child() -> None:
    pack = a_pack(ContextPackRole.TASK, "ada@example.org", sensitive_fields=(EMAIL,))
    given = await KeepWithinBudget().slice_for_child(a_packet(), [pack])
    assert given.summary == "crm: [REDACTED]"


async def test_a_summary_has_its_limit() -> None:
    pack = a_pack(ContextPackRole.TASK, "x" * 10_000)
    given = await KeepWithinBudget(max_summary_chars=50).slice_for_child(a_packet(), [pack])
    assert given.summary is not None
    assert len(given.summary) == 50


async def test_a_child_without_context_gets_none() -> None:
    given = await KeepWithinBudget().slice_for_child(a_packet(), [])
    assert given == DelegationContextSlice(metadata={"withheld_packs": 0})


def test_a_summary_needs_a_length() -> None:
    with pytest.raises(AgentDefinitionError, match="KeepWithinBudget.max_summary_chars is 0"):
        KeepWithinBudget(max_summary_chars=0)

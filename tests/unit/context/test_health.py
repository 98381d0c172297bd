"""The symptoms that are detected, and the default handler that acts on them."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import pytest

from pilotage.agent.context import (
    ContextFreshness,
    ContextHealthSignal,
    ContextManifest,
    ContextOptimizationActionKind,
    ContextPack,
    ContextPackRole,
    ContextRotSymptom,
    ContextSensitivity,
    ContextTokenBudget,
)
from pilotage.agent.delegation import AgentDelegateTarget, DelegationContextSlice, DelegationPacket
from pilotage.context.assemble import TRANSCRIPT_ENTRY
from pilotage.context.health import (
    KeepWithinBudget,
    excess_of,
    health_signals,
    over_budget,
    room_of,
    stale_packs,
)
from pilotage.errors import AgentDefinitionError
from pilotage.safety.fields import PII, SensitiveField, SensitiveFieldDescriptor

NOW = datetime(2026, 1, 2, tzinfo=UTC)


def a_pack_that_is(freshness: ContextFreshness) -> ContextPack:
    return ContextPack(freshness.value, "text", "crm", ContextPackRole.MEMORY, freshness)


@pytest.mark.parametrize(
    ("budget", "tokens", "room", "excess"),
    [
        (ContextTokenBudget(), 10_000, None, 0),
        (ContextTokenBudget(100), 100, 100, 0),
        (ContextTokenBudget(100), 101, 100, 1),
        (ContextTokenBudget(100, reserved_output_tokens=20), 100, 80, 20),
        (ContextTokenBudget(100, reserved_output_tokens=20), 80, 80, 0),
    ],
)
def test_the_answer_has_its_room_first(
    budget: ContextTokenBudget, tokens: int, room: int | None, excess: int
) -> None:
    assert room_of(budget) == room
    assert excess_of(tokens, budget) == excess
    assert (over_budget(tokens, budget, manifest_ref="m-1") is not None) is (excess > 0)


def test_one_may_aim_at_less_than_all_the_room() -> None:
    assert excess_of(90, ContextTokenBudget(100), aim=0.75) == 15
    assert excess_of(75, ContextTokenBudget(100), aim=0.75) == 0
    with pytest.raises(AgentDefinitionError, match="excess_of.aim is 1.5"):
        excess_of(75, ContextTokenBudget(100), aim=1.5)


def test_a_budget_that_leaves_no_room_is_refused() -> None:
    with pytest.raises(AgentDefinitionError, match="keeps 100 of 100 tokens for the answer"):
        room_of(ContextTokenBudget(100, reserved_output_tokens=100))


def test_the_signal_says_how_much_is_too_much() -> None:
    signal = over_budget(400, ContextTokenBudget(100), manifest_ref="m-1", observed_at=NOW)
    assert signal is not None
    assert (signal.id, signal.symptom) == ("m-1/over_budget", ContextRotSymptom.OVER_BUDGET)
    assert (signal.manifest_ref, signal.score, signal.observed_at) == ("m-1", 0.75, NOW)
    assert signal.metadata == {"tokens": 400, "room": 100}


def test_only_packs_that_say_so_are_stale() -> None:
    signals = stale_packs([a_pack_that_is(each) for each in ContextFreshness], manifest_ref="m-1")
    assert [(s.id, s.pack_id, s.symptom) for s in signals] == [
        ("m-1/stale/stale", "stale", ContextRotSymptom.STALE)
    ]


@pytest.mark.parametrize(
    ("tokens", "freshness", "symptoms"),
    [
        (10, ContextFreshness.CURRENT, []),
        (10, ContextFreshness.STALE, ["stale"]),
        (200, ContextFreshness.CURRENT, ["over_budget"]),
        (200, ContextFreshness.STALE, ["over_budget", "stale"]),
    ],
)
def test_all_symptoms_are_told_together(
    tokens: int, freshness: ContextFreshness, symptoms: list[str]
) -> None:
    signals = health_signals(tokens, [a_pack_that_is(freshness)], ContextTokenBudget(100), manifest_ref="m-1")
    assert [signal.symptom.value for signal in signals] == symptoms


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

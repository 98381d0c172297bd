"""The symptoms that can be seen without an opinion."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest

from pilotage.agent.context import (
    ContextFreshness,
    ContextPack,
    ContextPackRole,
    ContextRotSymptom,
    ContextTokenBudget,
)
from pilotage.context.health import excess_of, health_signals, over_budget, room_of, stale_packs
from pilotage.errors import AgentDefinitionError

NOW = datetime(2026, 1, 2, tzinfo=UTC)


def a_pack(freshness: ContextFreshness) -> ContextPack:
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
    signals = stale_packs([a_pack(each) for each in ContextFreshness], manifest_ref="m-1")
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
    signals = health_signals(tokens, [a_pack(freshness)], ContextTokenBudget(100), manifest_ref="m-1")
    assert [signal.symptom.value for signal in signals] == symptoms

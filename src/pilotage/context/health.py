"""Symptoms that the framework sees by itself: a context that is too large, packs that are too old.

Pure. Contradictions, low relevance and pollution need an opinion; those signals come from applications.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime

from pilotage.agent.context import ContextFreshness, ContextPack, ContextTokenBudget
from pilotage.agent.context_health import ContextHealthSignal, ContextRotSymptom
from pilotage.checks import reject_outside_unit
from pilotage.errors import AgentDefinitionError


def room_of(budget: ContextTokenBudget) -> int | None:
    """How many tokens a request may take so that the answer still fits; None is no limit.

    Raises:
        AgentDefinitionError: the answer is promised everything, so nothing is left for the request.
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
    """By how many tokens a request exceeds its room; zero when it fits.

    Whoever condenses aims at a share of the room, or the next turn is too much again.

    Raises:
        AgentDefinitionError: the budget leaves no room at all, or the aim is no share of it.
    """
    reject_outside_unit("excess_of", aim=aim)
    room = room_of(budget)
    return 0 if room is None else max(0, tokens - int(room * aim))


def over_budget(
    tokens: int, budget: ContextTokenBudget, *, manifest_ref: str, observed_at: datetime | None = None
) -> ContextHealthSignal | None:
    """The signal of a request that takes more than its room; its score is the share that is too much.

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
    """A signal for each pack whose source says that it is stale."""
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
    """Everything that can be seen to be wrong with a request before it is sent.

    Raises:
        AgentDefinitionError: the budget leaves no room at all.
    """
    too_large = over_budget(tokens, budget, manifest_ref=manifest_ref, observed_at=observed_at)
    too_old = stale_packs(packs, manifest_ref=manifest_ref, observed_at=observed_at)
    return (too_large, *too_old) if too_large else too_old

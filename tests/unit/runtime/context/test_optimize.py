"""Which actions of a context handler can be carried out, as a table."""

from __future__ import annotations

import pytest

from pilotage.agent.context import (
    ContextOptimizationAction,
    ContextOptimizationActionKind,
    ContextPack,
    ContextPackRole,
    ContextSensitivity,
)
from pilotage.agent.run_values import AgentContext
from pilotage.context.assemble import TRANSCRIPT_ENTRY
from pilotage.runtime.context.optimize import Abilities, SelectedActions, refusal_of

KIND = ContextOptimizationActionKind
PACKS = {
    pack.id: pack
    for pack in (
        ContextPack("note", "A note.", "crm", ContextPackRole.EVIDENCE),
        ContextPack("rule", "Be kind.", "handbook", ContextPackRole.INSTRUCTION),
        ContextPack(
            "file", "Hush.", "hr", ContextPackRole.EVIDENCE, sensitivity=ContextSensitivity.SENSITIVE
        ),
    )
}


async def fetch() -> AgentContext:
    return AgentContext()


ABLE = Abilities(True, frozenset({"reader"}), fetch)
UNABLE = Abilities(False)
FETCHED = Abilities(True, fetch=fetch, is_fetched=True)


def drop(*targets: str) -> ContextOptimizationAction:
    return ContextOptimizationAction("drop", KIND.CONTEXT_SLICE_DROP, (), targets)


def delegate(*targets: str, to: str | None = "reader") -> ContextOptimizationAction:
    return ContextOptimizationAction("delegate", KIND.DELEGATION, (), targets, delegation_ref=to)


COMPRESS = ContextOptimizationAction("compress", KIND.COMPRESSION)
REFRESH = ContextOptimizationAction("refresh", KIND.RETRIEVAL_REFRESH)


@pytest.mark.parametrize(
    ("action", "abilities", "reason"),
    [
        (COMPRESS, ABLE, None),
        (COMPRESS, UNABLE, "no context budget"),
        (REFRESH, ABLE, None),
        (REFRESH, UNABLE, "no IAgentContextProvider"),
        (REFRESH, FETCHED, "was fetched for this model step"),
        (drop("note"), UNABLE, None),
        (drop("file"), UNABLE, None),
        (drop(), ABLE, "names no pack"),
        (drop("note", "gone"), ABLE, "has no pack 'gone'"),
        (drop("note", "rule"), ABLE, "pack 'rule' instructs"),
        (drop(TRANSCRIPT_ENTRY), ABLE, "select a compression"),
        (delegate("note"), ABLE, None),
        (delegate("note"), UNABLE, "no teammate 'reader'"),
        (delegate("note", to=None), ABLE, "no teammate None"),
        (delegate(), ABLE, "names no pack"),
        (delegate("note", "file"), ABLE, "pack 'file' may not leave the run"),
    ],
)
def test_an_action_is_refused_for_a_reason(
    action: ContextOptimizationAction, abilities: Abilities, reason: str | None
) -> None:
    refusal = refusal_of(action, PACKS, abilities)
    assert refusal is None if reason is None else reason in str(refusal)


@pytest.mark.parametrize(
    ("actions", "is_compression"),
    [((), True), ((COMPRESS,), True), ((COMPRESS, COMPRESS), False), ((drop("note"),), False)],
)
def test_a_mere_compression_needs_no_record_of_its_own(
    actions: tuple[ContextOptimizationAction, ...], is_compression: bool
) -> None:
    assert SelectedActions(actions).is_compression is is_compression

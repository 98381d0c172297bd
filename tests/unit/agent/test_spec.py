"""Specs: what is derived from what is declared."""

from __future__ import annotations

import pytest

from pilotage.agent.signals import AgentSignalKind
from pilotage.agent.spec import AgentExecutionLimits, AgentExecutionSpec, RecoveryStrategy


@pytest.mark.parametrize(
    ("spec", "durable"),
    [
        (AgentExecutionSpec(), False),
        (AgentExecutionSpec(recovery=RecoveryStrategy.ACTION_BOUNDARY), True),
        (AgentExecutionSpec(accepted_signals=[AgentSignalKind.USER_MESSAGE]), True),
    ],
)
def test_durability_is_derived(spec: AgentExecutionSpec, durable: bool) -> None:
    assert spec.is_durable is durable


@pytest.mark.parametrize(
    ("spec", "seconds"),
    [
        (AgentExecutionSpec(), None),
        (AgentExecutionSpec(timeout_seconds=2), 2),
        (AgentExecutionSpec(limits=AgentExecutionLimits(3)), 3),
        (AgentExecutionSpec(timeout_seconds=3, limits=AgentExecutionLimits(3)), 3),
    ],
)
def test_the_timeout_counts_wherever_it_was_declared(spec: AgentExecutionSpec, seconds: float | None) -> None:
    assert spec.effective_timeout_seconds == seconds


def test_lists_become_tuples_so_that_specs_can_be_shared() -> None:
    spec = AgentExecutionSpec(accepted_signals=[AgentSignalKind.CANCEL])
    assert spec.accepted_signals == (AgentSignalKind.CANCEL,)
    assert spec == AgentExecutionSpec(accepted_signals=(AgentSignalKind.CANCEL,))

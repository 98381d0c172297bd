"""Specs: what is derived from declarations; the keywords of `@Agent` that fill them."""

from __future__ import annotations

from decimal import Decimal
from typing import Any

import pytest

from pilotage.agent import Agent, AgentTeammate
from pilotage.agent.signals import AgentSignalKind
from pilotage.agent.spec import AgentExecutionLimits, AgentExecutionSpec, RecoveryStrategy
from pilotage.errors import AgentDefinitionError


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


@pytest.mark.parametrize(
    ("field", "given", "words"),
    [
        ("max_cost", 0.5, r"max_cost is 0\.5\. Use Decimal, such as Decimal\('0\.50'\)"),
        ("max_cost", Decimal(0), "Use a positive number"),
        ("max_cost", Decimal("NaN"), "Use a positive number"),
        ("max_steps", 2.5, r"max_steps is 2\.5\. Use int, such as 10"),
        ("max_steps", True, "Use a positive number"),
        ("max_tool_calls", "3", "Use int"),
        ("max_tokens", Decimal(3), "Use int"),
        ("max_tokens", -1, "Use a positive number"),
        ("timeout_seconds", 0, "Use a positive number"),
    ],
)
def test_a_bound_is_positive_and_exact(field: str, given: Any, words: str) -> None:
    with pytest.raises(AgentDefinitionError, match=words):
        AgentExecutionLimits(**{field: given})


def test_without_a_bound_nothing_is_limited() -> None:
    assert AgentExecutionLimits() == AgentExecutionLimits(None, None, None, None, None)


@Agent
class BookFinder:
    """Find books."""


def spec_of(**keywords: Any) -> AgentExecutionSpec:
    class Desk:
        """Answer."""

    return Agent.get(Agent(**keywords)(Desk)).spec


DURABLE = AgentExecutionSpec(recovery=RecoveryStrategy.ACTION_BOUNDARY)
FILLED: list[tuple[dict[str, Any], AgentExecutionSpec]] = [
    ({}, AgentExecutionSpec()),
    ({"durable": True}, DURABLE),
    ({"durable": False}, AgentExecutionSpec()),
    ({"durable": True, "spec": DURABLE}, DURABLE),
    ({"output": list[int]}, AgentExecutionSpec(output_type=list[int])),
    (
        {"teammates": [BookFinder]},
        AgentExecutionSpec(teammates=[AgentTeammate("book_finder", pod=BookFinder)]),
    ),
    (
        {"teammates": [AgentTeammate("clerk", pod=BookFinder)]},
        AgentExecutionSpec(teammates=[AgentTeammate("clerk", pod=BookFinder)]),
    ),
    (
        {"timeout_seconds": 60, "max_steps": 5, "max_tool_calls": 4, "max_tokens": 9, "max_cost": Decimal(1)},
        AgentExecutionSpec(limits=AgentExecutionLimits(60, 5, 4, 9, Decimal(1))),
    ),
    (
        {"max_steps": 5, "spec": AgentExecutionSpec(limits=AgentExecutionLimits(max_tokens=9, max_steps=5))},
        AgentExecutionSpec(limits=AgentExecutionLimits(max_tokens=9, max_steps=5)),
    ),
    (
        {"timeout_seconds": 60, "spec": AgentExecutionSpec(timeout_seconds=60)},
        AgentExecutionSpec(timeout_seconds=60, limits=AgentExecutionLimits(timeout_seconds=60)),
    ),
    (
        {"durable": True, "spec": AgentExecutionSpec(name="desk", accepted_signals=[AgentSignalKind.CANCEL])},
        AgentExecutionSpec(
            name="desk",
            accepted_signals=[AgentSignalKind.CANCEL],
            recovery=RecoveryStrategy.ACTION_BOUNDARY,
        ),
    ),
]


@pytest.mark.parametrize(("keywords", "spec"), FILLED, ids=[", ".join(case[0]) for case in FILLED])
def test_keywords_fill_the_spec(keywords: dict[str, Any], spec: AgentExecutionSpec) -> None:
    assert spec_of(**keywords) == spec


def test_one_annotation_may_mark_several_classes() -> None:
    mark = Agent(durable=True, max_steps=3)
    specs = [Agent.get(mark(type(name, (), {}))).spec for name in ("First", "Second")]
    assert specs[0] == specs[1]
    assert specs[0].is_durable
    assert mark.spec == AgentExecutionSpec()

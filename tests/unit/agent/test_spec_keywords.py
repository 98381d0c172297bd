"""The keywords of `@Agent` fill its spec, and nothing else."""

from __future__ import annotations

from decimal import Decimal
from typing import Any

import pytest

from pilotage.agent import (
    Agent,
    AgentExecutionLimits,
    AgentExecutionSpec,
    AgentSignalKind,
    AgentTeammate,
    RecoveryStrategy,
)


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

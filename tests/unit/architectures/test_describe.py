"""The tree of an agent as Mermaid."""

from __future__ import annotations

import pytest

from pilotage import Agent, AgentDefinitionError, AgentExecutionSpec
from pilotage.architectures import PlanAndExecute, Reflexion, Supervisor, Swarm, describe


@Agent
class Researcher:
    """Find things out."""


@Agent(spec=AgentExecutionSpec(name="writer", architecture=PlanAndExecute()))
class Writer:
    """Write."""


@Agent(
    spec=AgentExecutionSpec(
        architecture=Reflexion(
            base=Supervisor(
                workers={
                    "research": Researcher,
                    "write": Writer,
                    "check": AgentExecutionSpec(instructions='Say "yes".'),
                }
            )
        )
    )
)
class Desk:
    """Report."""


def test_a_tree_shows_agents_loops_and_the_names_of_workers() -> None:
    assert describe(Desk).splitlines() == [
        "flowchart TD",
        '    n0["Desk"]',
        '    n1(["reflexion"])',
        '    n2(["supervisor"])',
        '    n3["Researcher"]',
        '    n4(["react"])',
        "    n3 --> n4",
        '    n2 -- "research" --> n3',
        '    n5["writer"]',
        '    n6(["plan_and_execute"])',
        '    n7(["react"])',
        '    n6 -- "base" --> n7',
        "    n5 --> n6",
        '    n2 -- "write" --> n5',
        '    n8["check"]',
        '    n9(["react"])',
        "    n8 --> n9",
        '    n2 -- "check" --> n8',
        '    n10(["react"])',
        '    n2 -- "base" --> n10',
        '    n1 -- "base" --> n2',
        "    n0 --> n1",
    ]


def test_peers_by_name_are_boxes_and_agents_are_drawn_once() -> None:
    drawn = describe(Swarm({'the "front"': "front", "again": Researcher, "twice": Researcher}, entry="again"))
    assert drawn.count('["Researcher"]') == 1
    assert '["front"]' in drawn
    assert '-- "the #quot;front#quot;" -->' in drawn


def test_a_class_that_is_no_agent_is_refused() -> None:
    with pytest.raises(AgentDefinitionError, match="int is no agent. Mark it with @Agent"):
        describe(int)

"""Where untrusted content, private data and a way out come together, and what counts as a gate."""

from __future__ import annotations

from dataclasses import replace
from typing import Annotated

import pytest

from pilotage.agent.safety_checks import AgentReach, rule_of_two
from pilotage.agent.tools.catalog import AgentToolDescriptor, discover_agent_tools
from pilotage.agent.tools.declare import agent_tool
from pilotage.agent.tools.metadata import DataAccess, ToolApprovalRequirement, ToolEffects
from pilotage.errors import AgentBootstrapError
from pilotage.safety.fields import PII, DataSensitivity, SecretField, SensitiveField
from pilotage.safety.trust import Confidentiality

NOT_REQUIRED, REQUIRED = ToolApprovalRequirement.NOT_REQUIRED, ToolApprovalRequirement.REQUIRED
LOOK_UP = ToolEffects(DataAccess.READ, network=True)


class Office:
    @agent_tool(effects=LOOK_UP)
    def browse(self, url: str) -> str:
        return url

    @agent_tool(effects=LOOK_UP, accepts_untrusted=True)
    def browse_freely(self, url: str) -> str:
        return url

    @agent_tool(effects=ToolEffects.read_only(), reads_untrusted=True)
    def read_inbox(self) -> str:
        return ""

    @agent_tool(effects=ToolEffects.read_only(), reads_private=True)
    def read_customer(self, name: str) -> str:
        return name

    @agent_tool(effects=ToolEffects.read_only())
    def read_docs(self) -> str:
        return ""

    @agent_tool(effects=ToolEffects.external_side_effect())
    def send(self, text: str) -> None: ...

    @agent_tool
    def undeclared(self) -> str:
        return ""

    @agent_tool(effects=ToolEffects.external_side_effect(), approval=NOT_REQUIRED)
    def post_and_read(self, text: str) -> str:
        return text

    @agent_tool(effects=ToolEffects.external_side_effect(), approval=NOT_REQUIRED, reads_untrusted=False)
    def post(self, text: str) -> None: ...

    @agent_tool(effects=ToolEffects.external_side_effect(), approval=REQUIRED, accepts_untrusted=True)
    def publish(self, text: str) -> None: ...

    @agent_tool(effects=ToolEffects.external_side_effect(), approval=NOT_REQUIRED, communicates=False)
    def bill(self, cents: int) -> None: ...

    @agent_tool(effects=ToolEffects.write_state(), approval=NOT_REQUIRED)
    def note(self, text: str) -> None: ...

    @agent_tool(effects=ToolEffects.read_only())
    def read_pii(self) -> Annotated[str, SensitiveField(PII.NAME)]:
        return ""

    @agent_tool(effects=ToolEffects.read_only())
    def read_marked_public(self) -> Annotated[str, SensitiveField(DataSensitivity.PUBLIC)]:
        return ""

    @agent_tool(effects=ToolEffects.read_only())
    def read_key(self) -> Annotated[str, SecretField()]:
        return ""


def tool(name: str) -> AgentToolDescriptor:
    return discover_agent_tools(Office).by_schema_name(name)


def agent(name: str, *tools: str, delegates: tuple[str, ...] = ()) -> AgentReach:
    return AgentReach(name, tuple(map(tool, tools)), delegates)


@pytest.mark.parametrize(
    "tools",
    [
        ("read_inbox", "read_customer", "post"),
        ("browse", "read_customer", "post"),
        ("browse_freely", "read_customer"),
        ("read_inbox", "read_pii", "post"),
        ("read_inbox", "read_key", "post"),
        ("undeclared", "read_customer", "post"),
        ("read_customer", "post_and_read"),
    ],
    ids=" ".join,
)
def test_all_three_together_without_a_gate_are_a_problem(tools: tuple[str, ...]) -> None:
    (problem,) = rule_of_two([agent("Clerk", *tools)])
    assert (problem.code, problem.path, problem.family) == (
        "agent_rule_of_two",
        ("Clerk",),
        AgentBootstrapError,
    )


@pytest.mark.parametrize(
    "tools",
    [
        (),
        ("browse",),
        ("read_customer", "post"),
        ("read_inbox", "post"),
        ("read_inbox", "read_customer"),
        ("read_inbox", "read_docs", "post"),
        ("read_inbox", "read_marked_public", "post"),
        ("read_inbox", "read_customer", "note"),
        ("read_inbox", "read_customer", "bill"),
        ("read_inbox", "read_customer", "send"),
        ("read_inbox", "read_customer", "publish"),
        ("browse", "read_customer"),
    ],
    ids=lambda tools: " ".join(tools) or "no tools",
)
def test_two_of_them_or_a_gate_are_fine(tools: tuple[str, ...]) -> None:
    assert rule_of_two([agent("Clerk", *tools)]) == ()


def test_a_problem_names_every_tool_and_the_way_out() -> None:
    (problem,) = rule_of_two([agent("Clerk", "read_inbox", "read_customer", "post", "browse_freely", "send")])
    sources = "read_inbox, browse_freely, which reaches outside, send, which reaches outside"
    assert f"untrusted content ({sources})" in problem.summary
    assert "private data (read_customer)" in problem.summary
    assert "that needs no approval (post, browse_freely)" in problem.summary
    assert "take approval=NOT_REQUIRED and accepts_untrusted=True off post, browse_freely." in problem.remedy


def test_a_default_is_named_with_its_reason_and_with_the_declaration_that_lifts_it() -> None:
    (problem,) = rule_of_two([agent("Clerk", "undeclared", "read_customer", "post")])
    assert "untrusted content (undeclared, which declares no effects)" in problem.summary
    assert "where a declaration or a default is wrong, correct it: reads_untrusted=False" in problem.remedy


def test_events_from_outside_are_untrusted_content_too() -> None:
    hears = replace(agent("Clerk", "read_customer", "post"), signals=("external_event",))
    (problem,) = rule_of_two([hears])
    assert "untrusted content (external_event signals) and private data (read_customer)" in problem.summary
    assert rule_of_two([replace(agent("Clerk", "read_customer"), signals=("external_event",))]) == ()
    assert problem.remedy.endswith("; untrusted_signals=[] for signals of your own.")
    below = [
        agent("Chief", "read_customer", "post", delegates=("Ear",)),
        AgentReach("Ear", signals=("external_event",)),
    ]
    (problem,) = rule_of_two(below)
    assert "untrusted content (Ear -> external_event signals)" in problem.summary


def test_content_flows_through_a_delegation() -> None:
    agents = [
        agent("Chief", "read_customer", delegates=("Reader", "Writer")),
        agent("Reader", "read_inbox"),
        agent("Writer", "post"),
    ]
    (problem,) = rule_of_two(agents)
    assert problem.path == ("Chief",)
    assert "(Reader -> read_inbox)" in problem.summary
    assert "(read_customer)" in problem.summary
    assert "(Writer -> post)" in problem.summary


def test_the_way_through_several_delegations_is_shown() -> None:
    agents = [
        agent("Chief", "read_inbox", "read_customer", delegates=("Middle",)),
        agent("Middle", delegates=("Writer",)),
        agent("Writer", "post"),
    ]
    (problem,) = rule_of_two(agents)
    assert "(Middle -> Writer -> post)" in problem.summary


def test_whoever_delegates_to_a_problem_is_not_named_again() -> None:
    agents = [
        agent("Chief", delegates=("Clerk",)),
        agent("Clerk", "read_inbox", "read_customer", "post"),
    ]
    assert [problem.path for problem in rule_of_two(agents)] == [("Clerk",)]


def test_agents_that_delegate_to_each_other_are_looked_at_together() -> None:
    agents = [
        agent("Ada", "read_inbox", "read_customer", delegates=("Bob",)),
        agent("Bob", "post", delegates=("Ada",)),
    ]
    assert [problem.path for problem in rule_of_two(agents)] == [("Ada",), ("Bob",)]


def test_agents_that_do_not_delegate_to_each_other_are_apart() -> None:
    agents = [agent("Ada", "read_inbox", "read_customer"), agent("Bob", "post", delegates=("Elsewhere",))]
    assert rule_of_two(agents) == ()


@pytest.mark.parametrize(
    ("name", "level"),
    [
        ("read_docs", Confidentiality.PUBLIC),
        ("read_marked_public", Confidentiality.PUBLIC),
        ("read_customer", Confidentiality.TENANT),
        ("read_pii", Confidentiality.TENANT),
        ("read_key", Confidentiality.SECRET),
    ],
)
def test_a_result_is_as_confidential_as_its_tool_or_its_type_says(name: str, level: Confidentiality) -> None:
    assert tool(name).confidentiality is level

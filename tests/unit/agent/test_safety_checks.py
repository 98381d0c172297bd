"""Agents that need sealed records; untrusted content, private data and a way out in one agent."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Annotated

import pytest

from pilotage.agent import Agent, AgentExecutionSpec, EvidenceCapture, RecoveryStrategy
from pilotage.agent.definition import AgentDefinition
from pilotage.agent.safety_checks import (
    AgentReach,
    hidden_input,
    input_fields,
    output_fields,
    rule_of_two,
    unsealable,
    withheld_by,
)
from pilotage.agent.tools.catalog import AgentToolDescriptor, discover_agent_tools
from pilotage.agent.tools.declare import agent_tool
from pilotage.agent.tools.metadata import DataAccess, ToolApprovalRequirement, ToolEffects
from pilotage.errors import AgentBootstrapError, AgentPersistenceConfigurationError
from pilotage.safety import StreamingRedactionPolicy, StreamingSensitivePattern
from pilotage.safety.fields import PII, DataSensitivity, SecretField, SensitiveField
from pilotage.safety.trust import Confidentiality

Iban = Annotated[str, SensitiveField(PII.ACCOUNT_ID)]
DURABLE = AgentExecutionSpec(recovery=RecoveryStrategy.ACTION_BOUNDARY)


@dataclass
class Customer:
    iban: Iban
    orders: int
    key: Annotated[str, SecretField()] = ""


class Tools:
    @agent_tool
    def plain(self, amount: int) -> int:
        return amount

    @agent_tool
    def arguments(self, customers: list[int], iban: Iban) -> int:
        return len(iban)

    @agent_tool
    def results(self) -> Customer:
        raise NotImplementedError

    @agent_tool
    def whole_result(self) -> Iban:
        raise NotImplementedError

    @agent_tool
    def internal(self, note: Annotated[str, SensitiveField(DataSensitivity.INTERNAL)]) -> int:
        return len(note)

    @agent_tool
    def secret(self, token: Annotated[str, SecretField()]) -> int:
        return len(token)

    @agent_tool(evidence=EvidenceCapture.RAW)
    def raw(self) -> Customer:
        raise NotImplementedError

    @agent_tool(evidence=EvidenceCapture.SUMMARY)
    def cut(self, iban: Iban) -> Customer:
        raise NotImplementedError

    @agent_tool(effects=ToolEffects.read_only(), approval=ToolApprovalRequirement.REQUIRED)
    def read_with_approval(self, iban: Iban) -> int:
        raise NotImplementedError

    @agent_tool(effects=ToolEffects.read_only(), evidence=EvidenceCapture.NONE)
    def read_only(self, iban: Iban) -> Customer:
        raise NotImplementedError


TOOLS = {tool.name: tool for tool in discover_agent_tools(Tools).descriptors}


@Agent(spec=DURABLE)
class Plain:
    def execute(self, question: str) -> str:
        return question


@Agent(spec=DURABLE)
class SensitiveEnds:
    def execute(self, customer: Customer, iban: Iban | None = None) -> list[Customer]:
        return [customer]


@Agent
class NotDurable:
    def execute(self, customer: Customer) -> Customer:
        return customer


@Agent(
    spec=AgentExecutionSpec(
        recovery=RecoveryStrategy.ACTION_BOUNDARY,
        redaction=StreamingRedactionPolicy((StreamingSensitivePattern("key", "sk-[0-9]{4}"),)),
    )
)
class Redacted:
    def execute(self, question: str) -> str:
        return question


@Agent(spec=DURABLE)
class MarkedKeys:
    def execute(self, accounts: dict[Iban, int]) -> int:
        return len(accounts)


def definition_of(agent: type) -> AgentDefinition:
    return AgentDefinition.get(agent)


@pytest.mark.parametrize(
    ("name", "reasons"),
    [
        ("plain", ()),
        ("arguments", ("sensitive arguments (iban)",)),
        ("results", ("sensitive results (iban)",)),
        ("whole_result", ("sensitive results",)),
        ("internal", ()),
        ("secret", ()),
        ("raw", ()),
        ("cut", ("sensitive arguments (iban)", "its result (evidence='summary')")),
    ],
)
def test_what_a_tool_keeps_from_readers_is_said_field_by_field(name: str, reasons: tuple[str, ...]) -> None:
    assert withheld_by(TOOLS[name]) == reasons
    problems = list(unsealable(definition_of(Plain), [TOOLS[name]]))
    assert [problem.path for problem in problems] == ([("Plain", f"Tools.{name}")] if reasons else [])


def test_a_tool_that_only_reads_is_asked_again_instead() -> None:
    assert withheld_by(TOOLS["read_only"])
    assert list(unsealable(definition_of(Plain), [TOOLS["read_only"]])) == []


def test_a_problem_says_what_is_withheld_and_what_to_do() -> None:
    (problem,) = unsealable(definition_of(Plain), [TOOLS["cut"]])
    assert problem.code == "record_sealer_missing"
    assert problem.family is AgentPersistenceConfigurationError
    assert str(problem).splitlines() == [
        "Plain -> Tools.cut: replay needs what others must not read: sensitive arguments (iban) and its result "
        "(evidence='summary'). It would have to be sealed, and nothing provides IRecordSealer.",
        'Install a sealer: pip install "pilotage[sealing]", and name its key file in PILOTAGE_SEALING_KEY_FILE. '
        "Or bind your own: app.bind(IRecordSealer, ...); in tests, pilotage.testing.MemorySealer().",
    ]


def test_every_tool_input_and_output_is_a_problem_of_its_own() -> None:
    problems = list(unsealable(definition_of(SensitiveEnds), TOOLS.values()))
    assert [problem.path[1] for problem in problems] == [
        "Tools.arguments",
        "Tools.cut",
        "Tools.read_with_approval",
        "Tools.results",
        "Tools.whole_result",
        "input",
        "output",
    ]


def test_the_fields_of_input_and_output_are_found() -> None:
    definition = definition_of(SensitiveEnds)
    assert [found.path for found in input_fields(definition)] == [
        ("customer", "iban"),
        ("customer", "key"),
        ("iban",),
    ]
    assert [found.path for found in output_fields(definition)] == [("iban",), ("key",)]


def test_a_redaction_policy_is_a_problem() -> None:
    (problem,) = unsealable(definition_of(Redacted), ())
    assert problem.path == ("Redacted", "spec.redaction")


def test_an_input_that_cannot_be_guarded_is_a_problem_and_no_crash() -> None:
    (problem,) = unsealable(definition_of(MarkedKeys), ())
    assert "marked as sensitive" in str(problem)


def test_an_agent_that_keeps_nothing_has_nothing_to_seal() -> None:
    assert list(unsealable(definition_of(NotDurable), TOOLS.values())) == []


def test_the_runs_of_an_agent_below_a_durable_one_are_recorded_too() -> None:
    problems = list(unsealable(definition_of(NotDurable), [TOOLS["arguments"]], has_durable_parent=True))
    assert [problem.path[1] for problem in problems] == ["Tools.arguments", "input", "output"]


def test_arguments_that_people_may_change_are_in_their_answers() -> None:
    (problem,) = unsealable(definition_of(Plain), [TOOLS["read_with_approval"]])
    assert "sensitive arguments (iban)" in str(problem)


def test_tools_that_no_model_is_offered_are_checked_for_what_their_calls_record() -> None:
    inner = [TOOLS["plain"], TOOLS["read_only"], TOOLS["whole_result"]]
    assert [problem.path[1] for problem in unsealable(definition_of(Plain), (), inner)] == [
        "Tools.whole_result"
    ]


def test_an_input_hides_what_its_readers_do_not_see() -> None:
    assert [found.path for found in hidden_input(definition_of(SensitiveEnds))] == [
        ("customer", "iban"),
        ("iban",),
    ]
    assert hidden_input(definition_of(Plain)) == hidden_input(definition_of(MarkedKeys)) == ()


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

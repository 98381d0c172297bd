"""Which agents cannot be kept by an application that cannot seal."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated

import pytest

from pilotage.agent import (
    Agent,
    AgentExecutionSpec,
    EvidenceCapture,
    RecoveryStrategy,
    ToolApprovalRequirement,
    ToolEffects,
    agent_tool,
    discover_agent_tools,
)
from pilotage.agent.definition import AgentDefinition
from pilotage.agent.safety_checks import hidden_input, input_fields, output_fields, unsealable, withheld_by
from pilotage.errors import AgentPersistenceConfigurationError
from pilotage.safety import (
    PII,
    DataSensitivity,
    SecretField,
    SensitiveField,
    StreamingRedactionPolicy,
    StreamingSensitivePattern,
)

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

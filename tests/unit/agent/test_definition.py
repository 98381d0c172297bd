"""What `@Agent` reads from a class."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import AbstractAsyncContextManager, asynccontextmanager

import pytest

from pilotage.agent import (
    Agent,
    AgentEvent,
    AgentExecutionSpec,
    AgentSignalKind,
    AgentYield,
    ExecuteShape,
    Final,
    IAgentEvidenceRepository,
    IAgentJournal,
    IAgentRunner,
    IAgentRunnerFactory,
    IAgentSignalRepository,
    IAgentStateRepository,
    RunAgentInput,
    ToolEffects,
    agent_tool,
)
from pilotage.agent.definition import attach_runner
from pilotage.container import Pod, Scope
from pilotage.errors import AgentDefinitionError, AgentModelConfigurationError, PodDefinitionError


class Bank: ...


@Agent
class SampleAgent:
    """Help with payments.

    Always be polite.
    """

    def __init__(self, bank: Bank) -> None:
        self.bank = bank

    def execute(self, name: str) -> str:
        return name

    @agent_tool(effects=ToolEffects.read_only())
    def balance(self, account: str) -> int:
        """Look up a balance."""
        return len(account)


def test_an_agent_is_a_pod_of_its_own_kind() -> None:
    definition = Agent.get(SampleAgent)
    assert Pod.get(SampleAgent) is definition
    assert (definition.type_, definition.target, definition.name) == (
        SampleAgent,
        SampleAgent,
        "sample_agent",
    )
    assert definition.dependencies["bank"].type_ is Bank
    assert Agent.exists(SampleAgent)
    assert Agent.get_or_none(Bank) is None
    with pytest.raises(PodDefinitionError, match="not decorated with @Agent"):
        Agent.get(Bank)


def test_the_class_stays_what_it_was() -> None:
    assert SampleAgent(Bank()).execute("Ada") == "Ada"
    assert SampleAgent(Bank()).balance("DE-1") == 4


def test_the_docstring_instructs_unless_the_spec_does() -> None:
    assert Agent.get(SampleAgent).instructions == "Help with payments.\n\nAlways be polite."

    @Agent(spec=AgentExecutionSpec(instructions="Be brief.", name="brief"))
    class Brief:
        def execute(self) -> str:
            return ""

    assert Agent.get(Brief).instructions == "Be brief."
    assert Agent.get(Brief).agent_id == "brief"
    assert Agent.get(SampleAgent).agent_id == "SampleAgent"


def test_its_own_tools_are_discovered() -> None:
    (tool,) = Agent.get(SampleAgent).tool_catalog.descriptors
    assert tool.schema.name == "balance"


def test_pod_options_are_agent_options() -> None:
    @Agent(name="clerk", scope=Scope.PROTOTYPE)
    class Clerk:
        async def execute(self) -> int:
            return 1

    definition = Agent.get(Clerk)
    assert (definition.name, definition.scope) == ("clerk", Scope.PROTOTYPE)
    assert definition.execution is not None
    assert definition.execution.shape is ExecuteShape.COROUTINE


def test_a_constructor_that_cannot_be_injected_is_a_definition_error_with_its_cause() -> None:
    with pytest.raises(AgentDefinitionError) as caught:

        @Agent
        class Wrong:
            def __init__(self, *banks: Bank) -> None: ...

            def execute(self) -> str:
                return ""

    assert isinstance(caught.value.__cause__, PodDefinitionError)


@pytest.mark.parametrize(
    ("spec", "durable"),
    [
        (AgentExecutionSpec(), False),
        (AgentExecutionSpec(accepted_signals=[AgentSignalKind.USER_MESSAGE]), True),
    ],
)
def test_durable_agents_need_the_repositories_and_the_journal(
    spec: AgentExecutionSpec, durable: bool
) -> None:
    @Agent(spec=spec)
    class Refunds:
        def execute(self) -> str:
            return ""

    repositories = (IAgentStateRepository, IAgentSignalRepository, IAgentEvidenceRepository)
    definition = Agent.get(Refunds)
    assert definition.required_persistence_repository_types() == (repositories if durable else ())
    assert definition.required_persistence_types() == ((*repositories, IAgentJournal) if durable else ())


def test_validation_reads_the_entry_point_as_it_is_now() -> None:
    @Agent
    class Changing:
        def execute(self) -> str:
            return ""

    definition = Agent.get(Changing)
    definition.validate_bootstrap()
    Changing.execute = property(lambda self: "")  # type: ignore[method-assign, assignment]
    with pytest.raises(AgentDefinitionError, match="Changing.execute is a property"):
        definition.validate_bootstrap()


@Agent
class Declarative:
    """Answer questions."""


class Echo(IAgentRunner, IAgentRunnerFactory):
    """A runner that answers with its instruction."""

    @asynccontextmanager
    async def _open(self) -> AsyncIterator[IAgentRunner]:
        yield self

    def open_runner(
        self, instance: object, run_input: RunAgentInput | None = None
    ) -> AbstractAsyncContextManager[IAgentRunner]:
        return self._open()

    async def run(self, run_input: RunAgentInput) -> AsyncIterator[AgentYield[object]]:
        yield Final(run_input.instruction)

    def run_events(self, run_input: RunAgentInput) -> AsyncIterator[AgentEvent]:
        raise NotImplementedError


async def test_an_agent_without_execute_is_driven_by_a_runner() -> None:
    assert Agent.get(Declarative).is_declarative
    agent = Declarative()
    run_input = RunAgentInput("r1", "hello")
    with pytest.raises(AgentModelConfigurationError, match="Declarative has no execute"):
        [item async for item in agent.execute(run_input)]  # type: ignore[attr-defined]
    attach_runner(agent, Echo)
    assert [item async for item in agent.execute(run_input)] == [Final("hello")]  # type: ignore[attr-defined]

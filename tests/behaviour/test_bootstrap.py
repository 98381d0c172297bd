"""Agents are validated at start-up, together with everything else and before anything is made."""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager

import pytest

from pilotage import (
    Agent,
    AgentExecutionSpec,
    AgentState,
    AgentStatus,
    AgentYield,
    Application,
    Final,
    IAgentModel,
    ModelRequest,
    ModelResponse,
    ModelStreamEvent,
    Pod,
    RecoveryStrategy,
    RunAgentInput,
    ToolEffects,
    agent_tool,
)
from pilotage.agent import (
    AgentBootstrapValidationPostProcessor,
    AgentEvent,
    AgentEvidence,
    AgentSignal,
    CommitOutcome,
    IAgentEvidenceRepository,
    IAgentJournal,
    IAgentRunner,
    IAgentRunnerFactory,
    IAgentSignalRepository,
    IAgentStateRepository,
    JournalCommit,
    JournalHead,
    JournalRow,
    RunKey,
)
from pilotage.errors import (
    AgentBootstrapError,
    AgentDefinitionError,
    AgentModelConfigurationError,
    AgentPersistenceConfigurationError,
    ApplicationStartError,
)

DURABLE = AgentExecutionSpec(recovery=RecoveryStrategy.ACTION_BOUNDARY)


class States(IAgentStateRepository):
    async def get(self, state_id: str) -> AgentState:
        return AgentState(state_id, "A", AgentStatus.ACTIVE)

    async def get_or_none(self, state_id: str) -> AgentState | None:
        return None

    async def save(self, state: AgentState) -> AgentState:
        return state

    async def list_by_status(self, status: AgentStatus) -> Sequence[AgentState]:
        return []

    async def list_resume_candidates(self) -> Sequence[AgentState]:
        return []


class Signals(IAgentSignalRepository):
    async def append(self, signal: AgentSignal) -> AgentSignal:
        return signal

    async def list_pending(self, state_id: str) -> Sequence[AgentSignal]:
        return []

    async def mark_consumed(self, signal_id: str) -> AgentSignal:
        raise KeyError(signal_id)


class Evidences(IAgentEvidenceRepository):
    async def append(self, evidence: AgentEvidence) -> AgentEvidence:
        return evidence

    async def get(self, evidence_id: str) -> AgentEvidence:
        raise KeyError(evidence_id)

    async def list_by_state(self, state_id: str) -> Sequence[AgentEvidence]:
        return []

    async def list_by_manifest_ref(self, manifest_ref: str) -> Sequence[AgentEvidence]:
        return []


class Journal(IAgentJournal):
    async def commit(self, commits: Sequence[JournalCommit]) -> Sequence[CommitOutcome]:
        return []

    async def read(self, run: RunKey, after: int = 0) -> AsyncIterator[JournalRow]:
        for row in ():
            yield row

    async def head(self, run: RunKey) -> JournalHead | None:
        return None


class Parrot(IAgentModel):
    async def complete(self, request: ModelRequest) -> ModelResponse:
        return ModelResponse(request.messages[-1].text)

    async def stream(self, request: ModelRequest) -> AsyncIterator[ModelStreamEvent]:
        for event in ():
            yield event


class Echo(IAgentRunner, IAgentRunnerFactory):
    @asynccontextmanager
    async def _open(self) -> AsyncIterator[IAgentRunner]:
        yield self

    def open_runner(
        self, instance: object, run_input: RunAgentInput | None = None
    ) -> AbstractAsyncContextManager[IAgentRunner]:
        return self._open()

    async def run(self, run_input: RunAgentInput) -> AsyncIterator[AgentYield[object]]:
        yield Final(run_input.instruction)

    async def run_events(self, run_input: RunAgentInput) -> AsyncIterator[AgentEvent]:
        for event in ():
            yield event


@Agent(spec=DURABLE)
class Refunds:
    def execute(self, order: str) -> str:
        return order


@Agent
class Answers:
    """Answer questions."""


@Agent
class Asks:
    def __init__(self, model: IAgentModel) -> None:
        self.model = model

    async def execute(self, question: str) -> str:
        return question


@Pod
class Docs:
    @agent_tool(effects=ToolEffects.read_only())
    def search(self, question: str) -> list[str]:
        """Search."""
        return [question]


@Pod
class Web:
    @agent_tool(effects=ToolEffects.read_only())
    def search(self, question: str) -> list[str]:
        """Search elsewhere."""
        return [question]


@Pod
class Broken:
    @agent_tool()
    def send(self, options: dict) -> str:  # type: ignore[type-arg]
        """Send."""
        return ""


@Agent
class Confused:
    def __init__(self, docs: Docs, web: Web) -> None: ...

    def execute(self) -> str:
        return ""


@Agent
class Sender:
    def __init__(self, broken: Broken) -> None: ...

    def execute(self) -> str:
        return ""


@Agent
class OtherSender:
    def __init__(self, broken: Broken) -> None: ...

    def execute(self) -> str:
        return ""


async def problems(*pods: object) -> tuple[type, list[str]]:
    with pytest.raises(ApplicationStartError) as caught:
        await Application("shop").add(*pods).start()
    return type(caught.value), [problem.summary for problem in caught.value.problems]


async def test_a_durable_agent_without_persistence_does_not_start() -> None:
    assert await problems(Refunds) == (
        AgentPersistenceConfigurationError,
        [
            "Refunds is durable (recovery=ACTION_BOUNDARY) and nothing provides IAgentStateRepository, "
            "IAgentSignalRepository, IAgentEvidenceRepository, IAgentJournal."
        ],
    )
    assert await problems(Refunds, States, Signals, Journal) == (
        AgentPersistenceConfigurationError,
        ["Refunds is durable (recovery=ACTION_BOUNDARY) and nothing provides IAgentEvidenceRepository."],
    )


async def test_a_durable_agent_with_persistence_starts() -> None:
    async with Application("shop").add(Refunds, States, Signals, Evidences, Journal) as app:
        assert app.get(Refunds).execute("A-17") == "A-17"


async def test_an_agent_without_a_model_does_not_start_and_names_the_extra() -> None:
    with pytest.raises(AgentModelConfigurationError, match=r'pip install "pilotage\[openai\]"'):
        await Application("shop").add(Asks).start()
    assert await problems(Answers) == (
        AgentModelConfigurationError,
        [
            "Answers has no execute(), so a model drives it, and nothing provides IAgentModel.",
            "Answers has no execute(), and nothing provides IAgentRunnerFactory, which would drive it.",
        ],
    )


async def test_a_declarative_agent_gets_the_runner_of_its_application() -> None:
    async with Application("shop").add(Answers, Parrot, Echo) as app:
        stream = app.get(Answers).execute(RunAgentInput("r1", "hello"))  # type: ignore[attr-defined]
        assert [item async for item in stream] == [Final("hello")]


async def test_tools_of_injected_pods_are_checked_and_each_fault_is_told_once() -> None:
    assert await problems(Sender, OtherSender, Broken) == (
        AgentBootstrapError,
        [
            "Broken.send: parameter 'options' is untyped (dict). "
            "Write dict[str, str], a TypedDict, a dataclass or a pydantic model."
        ],
    )


async def test_two_tools_of_one_agent_may_not_share_a_name() -> None:
    family, (summary,) = await problems(Confused, Docs, Web)
    assert family is AgentBootstrapError
    assert "Docs.search" in summary
    assert "Web.search" in summary
    assert "'search'" in summary


async def test_two_agents_may_not_share_a_name() -> None:
    @Agent(spec=AgentExecutionSpec(name="Asks"))
    class Impostor:
        def execute(self) -> str:
            return ""

    assert await problems(Asks, Impostor, Parrot) == (
        AgentBootstrapError,
        ["Asks and Impostor are all called 'Asks'."],
    )


async def test_everything_wrong_is_reported_at_once() -> None:
    family, summaries = await problems(Refunds, Asks, Sender, Broken, Answers)
    assert family is AgentBootstrapError
    assert len(summaries) == 5


def test_what_is_no_agent_passes_untouched() -> None:
    processor, docs = AgentBootstrapValidationPostProcessor(), Docs()
    assert processor.post_process(docs) is docs


def test_a_processor_without_a_container_knows_of_no_persistence() -> None:
    with pytest.raises(AgentPersistenceConfigurationError) as caught:
        AgentBootstrapValidationPostProcessor().post_process(Refunds())
    for part in (
        "Refunds",
        "IAgentStateRepository, IAgentSignalRepository, IAgentEvidenceRepository, IAgentJournal",
        "pilotage[sqlalchemy]",
        "pilotage.contributions.agent",
    ):
        assert part in str(caught.value)


def test_a_class_that_stopped_being_an_agent_is_refused_with_the_cause() -> None:
    @Agent
    class Changing:
        def execute(self) -> str:
            return ""

    instance = Changing()
    Changing.execute = staticmethod(lambda: "")  # type: ignore[method-assign, assignment]
    with pytest.raises(AgentBootstrapError) as caught:
        AgentBootstrapValidationPostProcessor().post_process(instance)
    assert isinstance(caught.value.__cause__, AgentDefinitionError)


async def test_the_plugin_registers_the_validation_once() -> None:
    app = Application("shop").load_plugins(include=["agent"]).add(Docs)
    async with app:
        assert len(app.get_all(AgentBootstrapValidationPostProcessor)) == 1

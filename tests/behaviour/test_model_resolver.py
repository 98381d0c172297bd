"""An application chooses the model of each run; the choice is recorded, and holds for the run and its children."""

from __future__ import annotations

from collections.abc import Callable
from decimal import Decimal

import pytest
from tests.behaviour.bureau import Bureau, resumed, started

from pilotage import (
    Agent,
    AgentExecutionLimits,
    AgentExecutionSpec,
    AgentStatus,
    Application,
    Idempotency,
    Principal,
    RecoveryStrategy,
    RunAgentInput,
    ToolEffects,
    agent_tool,
    get_run_context,
)
from pilotage.agent import (
    AgentDelegateTarget,
    AgentTeammate,
    DelegationPacket,
    IAgentDelegate,
    IAgentJournal,
    IAgentModelResolver,
    IAgentPricing,
    ModelCapability,
    ModelCost,
    ModelSelection,
    ModelUsage,
    RunKey,
    ToolApprovalRequirement,
)
from pilotage.errors import AgentModelConfigurationError, CallerError, ModelNotFoundError
from pilotage.runtime import AgentRunner, AgentRuns
from pilotage.runtime.journal.start_record import decode_start
from pilotage.runtime.plugin import initialize
from pilotage.testing import MemoryStore, ScriptedModel, StopAfter, calls, crash_matrix, says

DURABLE = RecoveryStrategy.ACTION_BOUNDARY


@Agent(spec=AgentExecutionSpec(name="host", recovery=DURABLE))
class Host:
    """Welcome guests."""

    @agent_tool(
        effects=ToolEffects.write_state(),
        idempotency=Idempotency.IDEMPOTENT,
        approval=ToolApprovalRequirement.NOT_REQUIRED,
    )
    async def ring(self) -> str:
        """Ring the bell."""
        return "rang"


@Agent(spec=AgentExecutionSpec(name="cook"))
class Cook:
    """Cook."""


@Agent(
    spec=AgentExecutionSpec(
        name="manager",
        teammates=[AgentTeammate("cook", pod=Cook)],
        delegation_allowed=True,
        recovery=DURABLE,
    )
)
class Manager:
    """Let others cook."""


class Small(ScriptedModel):
    """A model with a pod name of its own."""


class Large(ScriptedModel):
    """Another one."""


def answers(kind: type[ScriptedModel], *, tools: bool = True) -> ScriptedModel:
    name = kind.__name__.lower()
    script = [calls("ring"), says(f"{name} says tea.")] if tools else [says(f"{name} says tea.")]
    return kind(script, capability=ModelCapability(name, tools=tools), by_transcript=True)


Choose = Callable[[str, RunAgentInput, Principal], ModelSelection | None]


class Choosing(IAgentModelResolver):
    """Chooses as a function says, and counts how often it was asked."""

    def __init__(self, choose: Choose) -> None:
        self.choose = choose
        self.asked: list[tuple[str, RunAgentInput, Principal]] = []

    async def resolve(
        self, agent: str, run_input: RunAgentInput, principal: Principal
    ) -> ModelSelection | None:
        self.asked.append((agent, run_input, principal))
        return self.choose(agent, run_input, principal)


def always(name: str | None) -> Choosing:
    return Choosing(lambda *_: ModelSelection(name) if name else None)


def asks(model: str | None = None, **more: object) -> RunAgentInput:
    selection = ModelSelection(model) if model else None
    return RunAgentInput("visit", "What will she have?", model_selection=selection, **more)  # type: ignore[arg-type]


def by_tenant(agent: str, run_input: RunAgentInput, principal: Principal) -> ModelSelection | None:
    return ModelSelection("large" if principal.tenant == "rich" else "small")


async def test_the_tenant_the_metadata_or_the_selection_decides() -> None:
    words = {"cheap": "small", "good": "large"}

    def choose(agent: str, run_input: RunAgentInput, principal: Principal) -> ModelSelection | None:
        if run_input.model_selection is not None:
            return ModelSelection(words[run_input.model_selection.model_ref])
        return ModelSelection(str(run_input.metadata["model"])) if run_input.metadata else None

    async with Bureau().process(
        Host, None, answers(Large), Choosing(by_tenant), model=answers(Small)
    ) as runs:
        for tenant, name in (("rich", "large"), ("poor", "small")):
            run = await runs.start(Host, "What will she have?", principal=Principal("ada", tenant))
            assert (await run.result()).output == f"{name} says tea."
    async with Bureau().process(Host, None, answers(Large), Choosing(choose), model=answers(Small)) as runs:
        assert (await started(runs, Host, asks("good"))).output == "large says tea."
        run = await runs.start(Host, "What will she have?", metadata={"model": "small"})
        assert (await run.result()).output == "small says tea."


async def test_it_is_asked_with_the_input_as_it_was_given() -> None:
    resolver = always("large")
    async with Bureau().process(Host, None, answers(Large), resolver, model=answers(Small)) as runs:
        run = await runs.start(Host, "What will she have?", metadata={"desk": 7}, conversation_id="chat")
        await run.result()
    ((agent, run_input, principal),) = resolver.asked
    assert (agent, principal.tenant, run_input.state_id) == ("host", "default", run.id)
    assert (run_input.instruction, run_input.conversation_id) == ("What will she have?", "chat")
    assert run_input.metadata == {"desk": 7}


async def test_without_a_choice_the_callers_selection_counts_and_then_what_is_declared() -> None:
    async with Bureau().process(Host, None, answers(Large), always(None), model=answers(Small)) as runs:
        assert (await started(runs, Host, asks("large"))).output == "large says tea."
    async with Bureau().process(Host, None, always(None), model=answers(Small)) as runs:
        assert (await started(runs, Host)).output == "small says tea."


async def test_a_choice_that_the_application_does_not_have_is_refused_before_anything_is_written() -> None:
    async with Bureau().process(Host, None, always("huge"), model=answers(Small)) as runs:
        with pytest.raises(ModelNotFoundError, match="has no model 'huge'. It has .*'small'"):
            await runs.start(Host, asks("small"))
        assert not (await runs.list()).runs


async def test_a_choice_that_cannot_do_what_the_agent_needs_is_refused() -> None:
    mute = answers(Large, tools=False)
    async with Bureau().process(Host, None, mute, always("large"), model=answers(Small)) as runs:
        with pytest.raises(CallerError, match="'large', which cannot call tools"):
            await runs.start(Host, asks())
        assert not (await runs.list()).runs


async def test_the_application_refuses_a_selection_in_its_own_words() -> None:
    def refuse(agent: str, run_input: RunAgentInput, principal: Principal) -> ModelSelection | None:
        raise CallerError("your plan has no such model")

    async with Bureau().process(Host, None, Choosing(refuse), model=answers(Small)) as runs:
        with pytest.raises(CallerError, match="your plan has no such model"):
            await runs.start(Host, asks("large"))
        assert not (await runs.list()).runs


@pytest.mark.parametrize("answer", ["large", 5])
async def test_a_resolver_without_an_answer_starts_nothing(answer: object) -> None:
    resolver = Choosing(lambda *_: answer)  # type: ignore[arg-type, return-value]
    async with Bureau().process(Host, None, resolver, model=answers(Small)) as runs:
        with pytest.raises(AgentModelConfigurationError, match="Choosing gave no answer"):
            await runs.start(Host, asks())
        assert not (await runs.list()).runs


class Changing(IAgentModelResolver):
    """Chooses another model each time."""

    def __init__(self) -> None:
        self.count = 0

    async def resolve(
        self, agent: str, run_input: RunAgentInput, principal: Principal
    ) -> ModelSelection | None:
        self.count += 1
        return ModelSelection("large" if self.count == 1 else "small")


async def test_starting_a_run_again_attaches_to_it_whatever_the_resolver_would_say_now() -> None:
    resolver = Changing()
    async with Bureau().process(Host, None, answers(Large), resolver, model=answers(Small)) as runs:
        first = await runs.start(Host, asks(), id="mine")
        again = await runs.start(Host, asks(), id="mine")
        assert (again.id, (await again.result()).output) == (first.id, "large says tea.")
    assert resolver.count == 1


async def test_a_run_that_comes_back_has_its_model_or_none() -> None:
    bureau, resolver = Bureau(), Changing()
    async with bureau.process(
        Host, None, answers(Large), resolver, model=answers(Small), fault=StopAfter(3)
    ) as runs:
        handle = await runs.start(Host, asks())
        with pytest.raises(BaseException):  # noqa: B017, PT011 - the process dies
            await handle.result()
    bureau.clock.advance(3600)
    before = await bureau.rows(handle.id)
    async with bureau.process(Host, None, resolver, model=answers(Small)) as runs:
        with pytest.raises(ModelNotFoundError, match="'large'"):
            await runs.resume(handle.id)
        assert await bureau.rows(handle.id) == before
    async with bureau.process(Host, None, answers(Large), resolver, model=answers(Small)) as runs:
        assert (await resumed(runs, handle.id)).output == "large says tea."
    assert resolver.count == 1


async def test_the_choice_survives_a_crash_at_every_commit() -> None:
    """A resolver that was asked again would choose another model, and the run would say so."""
    report = await crash_matrix(
        Host, "What will she have?", add=[Changing(), answers(Small), answers(Large)], second_stops=(1,)
    )
    assert report.points > 10
    assert report.reference.output == "large says tea."
    report.assert_no_repeated_effects()


def house(resolver: IAgentModelResolver, agent: type[object], *models: ScriptedModel) -> Application:
    app = Application("house").add(Cook, agent, *models, resolver, *MemoryStore().ports)
    initialize(app)
    return app


async def test_children_use_the_model_of_their_parent_and_nothing_is_asked_for_them() -> None:
    resolver = always("large")
    script = [calls("ask_cook", task="soup"), says("cooked by large"), says("served by large")]
    large = Large(script, capability=ModelCapability("large"))
    app = house(resolver, Manager, answers(Small), large)
    async with app:
        runs = app.get(AgentRuns)
        result = await (await runs.start(Manager, "soup")).result()
        assert (result.status, result.output) == (AgentStatus.COMPLETED, "served by large")
        (child,) = [state for state in (await runs.list()).runs if state.agent_type == "cook"]
        rows = [row async for row in app.get(IAgentJournal).read(RunKey("default", child.id))]
        assert decode_start(rows[0]).chosen_model == "large"
    assert [agent for agent, *_ in resolver.asked] == ["manager"]


@Agent(spec=AgentExecutionSpec(name="planner", recovery=DURABLE, delegation_allowed=True))
class Planner:
    """Written by hand: no model drives it, but one drives its child."""

    def __init__(self, delegate: IAgentDelegate) -> None:
        self.delegate = delegate

    async def execute(self, wish: str) -> str:
        run_id = get_run_context().run_id or ""
        packet = DelegationPacket("soup", run_id, AgentDelegateTarget("cook"), {"wish": wish})
        return str((await self.delegate.delegate_tool_result(packet)).summary)


async def test_a_child_whose_parent_has_no_model_of_its_own_is_asked_for() -> None:
    resolver = always("large")
    app = house(resolver, Planner, answers(Small, tools=False), answers(Large, tools=False))
    async with app:
        result = await (await app.get(AgentRuns).start(Planner, "soup")).result()
    assert result.output == "large says tea."
    ((agent, run_input, _),) = resolver.asked
    assert (agent, "soup" in run_input.instruction) == ("cook", True)


async def test_a_child_that_may_not_have_a_model_is_an_error_of_its_parents_call() -> None:
    def refuse(agent: str, run_input: RunAgentInput, principal: Principal) -> ModelSelection | None:
        raise CallerError("your plan has no cook")

    app = house(Choosing(refuse), Planner, answers(Small, tools=False))
    async with app:
        result = await (await app.get(AgentRuns).start(Planner, "soup")).result()
    assert result.status == AgentStatus.FAILED
    assert "your plan has no cook" in str(result.error)


class OnePrice(IAgentPricing):
    """Knows what the small model costs."""

    def cost_of(self, model: str, usage: ModelUsage) -> ModelCost | None:
        return ModelCost(Decimal("0.01"), "EUR", "1") if model == "small" else None


@Agent(
    spec=AgentExecutionSpec(
        name="thrifty", recovery=DURABLE, limits=AgentExecutionLimits(max_cost=Decimal(1))
    )
)
class Thrifty:
    """Cost little."""


async def test_the_prices_are_those_of_the_chosen_model() -> None:
    large, small = answers(Large, tools=False), answers(Small, tools=False)
    async with Bureau().process(Thrifty, None, large, OnePrice(), always("small"), model=small) as runs:
        result = await started(runs, Thrifty)
        assert (result.status, result.spent.cost) == (AgentStatus.COMPLETED, Decimal("0.01"))
    async with Bureau().process(Thrifty, None, large, OnePrice(), always("large"), model=small) as runs:
        result = await started(runs, Thrifty)
        assert "'large'" in str(result.error or result.interruption_reason)


@Agent(spec=AgentExecutionSpec(name="guest"))
class Guest:
    """Answer, and forget."""


async def test_ephemeral_runs_have_their_model_chosen_too() -> None:
    large, small = answers(Large, tools=False), answers(Small, tools=False)
    async with Bureau().process(Guest, None, large, always("large"), model=small) as runs:
        runner = AgentRunner.for_agent_instance(runs.services.app.get(Guest))
        items = [item async for item in runner.run(asks())]
        assert "large says tea." in repr(items[-1])
        own = [item async for item in runner.with_model(small.fresh()).run(asks())]
        assert "small says tea." in repr(own[-1])

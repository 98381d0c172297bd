"""`AgentRunner`, `run` and `run_sync`: an agent and the way to its runs."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator, Mapping
from contextlib import AbstractContextManager, aclosing, asynccontextmanager, nullcontext
from dataclasses import dataclass
from decimal import Decimal
from typing import ClassVar

import pytest
from tests.behaviour.office import Desk, World
from tests.media.pictures import png

from pilotage import (
    Agent,
    AgentExecutionLimits,
    AgentExecutionSpec,
    AgentStatus,
    AgentYield,
    Application,
    Approval,
    ApprovalDecision,
    Error,
    Final,
    IAgentModel,
    MessageDeltaEvent,
    ModelMessage,
    ModelRequest,
    ModelResponse,
    ModelStreamEvent,
    ModelStreamEventKind,
    Pod,
    Principal,
    RecoveryStrategy,
    RunAgentInput,
    Token,
    Tool,
    ToolEffects,
    agent_tool,
    get_run_context,
    run,
    run_sync,
)
from pilotage.agent import ModelMessageRole, ModelUsage, RunFinishedEvent, RunStartedEvent
from pilotage.agent.messages import MediaPart, TextPart
from pilotage.agent.ports.budget import IAgentPricing, ModelCost
from pilotage.agent.ports.observability import IAgentTelemetry, TelemetryValue
from pilotage.agent.ports.runner import IAgentRunnerFactory
from pilotage.errors import (
    AgentDefinitionError,
    AgentModelConfigurationError,
    ApplicationStartError,
    CallerError,
    RunConflictError,
    RunNotFoundError,
)
from pilotage.runtime import AgentRuns
from pilotage.runtime.plugin import initialize
from pilotage.runtime.runner import AgentRunner
from pilotage.testing import MemoryStore, ScriptedModel, calls, says, turn

DURABLE = RecoveryStrategy.ACTION_BOUNDARY


@dataclass(frozen=True)
class Report:
    title: str
    total: Decimal


class Helper:
    """What all of them can do."""

    def __init__(self, desk: Desk) -> None:
        self.desk = desk


@Agent
class Greeter(Helper):
    """Greet people."""


@Agent(spec=AgentExecutionSpec(recovery=DURABLE))
class Keeper(Helper):
    """Keep what people say."""


@Agent(spec=AgentExecutionSpec(recovery=DURABLE, output_type=Report))
class Reporter:
    """Write reports."""


@Agent(spec=AgentExecutionSpec(limits=AgentExecutionLimits(max_cost=Decimal("0.10"))))
class Frugal:
    """Cost little."""


@Agent
class Echo:
    """Has an execute() of its own."""

    async def execute(self, text: str, loud: bool = False) -> AsyncGenerator[AgentYield[str], None]:
        yield Final(text.upper() if loud else text)


class Endless(IAgentModel):
    """Never stops talking; knows when it was silenced."""

    def __init__(self) -> None:
        self.talks = asyncio.Event()
        self.silenced = asyncio.Event()

    async def complete(self, request: ModelRequest) -> ModelResponse:
        raise AssertionError("nobody asks for the whole reply")

    async def stream(self, request: ModelRequest) -> AsyncIterator[ModelStreamEvent]:
        self.talks.set()
        try:
            while True:
                await asyncio.sleep(0)
                yield ModelStreamEvent(ModelStreamEventKind.TOKEN_DELTA, "on ")
        finally:
            self.silenced.set()


class Prices(IAgentPricing):
    """Every token costs the same."""

    def __init__(self, per_token: Decimal = Decimal(0)) -> None:
        self._per_token = per_token

    def cost_of(self, model: str, usage: ModelUsage) -> ModelCost | None:
        return ModelCost(self._per_token * (usage.total_tokens or 0), "EUR", "1")


@Pod
class Big(ScriptedModel):
    def __init__(self) -> None:
        super().__init__([])


@Pod
class Small(ScriptedModel):
    def __init__(self) -> None:
        super().__init__([])


@Agent
class Torn:
    """Which one?"""

    def __init__(self, big: Big, small: Small) -> None:
        self.big, self.small = big, small


class Place:
    """A store and a world that outlive every process."""

    def __init__(self) -> None:
        self.store = MemoryStore()
        self.world = World()

    @asynccontextmanager
    async def process(self, model: IAgentModel, *more: object) -> AsyncGenerator[Application, None]:
        app = Application("office").add(Greeter, Keeper, Reporter, Frugal, Echo, Desk, self.world, model)
        app.add(Prices(), *self.store.ports, *more)
        initialize(app)
        async with app:
            yield app


def asks(text: str = "hello", state_id: str = "mine", **more: object) -> RunAgentInput:
    return RunAgentInput(state_id, text, **more)


def other_tasks() -> set[asyncio.Task[object]]:
    return {task for task in asyncio.all_tasks() if task is not asyncio.current_task()}


async def test_a_run_is_a_stream_of_yields_that_ends_with_the_answer() -> None:
    model = ScriptedModel([turn(says("Looking."), calls("look", what="it")), says("Good day.")])
    async with Place().process(model) as app:
        runner = AgentRunner.for_agent_instance(app.get(Greeter))
        items = [item async for item in runner.run(asks())]
    words = "".join(item.text for item in items if isinstance(item, Token))
    assert words == "Looking.Good day."
    (tool,) = [item for item in items if isinstance(item, Tool)]
    assert (tool.name, tool.call_id, tool.arguments, tool.result) == ("look", "call-1", {"what": "it"}, "1")
    last = items[-1]
    assert isinstance(last, Final)
    assert last.output == "Good day."
    assert (last.metadata["model_steps"], last.metadata["tool_calls"]) == (2, 1)


async def test_the_same_run_as_events_names_the_run_as_the_caller_does() -> None:
    async with Place().process(ScriptedModel([says("Good day.")])) as app:
        runner = AgentRunner.for_agent_instance(app.get(Greeter))
        events = [event async for event in runner.run_events(asks(conversation_id="talk"))]
    assert isinstance(events[0], RunStartedEvent)
    assert isinstance(events[-1], RunFinishedEvent)
    assert {(e.attribution.run_id, e.attribution.conversation_id) for e in events} == {("mine", "talk")}


async def test_leaving_the_stream_of_a_run_that_is_not_durable_ends_it_and_leaves_no_task() -> None:
    model = Endless()
    async with Place().process(model) as app:
        before = other_tasks()
        runner = AgentRunner.for_agent_instance(app.get(Greeter))
        async with aclosing(runner.run(asks())) as items:
            async for _ in items:
                break
        assert model.silenced.is_set()
        async with aclosing(runner.run_events(asks())) as events:
            async for event in events:
                if isinstance(event, MessageDeltaEvent):
                    break
        assert other_tasks() == before


async def test_a_reader_that_is_cancelled_ends_its_run() -> None:
    model = Endless()
    async with Place().process(model) as app:
        before = other_tasks()
        runner = AgentRunner.for_agent_instance(app.get(Greeter))
        started = asyncio.Event()

        async def read() -> None:
            async with aclosing(runner.run(asks())) as items:
                async for _ in items:
                    started.set()

        reader = asyncio.create_task(read())
        await started.wait()
        reader.cancel()
        with pytest.raises(asyncio.CancelledError):
            await reader
        assert model.silenced.is_set()
        assert other_tasks() == before


async def test_a_slow_reader_slows_a_run_that_is_not_durable() -> None:
    model = Endless()
    async with Place().process(model) as app:
        runner = AgentRunner.for_agent_instance(app.get(Greeter))
        async with aclosing(runner.run(asks())) as items:
            seen = 0
            async for _ in items:
                seen += 1
                if seen == 5000:
                    break
    assert model.silenced.is_set()


async def test_leaving_the_stream_of_a_durable_run_leaves_the_run() -> None:
    model = ScriptedModel([turn(says("Looking."), calls("look", what="it")), says("Kept.")])
    async with Place().process(model) as app:
        runner, runs = AgentRunner.for_agent_instance(app.get(Keeper)), app.get(AgentRuns)
        async with aclosing(runner.run_events(asks())) as events:
            async for event in events:
                run_id = event.attribution.run_id
                break
        told = [event async for event in runs.events(run_id)]
        result = await runs.result(run_id)
    assert isinstance(told[-1], RunFinishedEvent)
    assert (result.status, result.output) == (AgentStatus.COMPLETED, "Kept.")


async def test_the_same_name_attaches_to_the_run_and_another_question_is_a_conflict() -> None:
    model = ScriptedModel([says("Once.")])
    async with Place().process(model) as app:
        runner = AgentRunner.for_agent_instance(app.get(Keeper))
        first = [item async for item in runner.run(asks())]
        again = [item async for item in runner.run(asks())]
        with pytest.raises(RunConflictError, match="'mine'"):
            _ = [item async for item in runner.run(asks("something else"))]
    assert len(model.requests) == 1
    assert first[-1] == again[-1]
    assert "".join(i.text for i in first if isinstance(i, Token)) == "Once."
    assert "".join(i.text for i in again if isinstance(i, Token)) == "Once."


async def test_a_durable_run_echoes_the_name_its_caller_gave_it() -> None:
    async with Place().process(ScriptedModel([says("Kept.")])) as app:
        runner = AgentRunner.for_agent_instance(app.get(Keeper))
        events = [event async for event in runner.run_events(asks(metadata={"from": "a test"}))]
    assert events[0].attribution.run_id != "mine"
    assert events[0].metadata["alias"] == "mine"


async def test_tools_of_a_named_run_see_what_its_caller_said_about_it() -> None:
    seen: list[object] = []

    @Agent(spec=AgentExecutionSpec(recovery=DURABLE))
    class Curious:
        """Look around."""

        @agent_tool(effects=ToolEffects.read_only())
        async def around(self) -> str:
            """Look around."""
            seen.append(dict(get_run_context().metadata))
            return "ok"

    async with Place().process(ScriptedModel([calls("around"), says("Done.")]), Curious) as app:
        runner = AgentRunner.for_agent_instance(app.get(Curious))
        _ = [item async for item in runner.run(asks(metadata={"from": "a test"}))]
    assert seen == [{"from": "a test", "alias": "mine"}]


async def test_a_paused_run_is_resumed_by_the_name_its_caller_gave_it() -> None:
    place = Place()
    model = ScriptedModel([turn(says("Asking."), calls("refund", amount="5")), says("Refunded.")])
    async with place.process(model) as app:
        runner = AgentRunner.for_agent_instance(app.get(Keeper))
        items = [item async for item in runner.run(asks("refund"))]
        approval = items[-1]
        assert isinstance(approval, Approval)
        assert ApprovalDecision.APPROVE in approval.allowed_decisions
        await app.get(AgentRuns).approve(approval.id)
    async with place.process(model.restarted()) as app:
        runner = AgentRunner.for_agent_instance(app.get(Keeper))
        later = [item async for item in runner.run(asks("go on", resume=True))]
        ended = [item async for item in runner.run(asks("go on", resume=True))]
    assert "".join(item.text for item in later if isinstance(item, Token)) == "Refunded."
    assert [type(item) for item in later if not isinstance(item, Token)] == [Tool, Final]
    assert ended[-1] == later[-1]
    assert place.world.done == ["refund 5"]


async def test_callers_and_workers_that_resume_a_run_at_once_share_one_attempt() -> None:
    place = Place()
    model = ScriptedModel([calls("refund", amount="5"), says("Refunded.")])
    async with place.process(model) as app:
        runner, runs = AgentRunner.for_agent_instance(app.get(Keeper)), app.get(AgentRuns)
        approval = [item async for item in runner.run(asks("refund"))][-1]
        assert isinstance(approval, Approval)
        state = (await runs.list()).runs[0]
        await runs.approve(approval.id, resume=False)

        async def resumed() -> AgentYield[object]:
            return [item async for item in runner.run(asks("go on", resume=True))][-1]

        async def taken_up() -> object:
            return (await (await runs.take_up(state.id)).result()).output

        first, output, second = await asyncio.gather(resumed(), taken_up(), resumed())
    assert isinstance(first, Final)
    assert isinstance(second, Final)
    assert (first.output, output, second.output) == ("Refunded.", "Refunded.", "Refunded.")
    assert (len(model.requests), place.world.done) == (2, ["refund 5"])


async def test_a_run_that_is_live_is_attached_to_by_resuming_it() -> None:
    model = ScriptedModel([calls("look", what="it"), says("Kept.")])
    async with Place().process(model) as app:
        runner = AgentRunner.for_agent_instance(app.get(Keeper))
        async with aclosing(runner.run(asks())) as items:
            async for _ in items:
                break
            attached = [item async for item in runner.run(asks("go on", resume=True))]
    assert isinstance(attached[-1], Final)
    assert attached[-1].output == "Kept."
    assert len(model.requests) == 2


async def test_a_run_resumed_after_its_end_gives_its_answer_in_its_type() -> None:
    place = Place()
    model = ScriptedModel([says(output=Report("Q3", Decimal("1.50")))])
    async with place.process(model) as app:
        runner = AgentRunner.for_agent_instance(app.get(Reporter))
        first = [item async for item in runner.run(asks())]
    async with place.process(model.restarted()) as app:
        runner = AgentRunner.for_agent_instance(app.get(Reporter))
        again = [item async for item in runner.run(asks(resume=True))]
    for last in (first[-1], again[-1]):
        assert isinstance(last, Final)
        assert last.output == Report("Q3", Decimal("1.50"))


async def test_what_cannot_be_resumed_is_said_in_words() -> None:
    async with Place().process(ScriptedModel([says("Kept.")])) as app:
        kept, plain = (AgentRunner.for_agent_instance(app.get(each)) for each in (Keeper, Greeter))
        with pytest.raises(RunNotFoundError):
            _ = [item async for item in kept.run(asks(resume=True))]
        with pytest.raises(CallerError, match="'Greeter' is not durable"):
            _ = [item async for item in plain.run(asks(resume=True))]
        _ = [item async for item in kept.run(asks())]
        reports = AgentRunner.for_agent_instance(app.get(Reporter))
        with pytest.raises(RunConflictError, match="one of agent 'Keeper', not of 'Reporter'"):
            _ = [item async for item in reports.run(asks(resume=True))]


async def test_another_tenant_cannot_resume_a_run() -> None:
    async with Place().process(ScriptedModel([says("Kept.")])) as app:
        runner = AgentRunner.for_agent_instance(app.get(Keeper)).for_principal(
            Principal("ada", tenant="acme")
        )
        events = [event async for event in runner.run_events(asks())]
        run_id = events[0].attribution.run_id
        other = runner.for_principal(Principal("eve", tenant="evil"))
        for name in ("mine", run_id):
            with pytest.raises(RunNotFoundError):
                _ = [item async for item in other.run(asks(state_id=name, resume=True))]


async def test_messages_before_the_question_reach_the_model_in_order() -> None:
    model = ScriptedModel([says("Again.")])
    before = [ModelMessage.user("Who are you?"), ModelMessage.assistant("A greeter.")]
    async with Place().process(model) as app:
        runner = AgentRunner.for_agent_instance(app.get(Keeper))
        _ = [item async for item in runner.run(asks("And now?", message_history=before))]
    assert list(model.requests[0].messages[1:]) == [*before, ModelMessage.user("And now?")]


async def test_attachments_are_part_of_the_question() -> None:
    picture = MediaPart.of(png(), "image/png", name="cat.png")
    model = ScriptedModel([says("A cat.")])
    place = Place()
    async with place.process(model) as app:
        runner = AgentRunner.for_agent_instance(app.get(Keeper))
        _ = [
            item
            async for item in runner.run(asks("What is this?", attachments=[picture], conversation_id="c"))
        ]
    question = model.requests[0].messages[-1]
    assert question == ModelMessage.user((TextPart("What is this?"), picture))
    assert [m.role for m in model.requests[0].messages].count(ModelMessageRole.USER) == 1
    turns = await place.store.conversations.load_history("c")
    assert [turn.content for turn in turns] == ["What is this?", "A cat."]


async def test_an_instruction_fills_the_one_text_that_an_agent_needs() -> None:
    async with Place().process(ScriptedModel([])) as app:
        runner = AgentRunner.for_agent_instance(app.get(Echo))
        (item,) = [item async for item in runner.run(asks("hello"))]
    assert isinstance(item, Final)
    assert item.output == "hello"


async def test_another_model_drives_the_loop_of_one_runner_alone() -> None:
    own, other = ScriptedModel([says("own")]), ScriptedModel([says("other")])
    async with Place().process(own) as app:
        runner = AgentRunner.for_agent_instance(app.get(Greeter))
        answers = [[i async for i in each.run(asks())][-1] for each in (runner.with_model(other), runner)]
    assert [each.output for each in answers if isinstance(each, Final)] == ["other", "own"]


async def test_another_model_drives_the_loop_of_a_durable_agent_too() -> None:
    own, other = ScriptedModel([]), ScriptedModel([calls("look", what="it"), says("other")])
    async with Place().process(own) as app:
        runner = AgentRunner.for_agent_instance(app.get(Keeper)).with_model(other)
        last = [item async for item in runner.run(asks())][-1]
    assert isinstance(last, Final)
    assert last.output == "other"


async def test_another_model_drives_the_loop_of_a_run_that_is_resumed() -> None:
    place, own = Place(), ScriptedModel([calls("refund", amount="5")])
    async with place.process(own) as app:
        runner = AgentRunner.for_agent_instance(app.get(Keeper))
        approval = [item async for item in runner.run(asks())][-1]
        assert isinstance(approval, Approval)
        await app.get(AgentRuns).approve(approval.id)
        other = runner.with_model(ScriptedModel([says("other")]))
        last = [item async for item in other.run(asks(resume=True))][-1]
    assert isinstance(last, Final)
    assert last.output == "other"


async def test_an_agent_with_its_own_execute_cannot_be_given_another_model() -> None:
    async with Place().process(ScriptedModel([])) as app:
        runner = AgentRunner.for_agent_instance(app.get(Echo))
        with pytest.raises(AgentModelConfigurationError, match="Echo has an execute\\(\\) of its own"):
            runner.with_model(ScriptedModel([]))


async def test_prices_of_a_runner_count_against_the_limits_of_the_agent() -> None:
    model = ScriptedModel([says("Cheap."), calls("look", what="it"), says("Dear.")])
    async with Place().process(model) as app:
        runner = AgentRunner.for_agent_instance(app.get(Frugal))
        cheap = [item async for item in runner.run(asks())][-1]
        dear = [item async for item in runner.with_pricing(Prices(Decimal(1))).run(asks())][-1]
    assert isinstance(cheap, Final)
    assert isinstance(dear, Error)
    assert dear.code == "agent_max_cost_exceeded"


class Traces(IAgentTelemetry):
    """The names of the spans that were begun."""

    def __init__(self) -> None:
        self.names: list[str] = []

    def trace(
        self, name: str, attributes: Mapping[str, TelemetryValue] | None = None
    ) -> AbstractContextManager[object]:
        self.names.append(name)
        return nullcontext()

    def emit_metric(
        self, name: str, value: float, attributes: Mapping[str, TelemetryValue] | None = None
    ) -> None: ...


async def test_telemetry_of_a_runner_hears_of_its_runs_alone() -> None:
    traces = Traces()
    async with Place().process(ScriptedModel([says("One."), says("Two.")])) as app:
        runner = AgentRunner.for_agent_instance(app.get(Greeter))
        [item async for item in runner.run(asks())]
        assert traces.names == []
        [item async for item in runner.with_telemetry(traces).run(asks())]
    assert "agent.run" in traces.names


async def test_an_agent_made_by_hand_has_no_runner() -> None:
    with pytest.raises(AgentModelConfigurationError, match="Greeter was not made by a started application"):
        AgentRunner.for_agent_instance(Greeter(Desk(World())))


async def test_a_declarative_agent_made_by_hand_cannot_be_executed() -> None:
    with pytest.raises(AgentModelConfigurationError, match="Greeter"):
        _ = [item async for item in Greeter(Desk(World())).execute(asks())]


async def test_an_agent_that_holds_two_models_is_refused_at_the_start() -> None:
    with pytest.raises(AgentModelConfigurationError, match="Torn has no execute.* holds several: big, small"):
        await run(Torn, "hello")


async def test_the_factory_opens_the_runner_of_an_instance() -> None:
    async with Place().process(ScriptedModel([says("Good day.")])) as app:
        greeter = app.get(Greeter)
        async with app.get(IAgentRunnerFactory).open_runner(greeter, asks()) as runner:
            items = [item async for item in runner.run(asks())]
    assert isinstance(items[-1], Final)


async def test_run_gives_the_result_of_one_run() -> None:
    model = ScriptedModel([calls("look", what="it"), says("Seen.")])
    result = await run(Greeter, "look", model=model, add=[Desk, World()])
    assert (result.status, result.output, result.turns) == (AgentStatus.COMPLETED, "Seen.", 2)
    model.assert_complete()


async def test_run_adds_the_pods_that_an_agent_asks_for_by_their_class() -> None:
    result = await run(Greeter, "look", model=ScriptedModel([says("Seen.")]), add=[World()])
    assert result.output == "Seen."


async def test_run_says_what_is_missing() -> None:
    with pytest.raises(ApplicationStartError, match="Greeter -> Desk -> World: nothing provides World"):
        await run(Greeter, "look", model=ScriptedModel([]))
    with pytest.raises(ApplicationStartError, match="Keeper is durable .* nothing provides"):
        await run(Keeper, "look", add=[World()], model=ScriptedModel([]))


async def test_run_of_a_class_that_is_no_agent_says_so() -> None:
    with pytest.raises(Exception, match=r"World is not decorated with @Agent\. Write @Agent above it"):
        await run(World, "look")


async def test_a_run_that_fails_is_a_result() -> None:
    result = await run(Greeter, "refund", model=ScriptedModel([calls("refund", amount="5")]), add=[World()])
    assert result.status is AgentStatus.FAILED
    assert result.error is not None
    assert result.error["code"] == "agent_approval_unavailable"
    assert "recovery=RecoveryStrategy.ACTION_BOUNDARY" in str(result.error["message"])


async def test_a_cancelled_run_leaves_nothing_behind() -> None:
    model, before = Endless(), other_tasks()
    running = asyncio.create_task(run(Greeter, "talk", model=model, add=[World()]))
    await model.talks.wait()
    running.cancel()
    with pytest.raises(asyncio.CancelledError):
        await running
    assert model.silenced.is_set()
    assert other_tasks() == before


def test_run_sync_needs_no_event_loop() -> None:
    assert run_sync(Echo, "hello").output == "hello"
    assert run_sync(Echo, {"text": "hello", "loud": True}).output == "HELLO"


class Shown(str):
    """Text that counts how often somebody formats it."""

    __slots__ = ()
    count: ClassVar[int] = 0

    def __repr__(self) -> str:
        Shown.count += 1
        return super().__repr__()


@Agent
class Shows:
    async def execute(self, text: str) -> object:
        return Shown(text)


def test_run_sync_does_not_format_what_the_run_returned() -> None:
    assert isinstance(run_sync(Shows, "a long transcript").output, Shown)
    assert Shown.count == 0


async def test_run_sync_inside_an_event_loop_says_what_to_write() -> None:
    with pytest.raises(
        CallerError, match="run_sync\\(Echo\\) is called inside an event loop. Write: await run"
    ):
        run_sync(Echo, "hello")


async def test_a_wrong_input_is_refused() -> None:
    with pytest.raises(AgentDefinitionError, match="Echo: execute\\(\\) needs 'text'"):
        await run(Echo, {"loud": True})

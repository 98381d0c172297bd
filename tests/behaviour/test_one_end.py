"""Whatever a tool, a model, a hook or a telemetry backend throws: a run has one end, told once, and it is the last word."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Generator, Mapping
from contextlib import AbstractContextManager, contextmanager
from itertools import product

import pytest
from tests.behaviour.newsroom import DURABLE, Newsroom, follow
from tests.behaviour.office import UNGATED

from pilotage import (
    Agent,
    AgentExecutionSpec,
    AgentStatus,
    AgentYield,
    Final,
    IAgentModel,
    Idempotency,
    ModelRequest,
    ModelResponse,
    ModelStreamEvent,
    ModelStreamEventKind,
    Pod,
    RunAgentInput,
    RunContext,
    Token,
    ToolEffects,
    agent_tool,
)
from pilotage.agent import (
    AgentEvent,
    AgentState,
    HookVerdict,
    IAgentHooks,
    IAgentOutputGuard,
    IAgentTelemetry,
    ModelCapability,
    Proceed,
    RunFinishedEvent,
    RunPausedEvent,
    TelemetryValue,
)
from pilotage.errors import AgentOutputGuardError, ModelCallError, ToolError
from pilotage.jsonvalue import JsonValue
from pilotage.runtime import ModelRetrySettings
from pilotage.runtime.runner import AgentRunner
from pilotage.runtime.runs import AgentRuns
from pilotage.testing import ScriptedModel, calls, says

TROUBLES: dict[str, Callable[[], BaseException]] = {
    "an error": lambda: ValueError("broken"),
    "a failure": lambda: ToolError("refused"),
    "a model's failure": lambda: ModelCallError("away", retryable=True),
    "a guard's no": lambda: AgentOutputGuardError("not that"),
    "a time-out": lambda: TimeoutError("late"),
    "a stray cancellation": lambda: asyncio.CancelledError("of something else"),
    "an end of iteration": lambda: StopAsyncIteration("early"),
    "a deep recursion": lambda: RecursionError("deep"),
    "several": lambda: ExceptionGroup(
        "several", [ValueError("one"), ExceptionGroup("more", [OSError("two")])]
    ),
}
STRAY = "a stray cancellation"


class Thrower:
    """Throws what it holds, where it is told to."""

    def __init__(self, trouble: BaseException, place: str) -> None:
        self.trouble, self.place = trouble, place

    def throw(self, place: str) -> None:
        """Throw here, if here is the place."""
        if place == self.place:
            raise self.trouble


@Pod
class Tools:
    """Tools that throw."""

    def __init__(self, thrower: Thrower) -> None:
        self.thrower = thrower

    @agent_tool(effects=ToolEffects.read_only())
    async def read(self) -> str:
        """Look."""
        self.thrower.throw("read")
        return "read"

    @agent_tool(effects=ToolEffects.write_state(), idempotency=Idempotency.IDEMPOTENT, approval=UNGATED)
    async def write(self) -> str:
        """Write; again changes nothing."""
        self.thrower.throw("write")
        return "written"

    @agent_tool(effects=ToolEffects.external_side_effect(), approval=UNGATED)
    async def send(self) -> str:
        """Send; nobody knows whether it arrived."""
        self.thrower.throw("send")
        return "sent"


class Model(IAgentModel):
    """A scripted model that may throw in the middle of its stream."""

    def __init__(self, thrower: Thrower) -> None:
        self._thrower = thrower
        self._model = ScriptedModel([calls("read"), calls("write"), calls("send"), says("Done.")])

    @property
    def capability(self) -> ModelCapability:
        return ModelCapability("throwing")

    async def complete(self, request: ModelRequest) -> ModelResponse:
        raise NotImplementedError

    async def stream(self, request: ModelRequest) -> AsyncIterator[ModelStreamEvent]:
        yield ModelStreamEvent(ModelStreamEventKind.TOKEN_DELTA, token_delta="Well, ")
        self._thrower.throw("model")
        async for event in self._model.stream(request):
            yield event


class Hooks(IAgentHooks):
    """Hooks that throw."""

    def __init__(self, thrower: Thrower) -> None:
        self._thrower = thrower

    async def pre_run(self, context: RunContext, state: AgentState) -> HookVerdict:
        self._thrower.throw("pre_run")
        return Proceed()

    async def pre_model(self, context: RunContext, request: ModelRequest) -> HookVerdict:
        self._thrower.throw("pre_model")
        return Proceed()

    async def pre_tool(self, context: RunContext, call: object) -> HookVerdict:
        self._thrower.throw("pre_tool")
        return Proceed()

    async def post_run(self, context: RunContext, state: AgentState) -> None:
        self._thrower.throw("post_run")

    async def post_model(self, context: RunContext, response: ModelResponse) -> None:
        self._thrower.throw("post_model")

    async def post_tool(self, context: RunContext, call: object, result: JsonValue) -> None:
        self._thrower.throw("post_tool")


class Telemetry(IAgentTelemetry):
    """A backend that throws."""

    def __init__(self, thrower: Thrower) -> None:
        self._thrower = thrower

    def trace(
        self, name: str, attributes: Mapping[str, TelemetryValue] | None = None
    ) -> AbstractContextManager[object]:
        self._thrower.throw("trace")
        return self._span()

    def emit_metric(
        self, name: str, value: float, attributes: Mapping[str, TelemetryValue] | None = None
    ) -> None:
        self._thrower.throw("metric")

    @contextmanager
    def _span(self) -> Generator[None]:
        self._thrower.throw("span")
        yield
        self._thrower.throw("end of span")


class Guard(IAgentOutputGuard):
    """A guard that throws."""

    def __init__(self, thrower: Thrower) -> None:
        self._thrower = thrower

    async def check(self, context: RunContext, output: JsonValue) -> JsonValue:
        self._thrower.throw("guard")
        return output


class ByHand:
    """Its own program."""

    def __init__(self, model: IAgentModel, tools: Tools) -> None:
        self.model, self.tools = model, tools

    async def execute(self, order: str) -> AsyncGenerator[AgentYield[str], None]:
        yield Token("Well, ")
        self.tools.thrower.throw("program")
        yield Final(" ".join([await self.tools.read(), await self.tools.write(), await self.tools.send()]))


class ByLoop:
    """The default loop."""

    def __init__(self, model: IAgentModel, tools: Tools) -> None:
        self.model, self.tools = model, tools


AGENTS: list[type[object]] = [
    Agent(spec=AgentExecutionSpec(name=f"{way.__name__}-{kept}", recovery=recovery, instructions=words))(
        type(f"{way.__name__}{kept.title()}", (way,), {})
    )
    for way, words in [(ByHand, None), (ByLoop, "Try.")]
    for kept, recovery in [("kept", DURABLE), ("unkept", AgentExecutionSpec().recovery)]
]
EVERY_AGENT = pytest.mark.parametrize("agent", AGENTS, ids=lambda agent: agent.__name__)
PLACES = ["program", "read", "write", "send", "model", "pre_run", "pre_model", "pre_tool"]
WATCHERS = ["post_run", "post_model", "post_tool"]
SYNC_WATCHERS = ["trace", "span", "end of span", "metric"]


async def events_of(agent: type[object], thrower: Thrower) -> list[AgentEvent]:
    """What a run of the agent tells; a run that is kept ends in the state it tells."""
    room = Newsroom()
    # A clock that stands still never comes to another try.
    at_once = ModelRetrySettings(tries_in_process=0)
    pods = (agent, Tools, thrower, Hooks(thrower), Guard(thrower), Telemetry(thrower), at_once)
    async with room.process(Model(thrower), *pods) as runs:
        if agent.__name__.endswith("Unkept"):
            runner = AgentRunner.for_agent_instance(
                runs.services.instance_of(runs.services.definition_of(agent))
            )
            return [event async for event in runner.run_events(RunAgentInput("r", "go"))]
        return await kept_events(room, runs, agent)


async def kept_events(room: Newsroom, runs: AgentRuns, agent: type[object]) -> list[AgentEvent]:
    run = await runs.start(agent, "go")
    told = (await follow(run.events())).events
    state = (await run.result()).state
    assert told == await room.logged(run.id)
    assert state.status is (await runs.get(run.id)).status
    assert isinstance(told[-1], RunPausedEvent) == (state.status is AgentStatus.INTERRUPTED)
    assert isinstance(told[-1], RunFinishedEvent) == state.is_terminal
    return told


def assert_one_end(told: list[AgentEvent]) -> None:
    ends = [event for event in told if isinstance(event, RunFinishedEvent | RunPausedEvent)]
    assert ends == [told[-1]]


@EVERY_AGENT
@pytest.mark.parametrize(
    ("place", "trouble"),
    [*product(PLACES, TROUBLES), *(("guard", trouble) for trouble in TROUBLES if trouble != STRAY)],
)
async def test_trouble_anywhere_leads_to_one_end(agent: type[object], place: str, trouble: str) -> None:
    assert_one_end(await events_of(agent, Thrower(TROUBLES[trouble](), place)))


@EVERY_AGENT
@pytest.mark.parametrize(
    ("place", "trouble"), [*product(WATCHERS, ["an error", STRAY]), *product(SYNC_WATCHERS, ["an error"])]
)
async def test_who_only_watches_changes_nothing(agent: type[object], place: str, trouble: str) -> None:
    told = await events_of(agent, Thrower(TROUBLES[trouble](), place))
    assert_one_end(told)
    assert isinstance(told[-1], RunFinishedEvent)
    assert told[-1].error is None

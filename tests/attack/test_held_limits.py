"""Limits of tokens and cost under fan-out: at any width a run spends at most its cap, and one call's surprise."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import suppress
from dataclasses import replace
from decimal import Decimal
from pathlib import Path
from random import Random
from typing import Any

import pytest

from pilotage import (
    Agent,
    AgentExecutionLimits,
    AgentExecutionSpec,
    Application,
    IAgentModel,
    ModelMessage,
    ModelRequest,
    ModelResponse,
    ModelStreamEvent,
    ModelStreamEventKind,
    Pod,
    RecoveryStrategy,
    ToolEffects,
    agent_tool,
)
from pilotage.agent import ModelCapability, ModelCost, ModelFinishReason, ModelUsage
from pilotage.agent.messages import ModelToolCall
from pilotage.agent.model_request import SamplingOptions
from pilotage.agent.run_values import RunResult
from pilotage.architectures import Blackboard, Debate, PlanAndExecute, React, Supervisor, TreeOfThoughts
from pilotage.errors import ModelCallError
from pilotage.models import FallbackCondition, FallbackModel
from pilotage.runtime import RunAwareModel
from pilotage.runtime.journal.interruptions import RunInterruption
from pilotage.runtime.runs import AgentRuns
from pilotage.testing import FaultyJournal, MemoryStore, ProcessStopped, ScriptedModel, calls, says, turn
from tests.attack.fanning import CentPerToken, Server
from tests.behaviour.bureau import COMPLETED, Bureau, hired, resumed, started, triple
from tests.behaviour.office import Worker

pytestmark = pytest.mark.attack("limits")

DURABLE, EPHEMERAL = RecoveryStrategy.ACTION_BOUNDARY, RecoveryStrategy.NONE
WIDTHS = (1, 2, 7, 40)
CAP = 5_000


@pytest.fixture(autouse=True)
def _folder_of_its_own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The plugins put their database into the folder of the process."""
    monkeypatch.chdir(tmp_path)


REQUEST = ModelRequest([ModelMessage.user("Well?")])


def asking(tokens: int | None = None) -> ModelRequest:
    return ModelRequest([ModelMessage.user("Well?")], sampling=SamplingOptions(max_tokens=tokens))


async def survived(call: Awaitable[object]) -> object:
    """Swallow whatever a program can swallow."""
    try:
        return await call
    except Exception as error:  # noqa: BLE001 - the most stubborn program
        return repr(error)


async def by_gather(model: IAgentModel, request: ModelRequest, width: int) -> object:
    return len(await asyncio.gather(*(survived(model.complete(request)) for _ in range(width))))


async def by_task_group(model: IAgentModel, request: ModelRequest, width: int) -> object:
    async with asyncio.TaskGroup() as group:
        for _ in range(width):
            group.create_task(survived(model.complete(request)))
    return width


async def by_streams(model: IAgentModel, request: ModelRequest, width: int) -> object:
    async def read() -> None:
        async for _ in model.stream(request):
            await asyncio.sleep(0)

    await asyncio.gather(*(survived(read()) for _ in range(width)))
    return width


async def by_open_streams(model: IAgentModel, request: ModelRequest, width: int) -> object:
    """Open all streams in one task before the first of them is read to its end."""
    streams = [model.stream(request) for _ in range(width)]
    for stream in streams:
        await survived(anext(stream))
    return width


async def by_rounds(model: IAgentModel, request: ModelRequest, width: int) -> object:
    for _ in range(3):
        await by_gather(model, request, width)
    return width


WAYS: dict[str, Callable[[IAgentModel, ModelRequest, int], Awaitable[object]]] = {
    "gather": by_gather,
    "task group": by_task_group,
    "streams": by_streams,
    "open streams": by_open_streams,
    "rounds": by_rounds,
}


def program(way: str, request: ModelRequest, width: int) -> Callable[[Worker], Awaitable[object]]:
    async def ask(worker: Worker) -> object:
        return await WAYS[way](worker.model, request, width)

    return ask


@pytest.fixture
def widths(request: pytest.FixtureRequest, exhaustive: bool) -> tuple[int, ...]:
    """Every width, or by default the widest and a drawn one."""
    drawn = Random(request.node.nodeid).choice(WIDTHS[:-1])  # noqa: S311 - a repeatable draw
    return WIDTHS if exhaustive else (drawn, WIDTHS[-1])


def limits_of(kind: str) -> AgentExecutionLimits:
    if kind == "tokens":
        return AgentExecutionLimits(max_tokens=CAP)
    return AgentExecutionLimits(max_cost=Decimal(CAP) / 100)


@pytest.mark.parametrize("bound", [50, 400, None], ids=lambda bound: f"reply {bound}")
@pytest.mark.parametrize("limit", ["tokens", "money"])
@pytest.mark.parametrize("way", WAYS, ids=str)
async def test_no_fan_out_spends_more_than_its_cap(
    way: str, limit: str, bound: int | None, widths: tuple[int, ...]
) -> None:
    for width in widths:
        bureau, agent, server = Bureau(), hired(limits=limits_of(limit)), Server()
        ask = program(way, asking(bound), width)
        async with bureau.process(agent, ask, CentPerToken(), model=server) as runs:
            result = await started(runs, agent)
        assert server.spent <= CAP
        assert result.spent.tokens >= server.spent
        assert all(sent is not None for sent in server.bounds)
        if width * (bound or 1_000) < CAP / 4:
            assert (triple(result.state), server.calls) == (COMPLETED, width * (3 if way == "rounds" else 1))


@pytest.mark.parametrize("limit", ["tokens", "money"])
@pytest.mark.parametrize("way", WAYS, ids=str)
async def test_a_model_that_ignores_its_bound_surprises_once(
    way: str, limit: str, widths: tuple[int, ...]
) -> None:
    for width in widths:
        bureau, agent, server = Bureau(), hired(limits=limits_of(limit)), Server(3_000, obeys=False)
        ask = program(way, asking(50), width)
        async with bureau.process(agent, ask, CentPerToken(), model=server) as runs:
            await started(runs, agent)
        assert server.spent <= CAP + max(server.wrote)


@pytest.mark.parametrize("width", WIDTHS)
@pytest.mark.parametrize("factor", [1.5, 3.0, 20.0])
async def test_requests_that_take_more_than_their_estimate_surprise_once(factor: float, width: int) -> None:
    request = ModelRequest([ModelMessage.user("x" * 400)], sampling=SamplingOptions(max_tokens=20))
    bureau, agent, server = (
        Bureau(),
        hired(limits=AgentExecutionLimits(max_tokens=CAP)),
        Server(factor=factor),
    )
    async with bureau.process(agent, program("gather", request, width), model=server) as runs:
        await started(runs, agent)
    assert server.spent <= CAP + max(server.wrote)


async def test_calls_side_by_side_stay_side_by_side_where_there_is_room() -> None:
    """The limit costs a fan-out its first call alone, not its width."""
    bureau, agent, server = Bureau(), hired(limits=AgentExecutionLimits(max_tokens=10**6)), Server(turns=50)
    async with bureau.process(agent, program("gather", asking(None), 40), model=server) as runs:
        result = await started(runs, agent)
    assert (triple(result.state), server.calls, server.widest) == (COMPLETED, 40, 39)


async def test_a_call_waits_for_room_that_others_hold_and_is_not_refused() -> None:
    """The worst case of one call fills the cap; the replies are short, so all of them fit one after the other."""
    bureau, agent, server = Bureau(), hired(limits=AgentExecutionLimits(max_tokens=4_000)), Server(10)
    async with bureau.process(agent, program("gather", asking(None), 40), model=server) as runs:
        result = await started(runs, agent)
    assert (triple(result.state), server.calls, server.widest) == (COMPLETED, 40, 1)


@pytest.mark.parametrize(
    "capability", [ModelCapability("m", max_output_tokens=300), ModelCapability("m", 320)]
)
async def test_what_a_model_can_write_bounds_a_reply_without_a_bound(capability: ModelCapability) -> None:
    bureau, agent = Bureau(), hired(limits=AgentExecutionLimits(max_tokens=10**6))
    server = Server(capability=capability)
    async with bureau.process(agent, program("gather", asking(None), 2), model=server) as runs:
        await started(runs, agent)
    assert all(sent is not None and sent <= 320 for sent in server.bounds)


async def test_a_run_without_such_limits_sends_no_bound() -> None:
    bureau, agent, server = Bureau(), hired(limits=AgentExecutionLimits(max_steps=99)), Server()
    async with bureau.process(agent, program("gather", asking(None), 3), model=server) as runs:
        await started(runs, agent)
    assert server.bounds == [None] * 3


@pytest.mark.parametrize("width", WIDTHS)
async def test_an_ephemeral_run_keeps_its_cap(width: int) -> None:
    server = Server()

    @Agent(spec=AgentExecutionSpec(name="asker", limits=AgentExecutionLimits(max_tokens=CAP)))
    class Asker:
        def __init__(self, model: IAgentModel) -> None:
            self.model = model

        async def execute(self, words: str) -> object:
            return await by_gather(self.model, asking(None), width)

    async with Application("quick").add(Asker, server).load_plugins() as app:
        await (await app.get(AgentRuns).start(Asker, "go")).result()
    assert server.spent <= CAP


# Tools that ask models, and children


@Pod
class Oracle:
    def __init__(self, model: IAgentModel) -> None:
        self.model = model

    @agent_tool(effects=ToolEffects.read_only())
    async def consult(self, number: int) -> str:
        """Ask the model."""
        return (await self.model.complete(REQUEST)).content


@Agent(spec=AgentExecutionSpec(name="child", recovery=DURABLE))
class Child:
    def __init__(self, model: IAgentModel) -> None:
        self.model = model

    async def execute(self, number: int) -> object:
        return await by_gather(self.model, asking(None), 3)


@Agent(
    spec=AgentExecutionSpec(name="bounded", recovery=DURABLE, limits=AgentExecutionLimits(max_tokens=2_000))
)
class BoundedChild:
    """A child with a limit of its own."""

    def __init__(self, model: IAgentModel) -> None:
        self.model = model

    async def execute(self, number: int) -> object:
        return await by_gather(self.model, asking(None), 3)


@Agent(spec=AgentExecutionSpec(name="parent", recovery=DURABLE, limits=AgentExecutionLimits(max_tokens=CAP)))
class Parent:
    def __init__(self, child: Child, bounded: BoundedChild) -> None:
        self.child, self.bounded = child, bounded

    async def execute(self, words: str) -> int:
        kind, number = words.split()
        child = self.bounded if kind == "bounded" else self.child
        return len(await asyncio.gather(*(survived(child.execute(n)) for n in range(int(number)))))


async def run_of(agent: type[object], *pods: object, given: str = "go") -> RunResult:
    app = Application("fan").add(agent, *pods, *MemoryStore().ports).load_plugins()
    async with app:
        return await (await app.get(AgentRuns).start(agent, given)).result()


@pytest.mark.parametrize("children", [1, 4, 13])
@pytest.mark.parametrize("kind", ["free", "bounded"])
@pytest.mark.parametrize("obeys", [True, False], ids=["honest", "lying"])
async def test_children_keep_the_cap_of_their_parent(children: int, kind: str, obeys: bool) -> None:
    server = Server(obeys=obeys)
    result = await run_of(Parent, Child, BoundedChild, server, given=f"{kind} {children}")
    assert server.spent <= CAP + (0 if obeys else max(server.wrote))
    assert result.spent.tokens >= server.spent


@pytest.mark.parametrize("most", [None, 2])
@pytest.mark.parametrize("width", WIDTHS)
async def test_tools_of_one_reply_that_ask_models_keep_the_cap(width: int, most: int | None) -> None:
    limits = AgentExecutionLimits(max_tokens=CAP)

    @Agent(
        spec=AgentExecutionSpec(
            name="asker", recovery=DURABLE, limits=limits, architecture=React(max_parallel=most)
        )
    )
    class Asker:
        """Consult the oracle."""

        def __init__(self, oracle: Oracle) -> None:
            self.oracle = oracle

    server = Server(400 if most else 1_000)
    script = ScriptedModel([turn(*(calls("consult", number=n) for n in range(width))), says("done")])

    @Pod
    class Both(IAgentModel):
        """One model for the loop, another one for the tools."""

        @property
        def capability(self) -> ModelCapability:
            return ModelCapability("both")

        async def complete(self, request: ModelRequest) -> Any:
            return await (script if request.tool_calling else server).complete(request)

        def stream(self, request: ModelRequest) -> Any:
            return (script if request.tool_calling else server).stream(request)

    await run_of(Asker, Oracle, Both)
    assert server.spent <= CAP
    assert server.calls >= min(width, 3)
    assert server.widest <= (most or width)


class Thinking(Server):
    """Answers every decision of a loop in the way that makes it as wide as it can be."""

    def __init__(self, width: int, *, obeys: bool) -> None:
        super().__init__(300, name="thinking", obeys=obeys, texts=tuple(f"answer {n}" for n in range(97)))
        self.names = [f"e{n}" for n in range(width)]

    async def complete(self, request: ModelRequest) -> ModelResponse:
        response = await super().complete(request)
        spec = request.structured_output
        if spec is not None:
            found = self.decided(spec.output_type_name or "", response.content)
            return replace(response, content="", structured_output=found, output=spec.decode(found))
        tools = request.tool_calling.tools if request.tool_calling else ()
        if any(tool.name == "delegate" for tool in tools) and self.calls < 9:
            wanted = [
                ModelToolCall("delegate", {"worker": name, "instructions": "go"}, name) for name in self.names
            ]
            return replace(response, tool_calls=wanted, finish_reason=ModelFinishReason.TOOL_CALLS)
        return response

    def decided(self, kind: str, words: str) -> Any:
        match kind:
            case "Thoughts":
                return {"thoughts": [f"{words} {name}" for name in self.names]}
            case "Rating":
                return {"score": 0.5}
            case "NextTurn":
                return {"contributors": self.names, "done": False}
            case "Position":
                return {"answer": words, "reasoning": ""}
            case "Plan":
                return {"steps": [{"id": name, "task": "do it", "needs": []} for name in self.names]}
            case _:
                return {"status": "done", "result": words}


class Consulting(Thinking):
    """Calls a tool many times in one reply, then answers."""

    async def complete(self, request: ModelRequest) -> ModelResponse:
        response = await super().complete(request)
        if not request.tool_calling or any(message.tool_call_id for message in request.messages):
            return response
        wanted = [ModelToolCall("consult", {"number": n}, f"c{n}") for n in range(len(self.names))]
        return replace(response, tool_calls=wanted, finish_reason=ModelFinishReason.TOOL_CALLS)


@pytest.mark.parametrize(("most", "widest"), [(None, 9), (2, 2), (1, 1)])
async def test_the_tools_of_one_reply_are_as_wide_as_they_are_told(most: int | None, widest: int) -> None:
    limits = AgentExecutionLimits(max_tokens=10**6)

    @Agent(spec=AgentExecutionSpec(name="asker", limits=limits, architecture=React(max_parallel=most)))
    class Asker:
        """Consult the oracle."""

        def __init__(self, oracle: Oracle) -> None:
            self.oracle = oracle

    server = Consulting(9, obeys=True)
    await run_of(Asker, Oracle, server)
    assert (server.calls, server.widest) == (11, widest)


# Kills and cancels


class Mortal(FaultyJournal):
    """The journal of a process that can be killed at any moment."""

    def die(self) -> None:
        self._is_stopped = True


async def killed(
    bureau: Bureau, agent: type[Worker], ask: Any, server: Server, run_id: str
) -> tuple[str, bool]:
    """Let a process drive a run until the server stops answering, and kill it; return its id, and whether it ended."""
    journal = Mortal(bureau.store.journal)
    async with bureau.process(agent, ask, CentPerToken(), model=server, journal=journal) as runs:
        handle = await (runs.resume(run_id) if run_id else runs.start(agent, "A-17"))
        ended = asyncio.ensure_future(handle.result())
        await asyncio.wait((ended, server.stuck()), return_when=asyncio.FIRST_COMPLETED)
        is_over = ended.done()
        if not is_over:
            journal.die()
            server.die()
        with suppress(ProcessStopped, RunInterruption, Exception):
            await ended
    return handle.id, is_over


@pytest.mark.parametrize("kills", [1, 2, 4])
@pytest.mark.parametrize("lasts", [1, 2, 5, 9])
@pytest.mark.parametrize("limit", ["tokens", "money"])
async def test_a_killed_process_has_spent_what_its_calls_held(limit: str, lasts: int, kills: int) -> None:
    """What a dead process asked for is paid, and nobody knows how much: it counts as its worst case."""
    bureau, agent, server, run_id = Bureau(), hired(limits=limits_of(limit)), Server(400), ""
    ask = program("gather", asking(400), 20)
    for _ in range(kills):
        server.stops_after(lasts)
        run_id, is_over = await killed(bureau, agent, ask, server, run_id)
        bureau.clock.advance(3_600)
        if is_over:
            break
    server.stops_after(None)
    async with bureau.process(agent, ask, CentPerToken(), model=server) as runs:
        if not (await runs.get(run_id)).is_terminal:
            result = await resumed(runs, run_id)
            assert result.spent.tokens >= server.spent
        await runs.verify(run_id)
    assert server.spent <= CAP
    assert server.calls >= lasts


async def test_a_run_that_was_killed_counts_the_same_when_it_is_resumed_again() -> None:
    """A lost call is counted once, however often the run is taken up."""
    bureau, agent, server = Bureau(), hired(limits=AgentExecutionLimits(max_tokens=10**6)), Server(400)

    async def ask(worker: Worker) -> object:
        await by_gather(worker.model, asking(400), 3)
        await worker.desk.note("between")
        await by_gather(worker.model, asking(400), 3)
        return "done"

    run_id = ""
    for lasts in (2, 3, 5):
        server.stops_after(lasts)
        run_id, _ = await killed(bureau, agent, ask, server, run_id)
        bureau.clock.advance(3_600)
    server.stops_after(None)
    async with bureau.process(agent, ask, CentPerToken(), model=server) as runs:
        result = await resumed(runs, run_id)
        kept = await runs.result(run_id)
    assert triple(result.state) == COMPLETED, result.error
    assert result.spent.tokens == server.spent
    assert kept.spent == result.spent


@pytest.mark.parametrize("width", [2, 7, 40])
@pytest.mark.parametrize("after", [1, 3])
async def test_calls_that_a_program_cuts_short_have_spent_what_they_held(after: int, width: int) -> None:
    async def ask(worker: Worker) -> object:
        for _ in range(5):
            tasks = [
                asyncio.ensure_future(survived(worker.model.complete(asking(400)))) for _ in range(width)
            ]
            for _ in range(after):
                await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
            for task in tasks:
                task.cancel()
            await asyncio.wait(tasks)
        return "done"

    bureau, agent, server = Bureau(), hired(limits=AgentExecutionLimits(max_tokens=CAP)), Server(400)
    async with bureau.process(agent, ask, model=server) as runs:
        result = await started(runs, agent)
    assert server.spent <= CAP
    assert result.spent.tokens >= server.spent


@pytest.mark.parametrize("seconds", [0.0, 0.001, 0.005])
async def test_calls_that_time_out_have_spent_what_they_held(seconds: float) -> None:
    async def ask(worker: Worker) -> object:
        async def one() -> object:
            async with asyncio.timeout(seconds):
                return await worker.model.complete(asking(400))

        for _ in range(10):
            await asyncio.gather(*(survived(one()) for _ in range(10)))
        return "done"

    bureau, agent, server = Bureau(), hired(limits=AgentExecutionLimits(max_tokens=CAP)), Server(400)
    async with bureau.process(agent, ask, model=server) as runs:
        await started(runs, agent)
    assert server.spent <= CAP


async def test_a_cancelled_run_has_spent_at_most_its_cap() -> None:
    bureau, agent, server = Bureau(), hired(limits=AgentExecutionLimits(max_tokens=CAP)), Server(400)
    server.stops_after(6)
    async with bureau.process(agent, program("gather", asking(400), 40), model=server) as runs:
        handle = await runs.start(agent, "A-17")
        await server.stuck()
        await runs.cancel(handle.id)
        await handle.result()
    assert server.spent <= CAP


@pytest.mark.parametrize("failure", ["timeout", "broken_stream", "aborted"])
async def test_calls_that_fail_after_the_model_wrote_count_their_worst_case(failure: str) -> None:
    class Broken(Server):
        async def complete(self, request: ModelRequest) -> ModelResponse:
            await super().complete(request)
            raise ModelCallError("no reply", failure=failure)

    bureau, agent, server = Bureau(), hired(limits=AgentExecutionLimits(max_tokens=CAP)), Broken(400)
    async with bureau.process(agent, program("rounds", asking(400), 20), model=server) as runs:
        await started(runs, agent)
    assert server.spent <= CAP


@pytest.mark.parametrize("is_begun", [False, True], ids=["unread", "begun"])
async def test_tries_that_are_repeated_count_whether_in_one_attempt_or_in_many(is_begun: bool) -> None:
    class Breaking(Server):
        async def stream(self, request: ModelRequest) -> AsyncIterator[ModelStreamEvent]:
            response = await self.complete(request)
            if is_begun:
                text = "four" * 4 * (response.usage.output_tokens or 0)
                yield ModelStreamEvent(ModelStreamEventKind.TOKEN_DELTA, token_delta=text[: 4 * 400])
            raise ModelCallError("the line broke", retryable=True, failure="broken_stream")

    bureau, agent, server = Bureau(), hired(limits=AgentExecutionLimits(max_tokens=CAP)), Breaking(400)
    ask, run_id = program("gather", asking(400), 2), ""
    for _ in range(20):
        async with bureau.process(agent, ask, model=server) as runs:
            if run_id and (await runs.get(run_id)).is_terminal:
                break
            handle = await (runs.resume(run_id) if run_id else runs.start(agent, "A-17"))
            run_id, ended = handle.id, asyncio.ensure_future(handle.result())
            while not ended.done():
                bureau.clock.advance(600)
                await asyncio.sleep(0)
        bureau.clock.advance(3_600)
    async with bureau.process(agent, ask, model=server) as runs:
        assert (await runs.result(run_id)).interruption_reason == "agent_max_tokens_exceeded"
    assert server.spent <= CAP


async def test_a_model_that_cannot_be_reached_costs_nothing() -> None:
    class Away(Server):
        async def complete(self, request: ModelRequest) -> ModelResponse:
            raise ModelCallError("nobody there", failure="unreachable")

    bureau, agent = Bureau(), hired(limits=AgentExecutionLimits(max_tokens=CAP))
    async with bureau.process(agent, program("rounds", asking(400), 20), model=Away()) as runs:
        result = await started(runs, agent)
    assert (triple(result.state), result.spent.tokens) == (COMPLETED, 0)


# Fallbacks


class Refusing(Server):
    async def complete(self, request: ModelRequest) -> ModelResponse:
        return replace(await super().complete(request), finish_reason=ModelFinishReason.REFUSAL)


@pytest.mark.parametrize("width", WIDTHS)
@pytest.mark.parametrize("refusing", [1, 2])
async def test_a_chain_of_models_that_are_all_paid_keeps_the_cap(refusing: int, width: int) -> None:
    servers = [*(Refusing(400, name=f"refusing {n}") for n in range(refusing)), Server(400, name="answering")]
    model = FallbackModel(servers, on=[FallbackCondition.REFUSED])
    bureau, agent = Bureau(), hired(limits=AgentExecutionLimits(max_tokens=CAP))
    async with bureau.process(agent, program("gather", asking(400), width), model=model) as runs:
        result = await started(runs, agent)
    assert sum(server.spent for server in servers) <= CAP
    assert result.spent.tokens == sum(server.spent for server in servers)


async def test_a_dear_second_model_is_held_at_its_own_price() -> None:
    class Prices(CentPerToken):
        def cost_of(self, model: str, usage: ModelUsage) -> ModelCost | None:
            return ModelCost(Decimal(usage.total_tokens or 0) * (10 if model == "dear" else 1), "EUR", "1")

    class Away(Server):
        async def complete(self, request: ModelRequest) -> ModelResponse:
            raise ModelCallError("nobody there", retryable=True, failure="unreachable")

    dear = Server(400, name="dear")
    model = FallbackModel([Away(name="cheap"), dear])
    bureau, agent = Bureau(), hired(limits=AgentExecutionLimits(max_cost=Decimal(CAP)))
    async with bureau.process(agent, program("gather", asking(None), 20), Prices(), model=model) as runs:
        result = await started(runs, agent)
    assert dear.spent * 10 <= CAP
    assert result.spent.cost == dear.spent * 10


async def test_a_model_that_asks_another_model_of_the_run_does_not_wait_for_itself() -> None:
    class Outer(Server):
        def __init__(self, inner: IAgentModel) -> None:
            super().__init__(400, name="outer")
            self.inner = inner

        async def complete(self, request: ModelRequest) -> ModelResponse:
            await self.inner.complete(request)
            return await super().complete(request)

    inner = Server(100, name="inner")
    outer = Outer(RunAwareModel(inner))
    bureau, agent = Bureau(), hired(limits=AgentExecutionLimits(max_tokens=CAP))
    async with bureau.process(agent, program("rounds", asking(400), 1), model=outer) as runs:
        async with asyncio.timeout(120):
            await started(runs, agent)
    assert inner.spent + outer.spent <= CAP
    assert outer.calls == 3


async def test_a_stream_that_nobody_reads_does_not_block_the_others_for_ever() -> None:
    async def ask(worker: Worker) -> object:
        stream = worker.model.stream(asking(4_000))
        await anext(stream)
        other = asyncio.ensure_future(worker.model.complete(asking(4_000)))
        said = (await other).content
        await stream.aclose()
        return said

    class Slow(Server):
        async def stream(self, request: ModelRequest) -> AsyncIterator[ModelStreamEvent]:
            yield ModelStreamEvent(ModelStreamEventKind.TOKEN_DELTA, token_delta="o")
            async for event in super().stream(request):
                yield event

    bureau, agent, server = Bureau(), hired(limits=AgentExecutionLimits(max_tokens=CAP)), Slow(10)
    async with bureau.process(agent, ask, model=server) as runs:
        async with asyncio.timeout(120):
            result = await started(runs, agent)
    assert (triple(result.state), result.output) == (COMPLETED, "ok")


# Architectures with branches


def experts(width: int) -> dict[str, AgentExecutionSpec]:
    return {
        f"e{n}": AgentExecutionSpec(instructions=f"You are expert {n}.", objective="helps")
        for n in range(width)
    }


LOOPS: dict[str, Callable[[int, int | None], Any]] = {
    "debate": lambda width, most: Debate(experts(width), rounds=3, max_parallel=most),
    "blackboard": lambda width, most: Blackboard(experts(width), max_rounds=3, max_parallel=most),
    "tree of thoughts": lambda width, most: TreeOfThoughts(branch_factor=width, max_parallel=most),
    "supervisor": lambda width, most: Supervisor(experts(width), max_parallel=most),
    "plan and execute": lambda width, most: PlanAndExecute(max_steps=width, max_parallel=most),
}


def looped(loop: str, width: int, most: int | None, cap: int) -> type[object]:
    limits = AgentExecutionLimits(max_tokens=cap, max_steps=200)
    architecture = LOOPS[loop](width, most)

    @Agent(spec=AgentExecutionSpec(name="loop", recovery=DURABLE, limits=limits, architecture=architecture))
    class Loop:
        """Find out."""

    return Loop


@pytest.mark.parametrize("obeys", [True, False], ids=["honest", "lying"])
@pytest.mark.parametrize("width", [2, 13])
@pytest.mark.parametrize("loop", LOOPS, ids=str)
async def test_loops_with_branches_keep_the_cap(loop: str, width: int, obeys: bool) -> None:
    server = Thinking(width, obeys=obeys)
    result = await run_of(looped(loop, width, None, CAP), server)
    assert server.spent <= CAP + (0 if obeys else max(server.wrote))
    assert server.calls > 2, result.error


@pytest.mark.parametrize("loop", LOOPS, ids=str)
async def test_loops_with_branches_are_as_wide_as_they_are_told(loop: str) -> None:
    widest = []
    for most in (None, 2):
        server = Thinking(7, obeys=True)
        await run_of(looped(loop, 7, most, 10**6), server)
        widest.append(server.widest)
    assert widest[0] > 3
    assert widest[1] == 2

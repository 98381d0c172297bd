"""Runs as spans and metrics: what is in what, what is said of it, and that nothing of a payload leaves."""

from __future__ import annotations

import pytest
from opentelemetry import trace
from opentelemetry.sdk.metrics.export import HistogramDataPoint, NumberDataPoint
from opentelemetry.trace import SpanKind, StatusCode

from pilotage import (
    Agent,
    AgentExecutionSpec,
    Application,
    ApprovalDecision,
    Idempotency,
    Pod,
    RecoveryStrategy,
    ToolEffects,
    agent_tool,
)
from pilotage.adapters.opentelemetry import OpenTelemetryTelemetry
from pilotage.agent import AgentTeammate
from pilotage.errors import ToolError
from pilotage.runtime import AgentRuns
from pilotage.testing import (
    MemoryStore,
    ProcessStopped,
    ScriptedModel,
    StopAfter,
    calls,
    crash_matrix,
    fails,
    says,
)
from tests.adapters.opentelemetry.collecting import Collector
from tests.behaviour.bureau import COMPLETED, WAITING, Bureau, Metered, resumed, started, triple

DURABLE = RecoveryStrategy.ACTION_BOUNDARY
SECRET = "ada-lovelace-1815"


@Pod
class Till:
    @agent_tool(effects=ToolEffects.read_only())
    async def balance(self, owner: str) -> str:
        """What somebody has."""
        return f"{owner} has 30"

    @agent_tool(effects=ToolEffects.external_side_effect(), idempotency=Idempotency.IDEMPOTENT)
    async def refund(self, owner: str) -> str:
        """Give money back."""
        return f"refunded {owner}"

    @agent_tool(effects=ToolEffects.read_only())
    async def breaks(self, owner: str) -> str:
        """Always fails."""
        raise ToolError(f"no {owner}")


@Agent(spec=AgentExecutionSpec(name="clerk", recovery=DURABLE))
class Clerk:
    """Refund what people ask for."""

    def __init__(self, till: Till) -> None:
        self.till = till


@Agent(
    spec=AgentExecutionSpec(
        name="boss", recovery=DURABLE, delegation_allowed=True, teammates=[AgentTeammate("clerk", pod=Clerk)]
    )
)
class Boss:
    """Let others work."""


async def test_spans_of_a_run_are_inside_each_other_as_the_work_is() -> None:
    collector, bureau = Collector(), Bureau()
    model = ScriptedModel(
        [calls("ask_clerk", task="look"), calls("balance", owner=SECRET), says("30"), says("Done.")]
    )
    async with bureau.process(Boss, None, Clerk, Till, collector.telemetry, model=model) as runs:
        assert triple((await started(runs, Boss)).state) == COMPLETED
    name = next(span.name for span in collector.spans if span.name.startswith("chat"))
    assert collector.tree() == [
        f"invoke_agent boss > {name}",
        f"invoke_agent boss > invoke_agent clerk > invoke_agent clerk > {name}",
        "invoke_agent boss > invoke_agent clerk > invoke_agent clerk > execute_tool balance",
        f"invoke_agent boss > invoke_agent clerk > invoke_agent clerk > {name}",
        "invoke_agent boss > invoke_agent clerk > invoke_agent clerk",
        "invoke_agent boss > invoke_agent clerk",
        f"invoke_agent boss > {name}",
        "invoke_agent boss",
    ]
    assert len({span.context.trace_id for span in collector.spans if span.context}) == 1


async def test_a_run_is_part_of_the_trace_of_whoever_starts_it() -> None:
    collector, bureau = Collector(), Bureau()
    tracer = trace.get_tracer("caller", tracer_provider=collector.tracers)
    async with bureau.process(
        Clerk, None, Till, collector.telemetry, model=ScriptedModel([says("Hi.")])
    ) as runs:
        with tracer.start_as_current_span("request"):
            await started(runs, Clerk)
    assert "request > invoke_agent clerk" in collector.tree()


async def test_a_span_says_what_it_is_about() -> None:
    collector, bureau = Collector(), Bureau()
    model = ScriptedModel([calls("balance", owner=SECRET), says(SECRET)])
    async with bureau.process(Clerk, None, Till, collector.telemetry, model=model) as runs:
        result = await started(runs, Clerk, SECRET)
    run = collector.one("invoke_agent clerk")
    assert run.attributes == {
        "gen_ai.operation.name": "invoke_agent",
        "gen_ai.agent.name": "clerk",
        "gen_ai.agent.id": "clerk",
        "gen_ai.conversation.id": result.state.id,
        "pilotage.run.id": result.state.id,
        "pilotage.run.epoch": 1,
        "pilotage.run.status": "completed",
        "pilotage.tenant.id": "default",
    }
    tool = collector.one("execute_tool balance")
    assert tool.attributes == {
        "gen_ai.operation.name": "execute_tool",
        "gen_ai.tool.name": "balance",
        "gen_ai.tool.call.id": "run/tool:balance#1",
        "pilotage.action.id": "run/tool:balance#1",
    }
    chat = next(span for span in collector.spans if span.name.startswith("chat"))
    assert chat.kind is SpanKind.CLIENT
    assert (chat.attributes or {})["gen_ai.response.finish_reasons"] == ("tool_calls",)


async def test_nothing_of_a_payload_leaves() -> None:
    collector, bureau = Collector(), Bureau()
    model = ScriptedModel([calls("balance", owner=SECRET), calls("breaks", owner=SECRET), fails(SECRET)])
    async with bureau.process(Clerk, None, Till, collector.telemetry, model=model) as runs:
        result = await started(runs, Clerk, SECRET)
    assert result.error is not None
    assert any(span.status.status_code is StatusCode.ERROR for span in collector.spans)
    assert not any(SECRET in span.to_json() for span in collector.spans)


async def test_what_fails_is_marked_with_a_code_and_what_pauses_is_not() -> None:
    collector, bureau = Collector(), Bureau()
    model = ScriptedModel([calls("breaks", owner="ada"), calls("refund", owner="ada"), says("Done.")])
    async with bureau.process(Clerk, None, Till, collector.telemetry, model=model) as runs:
        assert triple((await started(runs, Clerk)).state) == WAITING
    failed = collector.one("execute_tool breaks")
    assert failed.status.status_code is StatusCode.ERROR
    assert (failed.attributes or {})["error.type"] == "tool_error"
    run = collector.one("invoke_agent clerk")
    assert run.status.status_code is StatusCode.UNSET
    assert (run.attributes or {})["pilotage.run.status"] == "interrupted"


async def test_a_run_that_fails_says_why_by_its_code() -> None:
    collector, bureau = Collector(), Bureau()
    model = ScriptedModel([fails("no answer")])
    async with bureau.process(Clerk, None, Till, collector.telemetry, model=model) as runs:
        result = await started(runs, Clerk)
    run = collector.one("invoke_agent clerk")
    assert result.error is not None
    assert (run.status.status_code, (run.attributes or {})["error.type"]) == (
        StatusCode.ERROR,
        result.error["code"],
    )


async def test_a_run_that_comes_back_goes_on_in_its_trace() -> None:
    bureau, model = Bureau(), ScriptedModel([calls("refund", owner="ada"), says("Done.")])
    before = Collector()
    async with bureau.process(Clerk, None, Till, before.telemetry, model=model) as runs:
        waiting = await started(runs, Clerk)
    after = Collector()
    async with bureau.process(Clerk, None, Till, after.telemetry, model=model.restarted()) as runs:
        (question,) = await runs.questions(waiting.state.id)
        await runs.answer(waiting.state.id, question.id, ApprovalDecision.APPROVE, resume=False)
        with trace.get_tracer("caller", tracer_provider=after.tracers).start_as_current_span(
            "answer"
        ) as caller:
            assert triple((await resumed(runs, waiting.state.id)).state) == COMPLETED
        assert await runs.verify(waiting.state.id) > 0
    first, second = before.one("invoke_agent clerk"), after.one("invoke_agent clerk")
    assert first.context is not None
    assert second.context is not None
    assert second.parent is not None
    assert second.context.trace_id == first.context.trace_id
    assert second.parent.span_id == first.context.span_id
    (link,) = second.links
    assert link.context.span_id == caller.get_span_context().span_id
    assert list(first.links) == []
    assert [span.name for span in after.spans].count("execute_tool refund") == 1


async def test_telemetry_may_come_and_go_between_attempts() -> None:
    bureau, model = Bureau(), ScriptedModel([calls("refund", owner="ada"), says("Done.")])
    async with bureau.process(Clerk, None, Till, Collector().telemetry, model=model) as runs:
        waiting = await started(runs, Clerk)
        (question,) = await runs.questions(waiting.state.id)
        await runs.approve(question.id)
    async with bureau.process(Clerk, None, Till, model=model.restarted()) as runs:
        assert triple((await resumed(runs, waiting.state.id)).state) == COMPLETED


async def test_metrics_count_tokens_runs_and_seconds() -> None:
    collector, bureau = Collector(), Bureau()
    async with bureau.process(Clerk, None, Till, collector.telemetry, model=Metered()) as runs:
        await started(runs, Clerk)
    (tokens,) = collector.points("pilotage.model.tokens")
    assert isinstance(tokens, NumberDataPoint)
    assert tokens.value == 10
    (ended,) = collector.points("pilotage.run.ended")
    assert ended.attributes == {"pilotage.run.status": "completed", "gen_ai.agent.name": "clerk"}
    usage = {
        (point.attributes or {})["gen_ai.token.type"]: point.sum
        for point in collector.points("gen_ai.client.token.usage")
        if isinstance(point, HistogramDataPoint)
    }
    assert usage == {"input": 6, "output": 4}
    seconds = [point.attributes for point in collector.points("gen_ai.client.operation.duration")]
    assert {(each or {})["gen_ai.operation.name"] for each in seconds} == {"chat", "invoke_agent"}


def test_any_other_measurement_is_a_distribution() -> None:
    collector = Collector()
    for value in (1, 2):
        collector.telemetry.emit_metric("shop.basket", value, {"agent": "clerk"})
    (point,) = collector.points("shop.basket")
    assert isinstance(point, HistogramDataPoint)
    assert (point.count, point.sum) == (2, 3)


def test_a_position_that_is_none_is_not_followed() -> None:
    collector = Collector()
    assert collector.telemetry.position() is None
    with collector.telemetry.trace("agent.run", {"agent": "clerk"}):
        collector.telemetry.link("nonsense")
        here = collector.telemetry.position()
    assert here is not None
    assert here.startswith("00-")
    assert list(collector.one("invoke_agent clerk").links) == []


def _breaks(*_: object, **__: object) -> None:
    raise ConnectionError("the backend is away")


@pytest.mark.parametrize("place", ["trace", "emit_metric", "record", "annotate", "position", "link"])
async def test_a_backend_that_throws_changes_nothing(place: str) -> None:
    class Broken(OpenTelemetryTelemetry):
        """The adapter, with one method that throws."""

    setattr(Broken, place, _breaks)
    bureau, model = Bureau(), ScriptedModel([calls("refund", owner="ada"), says("Done.")])
    async with bureau.process(Clerk, None, Till, Broken(Collector().tracers), model=model) as runs:
        waiting = await started(runs, Clerk)
        (question,) = await runs.questions(waiting.state.id)
        await runs.approve(question.id)
        assert triple((await resumed(runs, waiting.state.id)).state) == COMPLETED


@pytest.mark.slow
async def test_a_crash_changes_nothing_with_telemetry_either() -> None:
    class Traced(OpenTelemetryTelemetry):
        def __deepcopy__(self, memo: dict[int, object]) -> Traced:
            return self

    collector = Collector()
    model = ScriptedModel([calls("balance", owner="ada"), calls("refund", owner="ada"), says("Done.")])
    traced = Traced(collector.tracers, collector.meters)
    report = await crash_matrix(Clerk, "refund", model=model, add=[Till, traced])
    report.assert_same_result()
    report.assert_no_repeated_effects()
    again = [span for span in collector.spans if (span.attributes or {}).get("pilotage.run.epoch", 1) != 1]
    # An attempt that stopped before its first commit has recorded nothing of its trace.
    assert any(span.parent is not None for span in again)


async def test_a_tree_of_runs_that_is_killed_and_resumed_is_one_trace() -> None:
    bureau = Bureau()
    model = ScriptedModel(
        [calls("ask_clerk", task="look"), calls("refund", owner="ada"), says("Refunded."), says("Done.")]
    )
    killed, last = collectors = [Collector(), Collector()]
    async with bureau.process(
        Boss, None, Clerk, Till, killed.telemetry, model=model, fault=StopAfter(3)
    ) as runs:
        with pytest.raises(ProcessStopped):
            await started(runs, Boss)
    async with bureau.process(Boss, None, Clerk, Till, last.telemetry, model=model.restarted()) as runs:
        (boss,) = [each for each in (await runs.list()).runs if each.agent_type == "boss"]
        await resumed(runs, boss.id)
        for question in await runs.questions(boss.id):
            await runs.approve(question.id)
        assert triple((await (await runs.resume(boss.id)).result()).state) == COMPLETED
    spans = [span for each in collectors for span in each.spans]
    assert {span.name for span in spans} >= {"invoke_agent boss", "invoke_agent clerk", "execute_tool refund"}
    assert len({span.context.trace_id for span in spans if span.context}) == 1


async def test_without_an_sdk_nothing_happens_and_nothing_breaks() -> None:
    app = Application("shop").add(
        Clerk, Till, OpenTelemetryTelemetry(), ScriptedModel([says("Hi.")]), *MemoryStore().ports
    )
    async with app.load_plugins():
        result = await (await app.get(AgentRuns).start(Clerk, "hello")).result()
    assert result.output == "Hi."

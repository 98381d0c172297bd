"""What a span says of a model call: provider, counts, cost, the first chunk, content on request; and its trace."""

from __future__ import annotations

import json
from collections.abc import AsyncGenerator, Mapping
from contextlib import asynccontextmanager
from decimal import Decimal
from typing import Any

import httpx
import pytest
from opentelemetry import trace
from opentelemetry.sdk.trace import ReadableSpan
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse
from starlette.routing import Route

from pilotage import (
    Agent,
    Application,
    IAgentModel,
    ModelMessage,
    ModelRequest,
    ToolEffects,
    agent_tool,
)
from pilotage.adapters.model_http.http_server import HttpServer
from pilotage.adapters.model_http.provider import with_provider
from pilotage.adapters.openai import OpenAICompatibleModel, OpenAICompatibleSettings
from pilotage.adapters.opentelemetry import OpenTelemetryTelemetry, TraceContextMiddleware
from pilotage.agent import ModelCapability
from pilotage.ids import SystemClock
from pilotage.models import ModelPrice, PriceList
from pilotage.runtime import AgentRuns
from pilotage.testing import MemoryStore, ScriptedModel, calls, says
from tests.adapters.opentelemetry.collecting import Collector

PRICES = PriceList(
    {"tiny": ModelPrice(Decimal(1), Decimal(2), cached=Decimal("0.1"), reasoning=Decimal(3))},
    version="2026-11",
)
TRACE, CALLER = "0af7651916cd43dd8448eb211c80319c", "b7ad6b7169203331"
REPLY = {
    "model": "tiny",
    "choices": [{"index": 0, "message": {"role": "assistant", "content": "Hi."}, "finish_reason": "stop"}],
    "usage": {
        "prompt_tokens": 100,
        "completion_tokens": 20,
        "total_tokens": 120,
        "prompt_tokens_details": {"cached_tokens": 60},
        "completion_tokens_details": {"reasoning_tokens": 5},
    },
}


@Agent(durable=True)
class Clerk:
    """Look things up."""

    @agent_tool(effects=ToolEffects.read_only())
    async def look(self, owner: str) -> str:
        """What an owner has."""
        return f"{owner} has 30"


@Agent
class Asker:
    """Ask once."""

    def __init__(self, model: IAgentModel) -> None:
        self.model = model

    async def execute(self, question: str) -> str:
        return (await self.model.complete(ModelRequest([ModelMessage.user(question)]))).content


@asynccontextmanager
async def office(agent: type[object], *pods: object) -> AsyncGenerator[AgentRuns]:
    app = Application("office").add(agent, *pods, *MemoryStore().ports).load_plugins()
    async with app:
        yield app.get(AgentRuns)


def facts(span: ReadableSpan) -> Mapping[str, Any]:
    return span.attributes or {}


def served(heads: list[Mapping[str, str]], *, sends_trace: bool) -> OpenAICompatibleModel:
    """A model of a server that answers each request at once."""

    def answer(request: httpx.Request) -> httpx.Response:
        heads.append(dict(request.headers))
        return httpx.Response(200, json=REPLY)

    settings = OpenAICompatibleSettings(
        "https://api.deepseek.com", "tiny", checks_at_start=False, sends_trace=sends_trace
    )
    server = HttpServer(settings.access, SystemClock(), httpx.MockTransport(answer))
    return OpenAICompatibleModel(settings, server=server)


async def test_a_call_has_its_provider_counts_and_cost() -> None:
    collector = Collector()
    async with office(Asker, served([], sends_trace=False), PRICES, collector.telemetry) as runs:
        await (await runs.start(Asker, "Hello?")).result()
    found = facts(collector.one("chat tiny"))
    wanted = {
        "gen_ai.operation.name": "chat",
        "gen_ai.provider.name": "deepseek",
        "gen_ai.request.model": "tiny",
        "gen_ai.response.model": "tiny",
        "gen_ai.response.finish_reasons": ("stop",),
        "gen_ai.usage.input_tokens": 100,
        "gen_ai.usage.output_tokens": 20,
        "gen_ai.usage.cache_read.input_tokens": 60,
        "gen_ai.usage.reasoning.output_tokens": 5,
        "gen_ai.usage.cost": 0.000091,
        "pilotage.cost.currency": "USD",
        "pilotage.cost.pricing_version": "2026-11",
    }
    assert {name: found[name] for name in wanted} == wanted
    assert not any(name.endswith("messages") for name in found)
    scope = collector.one("chat tiny").instrumentation_scope
    assert scope is not None
    assert scope.schema_url == "https://opentelemetry.io/schemas/1.44.0"


async def test_the_time_to_the_first_chunk_is_a_fact_and_a_measurement() -> None:
    collector = Collector()
    async with office(Clerk, ScriptedModel([says("one two three")]), collector.telemetry) as runs:
        await (await runs.start(Clerk, "Count.")).result()
    found = facts(collector.one("chat scripted"))
    assert found["gen_ai.response.time_to_first_chunk"] >= 0
    assert len(collector.points("gen_ai.client.operation.time_to_first_chunk")) == 1
    assert "gen_ai.provider.name" not in found
    assert "gen_ai.usage.cost" not in found


async def test_content_is_sent_on_request_only() -> None:
    @Agent(durable=True, name="teller")
    class Quiet(Clerk):
        """Look things up."""

    for wants in (False, True):
        collector = Collector()
        telemetry = OpenTelemetryTelemetry(collector.tracers, collector.meters, content=wants)
        model = ScriptedModel([calls("look", owner="Ada"), says("Ada has 30.")])
        async with office(Quiet, model, telemetry) as runs:
            await (await runs.start(Quiet, "What has Ada?")).result()
        last = facts(collector.spans[-2])
        if not wants:
            assert not any("messages" in name or "instructions" in name for name in last)
            continue
        assert json.loads(last["gen_ai.input.messages"]) == [
            {"role": "user", "parts": [{"type": "text", "content": "What has Ada?"}]},
            {
                "role": "assistant",
                "parts": [
                    {"type": "tool_call", "id": "call-1", "name": "look", "arguments": {"owner": "Ada"}}
                ],
            },
            {
                "role": "tool",
                "parts": [{"type": "tool_call_response", "id": "call-1", "response": "Ada has 30"}],
            },
        ]
        assert json.loads(last["gen_ai.output.messages"]) == [
            {
                "role": "assistant",
                "parts": [{"type": "text", "content": "Ada has 30."}],
                "finish_reason": "stop",
            }
        ]
        assert "Look things up." in last["gen_ai.system_instructions"]


@pytest.mark.parametrize("sends_trace", [True, False])
async def test_a_model_server_joins_the_trace_only_where_the_settings_say_so(sends_trace: bool) -> None:
    collector, heads = Collector(), list[Mapping[str, str]]()
    async with office(Asker, served(heads, sends_trace=sends_trace), collector.telemetry) as runs:
        await (await runs.start(Asker, "Hello?")).result()
    context = collector.one("invoke_agent Asker").context
    assert context is not None
    (head,) = heads
    assert ("traceparent" in head) is sends_trace
    if sends_trace:
        assert head["traceparent"].split("-")[1] == f"{context.trace_id:032x}"


@pytest.mark.parametrize(
    ("header", "is_followed"),
    [(f"00-{TRACE}-{CALLER}-01", True), ("00-nonsense", False), (None, False)],
)
async def test_a_run_is_part_of_the_trace_of_an_http_request(header: str | None, is_followed: bool) -> None:
    collector = Collector()
    async with office(Clerk, ScriptedModel([says("Hi.")]), collector.telemetry) as runs:

        async def start(request: Request) -> JSONResponse:
            result = await (await runs.start(Clerk, "Hello?")).result()
            return JSONResponse(result.output)

        api = TraceContextMiddleware(Starlette(routes=[Route("/start", start)]))
        transport = httpx.ASGITransport(app=api)
        async with httpx.AsyncClient(transport=transport, base_url="http://t") as client:
            await client.get("/start", headers={} if header is None else {"traceparent": header})
    span = collector.one("invoke_agent Clerk")
    assert span.context is not None
    assert (f"{span.context.trace_id:032x}" == TRACE) is is_followed
    assert (span.parent is not None) is is_followed


async def test_a_span_of_an_instrumentation_counts_instead_of_the_header() -> None:
    collector, seen = Collector(), list[int]()

    async def app(scope: object, receive: object, send: object) -> None:
        seen.append(trace.get_current_span().get_span_context().trace_id)

    async def nothing(*_: object) -> Any: ...

    tracer = trace.get_tracer("instrumentation", tracer_provider=collector.tracers)
    scope = {"type": "http", "headers": [(b"traceparent", f"00-{TRACE}-{CALLER}-01".encode())]}
    with tracer.start_as_current_span("request") as span:
        await TraceContextMiddleware(app)(scope, nothing, nothing)
    await TraceContextMiddleware(app)(scope, nothing, nothing)
    await TraceContextMiddleware(app)({"type": "lifespan"}, nothing, nothing)
    assert seen == [span.get_span_context().trace_id, int(TRACE, 16), 0]


@pytest.mark.parametrize(
    ("url", "name"),
    [
        ("https://api.openai.com/v1", "openai"),
        ("https://shop.openai.azure.com/openai/v1", "azure.ai.openai"),
        ("https://api.groq.com/openai/v1", "groq"),
        ("https://evilapi.groq.com.example/v1", "wire"),
        ("http://127.0.0.1:8000/v1", "wire"),
    ],
)
def test_a_provider_is_known_by_its_host_or_by_its_wire(url: str, name: str) -> None:
    assert with_provider(ModelCapability("m"), url, "wire").provider == name
    own = ModelCapability("m", provider="ours")
    assert with_provider(own, url, "wire") is own

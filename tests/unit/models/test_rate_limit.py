"""Limits on what a model is asked: order, places, tokens, and people who leave."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator
from typing import cast

import pytest

from pilotage.agent.messages import ModelMessage
from pilotage.agent.model_reply import ModelResponse, ModelStreamEvent, ModelStreamEventKind, ModelUsage
from pilotage.agent.model_request import ModelRequest, SamplingOptions
from pilotage.agent.ports.model import IAgentModel
from pilotage.errors import AgentDefinitionError
from pilotage.models import RateLimitedModel
from pilotage.models.rate_limit import FairQueue, TokenBucket
from pilotage.testing import ScriptedModel, VirtualClock, says


class Server(IAgentModel):
    """Answers when it is told to, and knows who is being served."""

    def __init__(self, tokens: int | None = None) -> None:
        self.serving: list[str] = []
        self.done: dict[str, asyncio.Event] = {}
        self._tokens = tokens

    async def complete(self, request: ModelRequest) -> ModelResponse:
        name = request.messages[0].text
        self.serving.append(name)
        try:
            await self.done.setdefault(name, asyncio.Event()).wait()
        finally:
            self.serving.remove(name)
        return ModelResponse(name, usage=ModelUsage(total_tokens=self._tokens))

    async def stream(self, request: ModelRequest) -> AsyncIterator[ModelStreamEvent]:
        yield ModelStreamEvent(ModelStreamEventKind.TOKEN_DELTA, token_delta="...")
        yield ModelStreamEvent(ModelStreamEventKind.DONE, response=await self.complete(request))

    def finish(self, name: str) -> None:
        self.done.setdefault(name, asyncio.Event()).set()


def asks(name: str, max_tokens: int | None = None) -> ModelRequest:
    return ModelRequest([ModelMessage.user(name)], sampling=SamplingOptions(max_tokens=max_tokens))


async def settled() -> None:
    for _ in range(20):
        await asyncio.sleep(0)


async def test_no_more_calls_go_on_than_there_are_places_and_the_first_to_come_is_the_first_served() -> None:
    server = Server()
    model = RateLimitedModel(server, max_concurrent=2)
    calls = {name: asyncio.create_task(model.complete(asks(name))) for name in "abcd"}
    await settled()
    assert server.serving == ["a", "b"]
    server.finish("b")
    await settled()
    assert server.serving == ["a", "c"]
    for name in "acd":
        server.finish(name)
    assert [(await call).content for call in calls.values()] == ["a", "b", "c", "d"]


async def test_who_is_cancelled_in_the_queue_or_in_a_call_holds_nobody_up() -> None:
    server = Server()
    model = RateLimitedModel(server, max_concurrent=1)
    calls = {name: asyncio.create_task(model.complete(asks(name))) for name in "abcd"}
    await settled()
    calls["b"].cancel()
    await settled()
    calls["a"].cancel()
    await settled()
    assert server.serving == ["c"]
    server.finish("c")
    server.finish("d")
    assert (await calls["d"]).content == "d"


async def test_a_stream_has_its_place_until_it_ends_or_is_left() -> None:
    model = RateLimitedModel(ScriptedModel([says("Good day, Ada."), says("Two.")]), max_concurrent=1)
    stream = cast("AsyncGenerator[ModelStreamEvent, None]", model.stream(asks("a")))
    await anext(stream)
    waiting = asyncio.create_task(model.complete(asks("b")))
    await settled()
    assert not waiting.done()
    await stream.aclose()
    assert (await waiting).content == "Two."


async def test_a_stream_that_nobody_reads_takes_no_place() -> None:
    model = RateLimitedModel(ScriptedModel([says("One.")]), max_concurrent=1)
    model.stream(asks("a"))
    assert (await model.complete(asks("b"))).content == "One."


async def test_tokens_are_expected_before_a_call_and_the_next_one_waits_for_its_own() -> None:
    server, clock = Server(), VirtualClock()
    model = RateLimitedModel(server, tokens_per_minute=600, clock=clock)
    calls = {name: asyncio.create_task(model.complete(asks(name, max_tokens=395))) for name in "abc"}
    await settled()
    assert server.serving == ["a"]
    clock.advance(19)
    await settled()
    assert server.serving == ["a"]
    clock.advance(1)
    await settled()
    assert server.serving == ["a", "b"]
    for call in calls.values():
        call.cancel()


async def test_what_a_call_really_took_sets_the_expectation_right() -> None:
    server, clock = Server(tokens=5), VirtualClock()
    model = RateLimitedModel(server, tokens_per_minute=600, clock=clock)
    for name in "ab":
        server.finish(name)
    await model.complete(asks("a", max_tokens=590))
    assert (await model.complete(asks("b", max_tokens=590))).content == "b"


async def test_a_call_that_took_more_than_was_expected_makes_the_next_one_wait() -> None:
    server, clock = Server(tokens=1200), VirtualClock()
    model = RateLimitedModel(server, tokens_per_minute=600, clock=clock)
    server.finish("a")
    await model.complete(asks("a"))
    waiting = asyncio.create_task(model.complete(asks("b")))
    await settled()
    clock.advance(60)
    await settled()
    assert server.serving == []
    clock.advance(1)
    await settled()
    assert server.serving == ["b"]
    waiting.cancel()


async def test_who_is_cancelled_while_waiting_for_tokens_leaves_place_and_turn_to_others() -> None:
    server, clock = Server(), VirtualClock()
    model = RateLimitedModel(server, max_concurrent=2, tokens_per_minute=600, clock=clock)
    calls = {
        name: asyncio.create_task(model.complete(asks(name, max_tokens=tokens)))
        for name, tokens in {"a": 500, "greedy": 590, "c": 5}.items()
    }
    await settled()
    assert server.serving == ["a"]
    calls["greedy"].cancel()
    await settled()
    assert server.serving == ["a", "c"]
    for call in calls.values():
        call.cancel()


def test_a_limit_that_limits_nothing_is_refused() -> None:
    with pytest.raises(AgentDefinitionError, match="RateLimitedModel limits nothing"):
        RateLimitedModel(Server())
    with pytest.raises(AgentDefinitionError, match="max_concurrent"):
        RateLimitedModel(Server(), max_concurrent=0)


@pytest.mark.parametrize(
    ("level", "tokens", "wait"),
    [(600, 600, 0.0), (600, 5_000, 0.0), (0, 600, 60.0), (300, 600, 30.0), (-600, 600, 120.0), (0, 0, 0.0)],
)
def test_a_bucket_says_how_long_to_wait(level: float, tokens: int, wait: float) -> None:
    assert TokenBucket(600, level, at=10).wait_for(tokens, now=10) == wait


@pytest.mark.parametrize(
    ("taken", "later", "level"),
    [(100, 0, 500.0), (100, 5, 550.0), (700, 0, -100.0), (0, 500, 600.0), (-50, 0, 600.0)],
)
def test_a_bucket_fills_up_and_never_over(taken: int, later: float, level: float) -> None:
    bucket = TokenBucket.full(600, now=0).without(taken, now=0)
    assert bucket.without(0, now=later).level == level


async def test_a_place_that_is_handed_to_somebody_who_just_left_goes_to_the_next() -> None:
    queue = FairQueue(1)
    await queue.take()
    first, second = asyncio.create_task(queue.take()), asyncio.create_task(queue.take())
    await settled()
    queue.give_back()
    first.cancel()
    await settled()
    assert second.done()
    assert not second.cancelled()
    assert queue.waiting == 0

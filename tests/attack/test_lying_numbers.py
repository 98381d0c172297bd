"""Models that report wrong numbers: no lie makes spending fall, ends a run with an internal error or hides a paid reply."""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from decimal import Decimal
from typing import Any

import pytest

from pilotage import (
    AgentExecutionLimits,
    IAgentModel,
    ModelMessage,
    ModelRequest,
    ModelResponse,
    ModelStreamEvent,
    ModelStreamEventKind,
)
from pilotage.agent import IAgentPricing, ModelCapability, ModelCost, ModelFinishReason, ModelUsage
from pilotage.errors import ModelCallError
from pilotage.models import FallbackCondition, FallbackModel, RateLimitedModel
from pilotage.testing import StopAfter, VirtualClock
from tests.behaviour.bureau import COMPLETED, Bureau, Metered, asked, hired, resumed, started, triple
from tests.behaviour.office import Worker

pytestmark = pytest.mark.attack("limits")

HUGE = 10**30
NOT_TOLD: dict[str, Any] = {
    "all negative": (-1, -1, -2),
    "negative total": (None, None, -5),
    "negative input": (-5_000, 10, None),
    "negative output": (10, -5_000, None),
    "NaN": (float("nan"), float("nan"), float("nan")),
    "infinite": (float("inf"), 1, None),
    "a float": (2.5, 1, None),
    "a bool": (True, True, True),
    "a text": ("7", "3", "10"),
    "huge": (HUGE, HUGE, 2 * HUGE),
    "nothing": (None, None, None),
    "input only": (5, None, None),
    "no usage at all": None,
    "an object": {"total_tokens": 5},
}
COUNTED: dict[str, tuple[tuple[Any, Any, Any], int]] = {
    "a total of zero beside 5,000": ((4_000, 1_000, 0), 5_000),
    "a total below the sum": ((40, 10, 7), 50),
    "a total above the sum": ((40, 10, 90), 90),
    "a negative total beside good parts": ((40, 10, -50), 50),
    "a negative part beside a total": ((-40, 10, 50), 50),
    "a part above the total": ((None, 80, 50), 80),
    "a bool as total": ((6, 4, True), 10),
}


def reported(numbers: Any) -> Any:
    return ModelUsage(*numbers) if isinstance(numbers, tuple) else numbers


class PerToken(IAgentPricing):
    """A euro per token of the input, two per token of the output; a total alone costs a euro per token."""

    prices: dict[str, int]

    def __init__(self, **times: int) -> None:
        self.times = times

    def cost_of(self, model: str, usage: ModelUsage) -> ModelCost | None:
        if usage.input_tokens is None or usage.output_tokens is None:
            amount = usage.total_tokens or 0
        else:
            amount = usage.input_tokens + 2 * usage.output_tokens
        return ModelCost(Decimal(amount * self.times.get(model, 1)), "EUR", "1")


async def twice(worker: Worker) -> object:
    return [(await asked(worker)).usage.total_tokens for _ in range(2)]


@pytest.mark.parametrize("bound", ["max_tokens", "max_cost"])
@pytest.mark.parametrize("lie", NOT_TOLD, ids=str)
async def test_a_number_that_cannot_be_true_ends_a_bounded_run(lie: str, bound: str) -> None:
    limits = AgentExecutionLimits(**{bound: 10**6 if bound == "max_tokens" else Decimal(10**6)})  # type: ignore[arg-type]
    bureau, agent, model = Bureau(), hired(limits=limits), Metered(reported(NOT_TOLD[lie]) or ModelUsage())
    if lie == "an object":
        model.usage = NOT_TOLD[lie]
    async with bureau.process(agent, twice, PerToken(), model=model) as runs:
        result = await started(runs, agent)
    assert result.interruption_reason == "agent_usage_unavailable"
    assert (model.asked, result.spent.tokens, result.spent.cost) == (1, 0, 0)


@pytest.mark.parametrize("lie", NOT_TOLD, ids=str)
async def test_a_number_that_cannot_be_true_counts_nothing_without_a_bound(lie: str) -> None:
    bureau, agent, model = Bureau(), hired(), Metered(ModelUsage())
    model.usage = reported(NOT_TOLD[lie])
    async with bureau.process(agent, twice, PerToken(), model=model) as runs:
        result = await started(runs, agent)
        kept = await runs.result(result.state.id)
    assert triple(result.state) == COMPLETED, result.error
    assert (result.spent.tokens, result.spent.cost, kept.spent) == (0, 0, result.spent)
    assert result.output == [None, None]


@pytest.mark.parametrize("lie", COUNTED, ids=str)
async def test_the_larger_of_total_and_sum_counts_live_and_in_replay(lie: str) -> None:
    numbers, tokens = COUNTED[lie]
    bureau, agent = Bureau(), hired(limits=AgentExecutionLimits(max_tokens=10**6))

    async def program(worker: Worker) -> object:
        said = await asked(worker)
        await worker.desk.note("between")
        return said.usage.total_tokens

    run_id = await bureau.dead_process(
        agent, program, fault=StopAfter(3), model=Metered(ModelUsage(*numbers))
    )
    bureau.clock.advance(60)
    async with bureau.process(agent, program, model=Metered(ModelUsage(*numbers))) as runs:
        result = await resumed(runs, run_id)
    assert (result.spent.tokens, result.output) == (tokens, tokens)


async def test_tokens_that_only_the_total_has_are_paid_as_output() -> None:
    bureau, agent = Bureau(), hired()
    async with bureau.process(agent, twice, PerToken(), model=Metered(ModelUsage(10, 1, 100))) as runs:
        result = await started(runs, agent)
    assert result.spent.cost == 2 * (10 + 2 * 90)


class PerKind(IAgentPricing):
    """A euro per token that no cache has to do with."""

    def cost_of(self, model: str, usage: ModelUsage) -> ModelCost | None:
        cached = (usage.cached_tokens or 0) + (usage.cache_written_tokens or 0)
        return ModelCost(Decimal((usage.input_tokens or 0) - cached + (usage.output_tokens or 0)), "EUR", "1")


DETAILS: dict[str, dict[str, Any]] = {
    "parts that are more than the whole together": {"cached_tokens": 9, "cache_written_tokens": 9},
    "a part that is more than the whole": {"cached_tokens": 11},
    "a negative part": {"cache_written_tokens": -9},
    "parts of other types": {"cached_tokens": "9", "cache_written_tokens": True, "reasoning_tokens": 1.5},
    "other counts in a list": {"other_tokens": ["searches", 5]},
    "other counts in a text": {"other_tokens": "searches"},
    "other counts that are none": {"other_tokens": {"searches": -5, "maps": "7"}},
}


@pytest.mark.parametrize("lie", DETAILS, ids=str)
async def test_details_that_cannot_be_true_are_left_out(lie: str) -> None:
    agent = hired(limits=AgentExecutionLimits(max_cost=Decimal(1000)))
    bureau, model = Bureau(), Metered(ModelUsage(10, 20, 30, **DETAILS[lie]))
    async with bureau.process(agent, twice, PerKind(), model=model) as runs:
        result = await started(runs, agent)
    assert triple(result.state) == COMPLETED, result.error
    assert (result.spent.tokens, result.spent.cost) == (60, 60)


class NoAmount(IAgentPricing):
    def __init__(self, amount: Any) -> None:
        self.amount = amount

    def cost_of(self, model: str, usage: ModelUsage) -> ModelCost | None:
        cost = ModelCost(Decimal(1), "EUR", "1")
        object.__setattr__(cost, "amount", self.amount)
        return cost


@pytest.mark.parametrize("amount", [Decimal("NaN"), Decimal("Infinity"), Decimal(-1), 0.5, None], ids=repr)
async def test_a_price_that_is_no_amount_is_no_price(amount: Any) -> None:
    agent = hired(limits=AgentExecutionLimits(max_cost=Decimal(1000)))
    bureau, model = Bureau(), Metered()
    async with bureau.process(agent, twice, NoAmount(amount), model=model) as runs:
        result = await started(runs, agent)
    assert (result.interruption_reason, result.spent.cost) == ("agent_cost_unavailable", 0)


class Declining(IAgentModel):
    """Says what it is given, with a reason to finish and a usage; it may fail, or break off in the middle."""

    def __init__(
        self,
        name: str,
        reason: ModelFinishReason = ModelFinishReason.STOP,
        usage: ModelUsage | None = None,
        *,
        fails: bool = False,
    ) -> None:
        self.name, self.reason, self.fails = name, reason, fails
        self.usage = ModelUsage(6, 4, 10) if usage is None else usage

    @property
    def capability(self) -> ModelCapability:
        return ModelCapability(self.name)

    async def complete(self, request: ModelRequest) -> ModelResponse:
        if self.fails:
            raise ModelCallError("no", failure="refused_request")
        return ModelResponse("", usage=self.usage, finish_reason=self.reason)

    async def stream(self, request: ModelRequest) -> AsyncIterator[ModelStreamEvent]:
        response = await self.complete(request)
        if response.finish_reason is ModelFinishReason.STOP:
            yield ModelStreamEvent(ModelStreamEventKind.TOKEN_DELTA, token_delta="four" * 4)
        yield ModelStreamEvent(ModelStreamEventKind.DONE, response=response)


REFUSED, FILTERED = ModelFinishReason.REFUSAL, ModelFinishReason.CONTENT_FILTER
ON = [FallbackCondition.REFUSED, FallbackCondition.FILTERED, FallbackCondition.RETRYABLE]


def chain(*models: IAgentModel) -> FallbackModel:
    return FallbackModel(models, on=ON)


async def once(worker: Worker) -> object:
    return (await asked(worker)).answered_by


@pytest.mark.parametrize(
    ("model", "cost"),
    [
        (chain(Declining("dear", REFUSED), Declining("cheap")), 14 * 10 + 14),
        (chain(Declining("dear", FILTERED), Declining("cheap")), 14 * 10 + 14),
        (chain(Declining("dear", REFUSED), Declining("dear", FILTERED), Declining("cheap")), 14 * 20 + 14),
        (
            chain(chain(Declining("dear", REFUSED), Declining("dear", REFUSED)), Declining("cheap")),
            14 * 20 + 14,
        ),
        (
            chain(Declining("cheap", REFUSED), chain(Declining("dear", REFUSED), Declining("cheap"))),
            14 * 10 + 28,
        ),
        (RateLimitedModel(chain(Declining("dear", REFUSED), Declining("cheap")), max_concurrent=1), 154),
    ],
)
async def test_a_reply_that_a_fallback_replaced_is_paid_at_its_own_price(
    model: IAgentModel, cost: int
) -> None:
    bureau, agent = Bureau(), hired()
    async with bureau.process(agent, once, PerToken(dear=10), model=model) as runs:
        result = await started(runs, agent)
        kept = await runs.result(result.state.id)
    assert triple(result.state) == COMPLETED, result.error
    assert (result.spent.cost, kept.spent.cost, result.output) == (cost, cost, "cheap")


async def test_a_paid_reply_counts_once_more_in_replay_and_not_twice() -> None:
    async def program(worker: Worker) -> object:
        said = await asked(worker)
        await worker.desk.note("between")
        return said.answered_by

    def model() -> IAgentModel:
        return chain(Declining("dear", REFUSED), Declining("cheap"))

    bureau, agent = Bureau(), hired()
    run_id = await bureau.dead_process(agent, program, PerToken(dear=10), fault=StopAfter(3), model=model())
    bureau.clock.advance(60)
    async with bureau.process(agent, program, PerToken(dear=10), model=model()) as runs:
        result = await resumed(runs, run_id)
    assert (result.spent.steps, result.spent.tokens, result.spent.cost) == (1, 20, 154)


async def test_a_paid_reply_counts_though_the_next_model_fails() -> None:
    async def program(worker: Worker) -> object:
        try:
            await asked(worker)
        except ModelCallError:
            return "failed"
        return "answered"

    bureau, agent = Bureau(), hired()
    model = chain(Declining("dear", REFUSED), Declining("cheap", fails=True))
    async with bureau.process(agent, program, PerToken(dear=10), model=model) as runs:
        result = await started(runs, agent)
        kept = await runs.result(result.state.id)
    assert (result.output, result.spent.cost, kept.spent.cost) == ("failed", 140, 140)


async def test_a_paid_reply_counts_though_the_next_stream_is_left() -> None:
    async def program(worker: Worker) -> object:
        async for event in worker.model.stream(ModelRequest([ModelMessage.user("x" * 16)])):
            if event.text:
                break
        return "left"

    bureau, agent = Bureau(), hired()
    model = chain(Declining("dear", REFUSED), Declining("cheap"))
    async with bureau.process(agent, program, PerToken(dear=10), model=model) as runs:
        result = await started(runs, agent)
    # Which model speaks is known at the end of a stream: one that is left has the price of the model that was asked.
    assert result.spent.cost == 140 + 10 * (8 + 2 * 4)


@pytest.mark.parametrize("usage", [ModelUsage(), ModelUsage(-1, -1, -1)], ids=repr)
async def test_a_replaced_reply_without_numbers_ends_a_bounded_run(usage: ModelUsage) -> None:
    agent = hired(limits=AgentExecutionLimits(max_tokens=10**6))
    bureau, model = Bureau(), chain(Declining("dear", REFUSED, usage), Declining("cheap"))
    async with bureau.process(agent, once, model=model) as runs:
        result = await started(runs, agent)
    assert result.interruption_reason == "agent_usage_unavailable"


@pytest.mark.parametrize("usage", [ModelUsage(-1000, -1000, -2000), ModelUsage(total_tokens=-9)], ids=repr)
async def test_negative_numbers_do_not_fill_the_bucket_of_a_rate_limit(usage: ModelUsage) -> None:
    clock = VirtualClock()
    inner: Sequence[IAgentModel] = [Declining("one", usage=usage)]
    model = RateLimitedModel(inner[0], tokens_per_minute=100, clock=clock)
    for _ in range(3):
        await model.complete(ModelRequest([ModelMessage.user("x" * 100)]))
    assert model._bucket is not None
    assert model._bucket.level < 100

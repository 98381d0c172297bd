"""A stream that is left early, or breaks off, has cost something: it counts, and the record says what was estimated."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import aclosing

import pytest
from tests.behaviour.bureau import Bureau, hired, started
from tests.behaviour.office import Worker

from pilotage import (
    AgentStatus,
    IAgentModel,
    ModelMessage,
    ModelRequest,
    ModelResponse,
    ModelStreamEvent,
    ModelStreamEventKind,
)
from pilotage.agent import AgentExecutionLimits, ModelUsage
from pilotage.agent.ports.budget import BudgetAmount
from pilotage.errors import ModelCallError
from pilotage.testing import StopAfter, StopBefore

QUESTION = ModelRequest([ModelMessage.user("x" * 16)])
ASKED = 4 + 4  # the frame of a message, and four tokens for sixteen letters
WORD = "four" * 4  # four tokens


class Talker(IAgentModel):
    """Says one word after the other; with the second it may tell what it took, and after the third it may break off."""

    def __init__(self, told: ModelUsage | None = None, *, breaks: bool = False) -> None:
        self.told, self.breaks, self.calls = told, breaks, 0

    async def complete(self, request: ModelRequest) -> ModelResponse:
        raise AssertionError("a run reads the stream")

    async def stream(self, request: ModelRequest) -> AsyncIterator[ModelStreamEvent]:
        self.calls += 1
        for number in (1, 2, 3):
            usage = self.told if number == 2 else None
            yield ModelStreamEvent(ModelStreamEventKind.TOKEN_DELTA, token_delta=WORD, usage=usage)
        if self.breaks:
            raise ModelCallError("the line is dead")
        response = ModelResponse(WORD * 3, usage=ModelUsage(8, 12, 20))
        yield ModelStreamEvent(ModelStreamEventKind.DONE, response=response)


async def left_after(worker: Worker, words: int) -> str:
    """Read some words and leave."""
    said: list[str] = []
    stream = worker.model.stream(QUESTION)
    async with aclosing(stream):  # type: ignore[type-var]
        async for event in stream:
            said.append(event.text)
            if len(said) == words:
                break
    return "".join(said)


async def spent_by(words: int, model: IAgentModel) -> BudgetAmount:
    async def leaves(worker: Worker) -> str:
        return await left_after(worker, words)

    agent = hired()
    async with Bureau().process(agent, leaves, model=model) as runs:
        return (await started(runs, agent)).spent


@pytest.mark.parametrize(
    ("words", "told", "tokens"),
    [
        (1, None, ASKED + 4),
        (2, None, ASKED + 8),
        (2, ModelUsage(30, 9, 39), 39),
        (3, ModelUsage(30, 9, 39), 39 + 4),
        (2, ModelUsage(30), 30 + 8),
        (3, ModelUsage(None, None, 50), 54),
    ],
)
async def test_what_was_told_counts_and_the_rest_is_estimated(
    words: int, told: ModelUsage | None, tokens: int
) -> None:
    spent = await spent_by(words, Talker(told))
    assert (spent.steps, spent.tokens) == (1, tokens)


async def test_a_run_that_leaves_every_stream_early_comes_to_its_limit() -> None:
    async def leaves_and_leaves(worker: Worker) -> str:
        while True:
            await left_after(worker, 1)

    agent, model = hired(limits=AgentExecutionLimits(max_tokens=5 * (ASKED + 4) + 12)), Talker()
    async with Bureau().process(agent, leaves_and_leaves, model=model) as runs:
        result = await started(runs, agent)
    assert (result.status, (result.error or {})["code"]) == (
        AgentStatus.INTERRUPTED,
        "agent_max_tokens_exceeded",
    )
    assert model.calls == 5


async def test_a_stream_that_breaks_off_counts_as_far_as_it_came() -> None:
    async def hears_it_break(worker: Worker) -> str:
        try:
            return await left_after(worker, 4)
        except ModelCallError as error:
            return str(error)

    agent = hired()
    async with Bureau().process(agent, hears_it_break, model=Talker(breaks=True)) as runs:
        result = await started(runs, agent)
    assert result.output == "the line is dead"
    assert result.spent.tokens == ASKED + 12


@pytest.mark.parametrize(("told", "is_estimated"), [(None, True), (ModelUsage(30, 9, 39), False)])
async def test_the_record_says_whether_anybody_reported_the_numbers(
    told: ModelUsage | None, is_estimated: bool
) -> None:
    async def leaves(worker: Worker) -> str:
        return await left_after(worker, 2)

    agent, bureau = hired(), Bureau()
    async with bureau.process(agent, leaves, model=Talker(told)) as runs:
        result = await started(runs, agent)
    (row,) = [row for row in await bureau.rows(result.state.id) if row.action_id == "run/model#1"]
    assert ("usage_estimated" in repr(row.view)) is is_estimated


@pytest.mark.parametrize("breaks", [True, False])
@pytest.mark.parametrize("stop", [StopBefore, StopAfter])
async def test_replay_counts_to_the_same_number(stop: type[StopBefore | StopAfter], breaks: bool) -> None:
    async def leaves_then_notes(worker: Worker) -> str:
        for _ in range(2):
            try:
                await left_after(worker, 4 if breaks else 2)
            except ModelCallError:
                continue
        return await worker.desk.note("left")

    agent = hired()
    async with Bureau().process(agent, leaves_then_notes, model=Talker(breaks=breaks)) as runs:
        expected = (await started(runs, agent)).spent
    assert expected.tokens == 2 * (ASKED + (12 if breaks else 8))
    for number in range(2, 6):
        bureau = Bureau()
        try:
            run_id = await bureau.dead_process(
                agent, leaves_then_notes, fault=stop(number), model=Talker(breaks=breaks)
            )
        except AssertionError:
            continue
        bureau.clock.advance(3600)
        async with bureau.process(agent, leaves_then_notes, model=Talker(breaks=breaks)) as runs:
            if not (await runs.get(run_id)).is_terminal:
                assert (await (await runs.resume(run_id)).result()).spent == expected, number

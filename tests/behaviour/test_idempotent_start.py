"""Starting with a name of one's own: the same start again attaches, another one is a conflict."""

from __future__ import annotations

import asyncio
from decimal import Decimal

import pytest
from tests.behaviour.bureau import (
    COMPLETED,
    DURABLE,
    WAITING,
    Bureau,
    Counter,
    Metered,
    asked,
    hired,
    resumed,
    triple,
)
from tests.behaviour.office import Worker

from pilotage import Agent, AgentExecutionSpec, Principal, RunAgentInput
from pilotage.errors import CallerError, RunConflictError


async def pays(worker: Worker) -> object:
    return (await worker.desk.pay(Decimal(1))).number


async def refunds(worker: Worker) -> object:
    return (await worker.desk.refund(Decimal(1))).number


async def test_a_start_that_is_made_again_attaches_to_the_live_run() -> None:
    bureau, agent = Bureau(), hired()
    counter = Counter(bureau.world)

    async def program(worker: Worker) -> object:
        return await counter.send("a")

    async with bureau.process(agent, program, counter) as runs:
        first = await runs.start(agent, "A-17", id="order 17")
        await counter.begun["send a"].wait()
        second = await runs.start(agent, "A-17", id="order 17")
        counter.may_end["send a"].set()
        results = await asyncio.gather(first.result(), second.result())
    assert first.id == second.id
    assert results[0] == results[1]
    assert bureau.world.done == ["send a"]


async def test_a_start_that_is_made_again_finds_the_run_that_waits() -> None:
    bureau, agent = Bureau(), hired()
    async with bureau.process(agent, refunds) as runs:
        first = await runs.start(agent, "A-17", id="mine")
        await first.result()
    async with bureau.process(agent, refunds) as runs:
        again = await runs.start(agent, "A-17", id="mine")
        assert again.id == first.id
        assert triple((await again.result()).state) == WAITING
        (question,) = await runs.questions(again.id)
        await runs.approve(question.id)
        assert triple((await resumed(runs, again.id)).state) == COMPLETED
        assert triple((await again.result()).state) == COMPLETED
        assert (await again.result()).output == 1


async def test_a_start_that_is_made_again_after_the_end_gives_the_recorded_outcome() -> None:
    bureau, agent = Bureau(), hired()
    async with bureau.process(agent, pays) as runs:
        first = await (await runs.start(agent, "A-17", id="mine")).result()
    async with bureau.process(agent, pays) as runs:
        handle = await runs.start(agent, "A-17", id="mine")
        again = await handle.result()
        events = [event async for event in handle.events()]
    assert (again.state.id, again.output) == (first.state.id, first.output)
    assert events
    assert bureau.world.done == ["pay 1"]


@pytest.mark.parametrize("given", ["A-18", {"order": "A-18"}])
async def test_another_input_under_the_same_name_is_a_conflict_and_the_run_is_unharmed(given: object) -> None:
    bureau, agent = Bureau(), hired()
    async with bureau.process(agent, refunds) as runs:
        first = await runs.start(agent, "A-17", id="mine")
        await first.result()
        before = await bureau.rows(first.id)
        with pytest.raises(RunConflictError, match="'mine' already, with another agent or input"):
            await runs.start(agent, given, id="mine")
        assert triple(await runs.get(first.id)) == WAITING
    assert await bureau.rows(first.id) == before


@Agent(spec=AgentExecutionSpec(name="another", recovery=DURABLE))
class Another:
    async def execute(self, order: str) -> str:
        return order


async def test_another_agent_under_the_same_name_is_a_conflict() -> None:
    bureau, agent = Bureau(), hired()
    async with bureau.process(agent, pays, Another) as runs:
        await (await runs.start(agent, "A-17", id="mine")).result()
        with pytest.raises(RunConflictError):
            await runs.start(Another, "A-17", id="mine")


async def test_the_same_input_in_other_words_is_the_same_input() -> None:
    bureau, agent = Bureau(), hired()
    async with bureau.process(agent, pays) as runs:
        first = await runs.start(agent, "A-17", id="mine")
        assert (await runs.start(agent, {"order": "A-17"}, id="mine")).id == first.id


async def test_a_name_belongs_to_its_tenant() -> None:
    bureau, agent = Bureau(), hired()
    async with bureau.process(agent, pays) as runs:
        ours = await runs.start(agent, "A-17", id="mine")
        theirs = await runs.start(agent, "A-18", id="mine", principal=Principal("ada", tenant="elsewhere"))
        await asyncio.gather(ours.result(), theirs.result())
    assert ours.id != theirs.id
    assert "mine" not in (ours.id, theirs.id)


async def test_of_starts_that_race_in_one_process_one_begins() -> None:
    bureau, agent = Bureau(), hired()
    async with bureau.process(agent, pays) as runs:
        handles = await asyncio.gather(*(runs.start(agent, "A-17", id="mine") for _ in range(8)))
        results = [await handle.result() for handle in handles]
    assert len({handle.id for handle in handles}) == 1
    assert {triple(result.state) for result in results} == {COMPLETED}
    assert bureau.world.done == ["pay 1"]


async def test_of_starts_that_race_in_two_processes_one_begins_and_the_other_attaches() -> None:
    bureau, agent = Bureau(), hired()
    async with bureau.process(agent, pays) as one, bureau.process(agent, pays) as two:
        first, second = await asyncio.gather(
            one.start(agent, "A-17", id="mine"), two.start(agent, "A-17", id="mine")
        )
        assert first.id == second.id
        await asyncio.gather(first.result(), second.result())
        assert (await one.result(first.id)).output == 1
        assert (await two.result(first.id)).output == 1
    assert bureau.world.done == ["pay 1"]


async def test_starts_that_race_with_other_inputs_begin_one_and_refuse_the_other() -> None:
    bureau, agent = Bureau(), hired()
    async with bureau.process(agent, pays) as one, bureau.process(agent, pays) as two:
        handles = await asyncio.gather(
            one.start(agent, "A-17", id="mine"), two.start(agent, "A-18", id="mine"), return_exceptions=True
        )
    refused = [handle for handle in handles if isinstance(handle, RunConflictError)]
    assert len(refused) == 1


async def test_a_named_start_keeps_what_its_caller_says_about_it() -> None:
    bureau, agent = Bureau(), hired()

    async def speaks(worker: Worker) -> object:
        return (await asked(worker)).content

    given = RunAgentInput("ignored", "A-17", metadata={"from": "the web"})
    async with bureau.process(agent, speaks, model=Metered()) as runs:
        handle = await runs.start(agent, given, id="mine", metadata={"more": 1})
        await handle.result()
    (first,) = [row for row in await bureau.rows(handle.id) if row.seq == 1]
    assert isinstance(first.view, dict)
    assert first.view["metadata"] == {"from": "the web", "more": 1, "alias": "mine"}


@pytest.mark.parametrize("name", ["alias", "forked_from"])
async def test_metadata_cannot_pose_as_what_a_run_says_of_its_start(name: str) -> None:
    bureau, agent = Bureau(), hired()
    async with bureau.process(agent, refunds) as runs:
        with pytest.raises(CallerError, match=f"{name!r}, which the run sets itself"):
            await runs.start(agent, "A-17", metadata={name: "another run's"})
        assert not (await runs.list()).runs

"""A pause inside of an open tool is no crash: the tool is entered again over what is recorded, and nobody is asked."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

import pytest
from tests.behaviour.nested import Body, Buyer, Desk, Shop, refunding
from tests.behaviour.newsdesk import let_run

from pilotage import (
    Agent,
    AgentExecutionSpec,
    AgentStatus,
    ApprovalDecision,
    IAgentModel,
    ModelMessage,
    ModelRequest,
    RecoveryStrategy,
)
from pilotage.agent import AgentApprovalRequest, AgentSignalKind, RecoveryDecision, get_run_context
from pilotage.agent.delegation import AgentDelegateTarget, DelegationPacket, DelegationReturnPolicy
from pilotage.agent.ports.persistence import JournalStage, RunKey
from pilotage.agent.run_values import RunResult
from pilotage.jsonvalue import object_or_empty
from pilotage.runtime import sleep
from pilotage.runtime.children.delegation import LocalDelegate
from pilotage.runtime.runs import AgentRuns
from pilotage.testing import ProcessStopped, ScriptedModel, StopAfter, StopBefore, fails, says

AROUND = "run/tool:around#1"
OUTPUT = "paid tea, {}, wrote tea"


async def around(desk: Desk) -> object:
    return await desk.around("tea")


async def around_it(desk: Desk) -> object:
    return await desk.around_it("tea")


async def asking_the_model(desk: Desk) -> object:
    reply = await desk.model.complete(ModelRequest([ModelMessage.user("Well?")]))
    return reply.content


async def sleeping(desk: Desk) -> object:
    await sleep(3_600)
    return "slept"


@Agent(spec=AgentExecutionSpec(name="child", recovery=RecoveryStrategy.ACTION_BOUNDARY))
class Child:
    """Asks a person."""

    def __init__(self, model: IAgentModel, desk: Desk) -> None:
        self.model, self.desk = model, desk

    async def execute(self) -> str:
        return await self.desk.refund("milk")


async def delegating(desk: Desk) -> object:
    packet = DelegationPacket(
        "the packet",
        str(get_run_context().run_id),
        AgentDelegateTarget("child"),
        {},
        return_policy=DelegationReturnPolicy.FINAL_OUTPUT,
    )
    return (await LocalDelegate().delegate_tool_result(packet)).output


def outage() -> ScriptedModel:
    overloaded = fails("overloaded", retryable=True)
    return ScriptedModel([overloaded, overloaded, says("well")])


def shop_that(wait: Body, body: Body = around) -> Shop:
    return Shop(body, wait=wait, model=outage(), more=[Child])


async def answer_approvals(runs: AgentRuns, run_id: str) -> None:
    for question in await runs.questions(run_id):
        assert isinstance(question, AgentApprovalRequest), "a person is asked about an unknown outcome"
        await runs.answer(run_id, question.id, ApprovalDecision.APPROVE, resume=False)


async def to_the_end(shop: Shop) -> RunResult:
    """Resume the run until it ends, answering approvals; each time in a process of its own."""
    for _ in range(6):
        shop.clock.advance(4_000)
        async with shop.process() as runs:
            await answer_approvals(runs, shop.run_id)
            result = await shop.driven(runs)
            if result.state.is_terminal:
                await runs.verify(shop.run_id)
                return result
    raise AssertionError(f"the run does not end: {result.state}")


WAITS: list[tuple[Body, str]] = [
    (refunding, "refunded tea"),
    (asking_the_model, "well"),
    (sleeping, "slept"),
    (delegating, "refunded milk"),
]


@pytest.mark.parametrize("body", [around, around_it])
@pytest.mark.parametrize(("wait", "waited"), WAITS)
async def test_a_wait_inside_of_a_tool_asks_nobody_what_became_of_the_tool(
    body: Body, wait: Body, waited: str
) -> None:
    shop = shop_that(wait, body)
    async with shop.process() as runs:
        assert (await shop.driven(runs)).status is AgentStatus.INTERRUPTED
    result = await to_the_end(shop)
    assert (result.status, result.output) == (AgentStatus.COMPLETED, OUTPUT.format(waited))
    assert shop.world.done.count("pay tea") == shop.world.done.count("letter tea") == 1


async def test_a_requested_pause_inside_of_a_tool_asks_nobody() -> None:
    shop = Shop(around)

    async def paused(desk: Desk) -> object:
        await runs.signal(shop.run_id, AgentSignalKind.PAUSE)
        return "paused"

    shop.program.wait = paused
    async with shop.process() as runs:
        handle = await runs.start(Buyer)
        shop.run_id = handle.id
        result = await handle.result()
    assert result.status is AgentStatus.INTERRUPTED
    shop.program.wait = paused_no_more
    result = await to_the_end(shop)
    assert result.output == OUTPUT.format("paused")
    assert shop.world.done.count("pay tea") == 1


async def paused_no_more(desk: Desk) -> object:
    return "paused"


async def test_a_shutdown_between_two_calls_of_a_tool_asks_nobody() -> None:
    shop, reached, goes_on = Shop(around), asyncio.Event(), asyncio.Event()

    async def waits(desk: Desk) -> object:
        reached.set()
        await goes_on.wait()
        return "paused"

    shop.program.wait = waits
    async with shop.process() as runs:
        shop.run_id = (await runs.start(Buyer)).id
        await reached.wait()
        leaving = asyncio.create_task(runs.hand_over(60))
        await let_run()
        goes_on.set()
        await leaving
    assert "letter tea" not in shop.world.done
    result = await to_the_end(shop)
    assert result.output == OUTPUT.format("paused")
    assert shop.world.done.count("pay tea") == 1


@pytest.mark.parametrize("fault", [StopBefore, StopAfter])
@pytest.mark.parametrize("number", range(1, 9))
@pytest.mark.parametrize(("wait", "waited"), WAITS)
async def test_a_crash_behind_the_pause_asks_only_if_the_tool_was_entered_again(
    fault: Callable[[int], StopBefore | StopAfter], number: int, wait: Body, waited: str
) -> None:
    shop = shop_that(wait)
    async with shop.process() as runs:
        await shop.driven(runs)
    entered = shop.world.done.count("enter tea")
    shop.clock.advance(4_000)
    died = False
    async with shop.process(fault(number)) as runs:
        try:
            await answer_approvals(runs, shop.run_id)
            await shop.driven(runs)
        except ProcessStopped:
            died = True
    rows = [row async for row in shop.store.journal.read(RunKey("default", shop.run_id))]
    is_entered = any(
        "entered" in object_or_empty(row.view) for row in rows if row.stage is JournalStage.CLAIMED
    )
    assert is_entered or shop.world.done.count("enter tea") == entered
    asked = await resolved(shop)
    assert not asked or (died and is_entered)
    result = await to_the_end(shop)
    assert (result.status, result.output) == (AgentStatus.COMPLETED, OUTPUT.format(waited))


async def resolved(shop: Shop) -> bool:
    """Whether a person was asked about the tool; whatever is open is tried again."""
    shop.clock.advance(4_000)
    has_asked = False
    for _ in range(3):
        async with shop.process() as runs:
            result = await shop.driven(runs)
            if result.state.is_terminal:
                break
            for question in await runs.questions(shop.run_id):
                if isinstance(question, AgentApprovalRequest):
                    continue
                has_asked = True
                inside = {each.action_id: {"decision": "retry"} for each in question.to_decide}
                await runs.answer(
                    question.agent_state_id, question.id, RecoveryDecision.RETRY, resume=False, actions=inside
                )
    return has_asked

"""A process may die while it drives a run that it has answered: the run goes on elsewhere as if nothing had happened.

`answer()` drives the run in the background. Every commit and every effect of that drive is a place to die; another
application resumes the run, and the outside world is asked what has happened.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from decimal import Decimal

import pytest

from pilotage import (
    Agent,
    AgentExecutionSpec,
    AgentStatus,
    Application,
    ApprovalDecision,
    IAgentModel,
    ModelMessage,
    ModelRequest,
    RecoveryStrategy,
)
from pilotage.agent import AgentApprovalRequest, AgentRecoveryRequest, RecoveryDecision
from pilotage.runtime import AgentRuns
from pilotage.runtime.plugin import initialize
from pilotage.testing import (
    FailWrite,
    Fault,
    FaultyJournal,
    LoseReply,
    MemoryStore,
    ProcessStopped,
    ScriptedModel,
    SeededIds,
    StopAfter,
    StopBefore,
    VirtualClock,
    says,
)
from tests.behaviour.newsdesk import let_run
from tests.crash.shop import Shop, World

ONCE = {"refund": 1, "mark": 1, "pay": 1, "ship": 1}
RECEIPTS = ["refund-1", "Fine.", "mark-1", "pay-1", "ship-1"]


@Agent(spec=AgentExecutionSpec(name="returns", recovery=RecoveryStrategy.ACTION_BOUNDARY))
class Returns:
    """Asks before it does anything: everything else happens in the attempt that the answer begins."""

    def __init__(self, model: IAgentModel, shop: Shop) -> None:
        self.model, self.shop = model, shop

    async def execute(self, order: str) -> list[str]:
        receipts = [await self.shop.refund(Decimal("12.50"))]
        reply = await self.model.complete(ModelRequest([ModelMessage.user("refunded")]))
        receipts += [reply.content, await self.shop.mark(order)]
        return [*receipts, await self.shop.pay(Decimal(1)), await self.shop.ship(order)]


class Story:
    """One run, answered and carried on by as many processes as it takes; the store and the world outlive them."""

    def __init__(self) -> None:
        self.clock = VirtualClock()
        self.store = MemoryStore(self.clock)
        self.world, self.ids = World(), SeededIds(1)
        self.run_id = ""
        self.asked: list[str] = []
        self.commits: list[int] = []

    @asynccontextmanager
    async def process(self, fault: Fault | None = None) -> AsyncGenerator[tuple[AgentRuns, FaultyJournal]]:
        """One process over the store, with its journal."""
        journal, store = FaultyJournal(self.store.journal, fault), self.store
        app = Application("returns").add(Returns, Shop, self.world, ScriptedModel([says("Fine.")]), journal)
        app.add(store.states, store.signals, store.evidence, store.leases, store.wake_ups, store.sealer)
        app.add(self.ids, self.clock)
        initialize(app)
        async with app:
            yield app.get(AgentRuns), journal

    async def ask(self) -> None:
        """Start the run: it asks for the refund and waits."""
        async with self.process() as (runs, _):
            handle = await runs.start(Returns, "A-17")
            self.run_id = handle.id
            assert (await handle.result()).status is AgentStatus.INTERRUPTED

    async def answer(self, fault: Fault | None = None) -> None:
        """Answer what the run waits for in a process with a fault, and let it drive the run in the background."""
        async with self.process(fault) as (runs, journal):
            try:
                if not await self._answer_all(runs):
                    await runs.resume(self.run_id)
            except (ProcessStopped, OSError):
                assert fault is not None
            await let_run(300)
        self.commits.append(journal.commits)
        self.clock.advance(60)

    async def carry_through(self, *faults: Fault) -> None:
        """Bring the run to its end; the n-th process that answers has the n-th fault."""
        await self.ask()
        for number in range(12):
            await self.answer(faults[number] if number < len(faults) else None)
            if (await self.store.states.get(self.run_id)).is_terminal:
                return
        raise AssertionError("the run does not come to an end")

    async def _answer_all(self, runs: AgentRuns) -> bool:
        """Answer every open question; return whether there was one."""
        pending = await self.store.signals.list_pending(self.run_id)
        answered = {signal.payload.get("request_id") for signal in pending}
        questions = [each for each in await runs.questions(self.run_id) if each.id not in answered]
        for question in questions:
            self.asked.append(question.id)
            await self._answer(runs, question)
        return bool(questions)

    async def _answer(self, runs: AgentRuns, question: AgentApprovalRequest | AgentRecoveryRequest) -> None:
        if isinstance(question, AgentApprovalRequest):
            await runs.answer(self.run_id, question.id, ApprovalDecision.APPROVE)
        elif happened := self.world.done[str(question.action_name)]:
            receipt = f"{question.action_name}-{happened}"
            await runs.answer(self.run_id, question.id, RecoveryDecision.DONE, result=receipt)
        else:
            await runs.answer(self.run_id, question.id, RecoveryDecision.RETRY)

    async def assert_done_right(self) -> None:
        """The run is completed and consistent, and the outside world saw each effect exactly once."""
        async with self.process() as (runs, _):
            result = await runs.result(self.run_id)
            assert await runs.verify(self.run_id) > 0
            assert await runs.questions(self.run_id) == ()
        assert (result.status, result.output) == (AgentStatus.COMPLETED, RECEIPTS)
        assert self.world.done == ONCE
        assert len(self.asked) == len(set(self.asked))
        assert self.store.tables.leases == {}


COMMITS = range(1, 8)
EFFECTS = range(1, 5)
STOPS = [StopBefore, StopAfter]


async def test_the_drive_that_an_answer_begins_has_these_commits_and_effects() -> None:
    story = Story()
    await story.ask()
    assert story.world.calls == 0
    await story.answer()
    assert (story.commits, story.world.calls) == ([len(COMMITS)], len(EFFECTS))
    await story.assert_done_right()
    assert asyncio.all_tasks() == {asyncio.current_task()}


@pytest.mark.parametrize("number", COMMITS)
@pytest.mark.parametrize("fault", [*STOPS, LoseReply, FailWrite])
async def test_a_fault_at_any_commit_of_an_answered_run_changes_nothing(
    fault: type[Fault], number: int
) -> None:
    story = Story()
    await story.carry_through(fault(number))
    assert story.commits[0] >= number
    await story.assert_done_right()


@pytest.mark.parametrize("number", EFFECTS)
@pytest.mark.parametrize("moment", ["dies_before", "dies_after"])
async def test_a_death_around_any_effect_of_an_answered_run_repeats_nothing(moment: str, number: int) -> None:
    story = Story()
    setattr(story.world, moment, number)
    await story.carry_through()
    await story.assert_done_right()


@pytest.mark.parametrize("first", STOPS)
@pytest.mark.parametrize("second", STOPS)
async def test_a_second_death_after_the_next_answer_changes_nothing(
    first: type[Fault], second: type[Fault]
) -> None:
    for number in COMMITS:
        for again in (1, 2, 3):
            story = Story()
            await story.carry_through(first(number), second(again))
            await story.assert_done_right()

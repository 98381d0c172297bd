"""Calls that wait for people or signals beside tasks of the program: the tasks go on, and an answer is never ignored."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager, suppress

import pytest

from pilotage import (
    Agent,
    AgentExecutionSpec,
    AgentRuns,
    AgentSignalKind,
    AgentStatus,
    Application,
    ApprovalDecision,
    Idempotency,
    Pod,
    RecoveryStrategy,
    ToolEffects,
    agent_tool,
)
from pilotage.agent import ToolApprovalRequirement
from pilotage.runtime import next_signal
from pilotage.testing import MemoryStore

MESSAGE = AgentSignalKind.USER_MESSAGE


@Pod
class Desk:
    """Effects that a test looks at, and a line on which a program can wait."""

    def __init__(self) -> None:
        self.done: list[str] = []
        self.polls = 0
        self.polled, self.closing = asyncio.Event(), asyncio.Event()


@Agent(spec=AgentExecutionSpec(recovery=RecoveryStrategy.ACTION_BOUNDARY, accepted_signals=[MESSAGE]))
class Clerk:
    """Runs one of three programs."""

    def __init__(self, desk: Desk) -> None:
        self.desk = desk

    @agent_tool(effects=ToolEffects.external_side_effect(), reads_untrusted=False)
    async def pay(self, item: str) -> str:
        """Pay; a person has to approve it."""
        self.desk.done.append(f"pay {item}")
        return "paid"

    @agent_tool(
        effects=ToolEffects.write_state(),
        idempotency=Idempotency.IDEMPOTENT,
        approval=ToolApprovalRequirement.NOT_REQUIRED,
    )
    async def note(self, item: str) -> str:
        """Write something down."""
        self.desk.done.append(f"note {item}")
        return "noted"

    @agent_tool(effects=ToolEffects.read_only())
    async def poll(self) -> int:
        """Look at something again and again."""
        self.desk.polls += 1
        if self.desk.polls > 3:
            self.desk.polled.set()
        await asyncio.sleep(0.001)
        return self.desk.polls

    async def execute(self, program: str) -> str:
        match program:
            case "watch":
                return await self._pay_beside_a_watch()
            case "send":
                return await self._pay_beside_a_note()
            case _:
                return await self._clean_up_after_a_signal()

    async def _pay_beside_a_watch(self) -> str:
        async def watch() -> None:
            while True:
                await self.poll()

        watching = asyncio.create_task(watch())
        paid = await self.pay("rent")
        watching.cancel()
        await asyncio.gather(watching, return_exceptions=True)
        return paid

    async def _pay_beside_a_note(self) -> str:
        async def begin() -> str:
            return await self.note("begun")

        noting = asyncio.create_task(begin())
        return f"{await self.pay('rent')}, {await noting}"

    async def _clean_up_after_a_signal(self) -> str:
        async def guard() -> None:
            try:
                await self.desk.closing.wait()
            finally:
                await self.note("closed")

        guarding = asyncio.create_task(guard())
        await next_signal(MESSAGE)
        guarding.cancel()
        with suppress(asyncio.CancelledError):
            await guarding
        return "done"


@asynccontextmanager
async def process(store: MemoryStore, desk: Desk) -> AsyncIterator[AgentRuns]:
    app = Application("waits").add(Clerk, desk, *store.ports)
    async with app.load_plugins(include=["runtime"]):
        yield app.get(AgentRuns)


async def questions_of(runs: AgentRuns, run: str) -> Sequence[str]:
    return [question.id for question in await runs.questions(run)]


async def test_an_answer_ends_an_attempt_whose_tasks_go_on_for_ever() -> None:
    desk = Desk()
    async with process(MemoryStore(), desk) as runs:
        handle = await runs.start(Clerk, "watch")
        await desk.polled.wait()
        (question,) = await questions_of(runs, handle.id)
        assert (await runs.get(handle.id)).status is AgentStatus.ACTIVE
        desk.polls = 0
        desk.polled.clear()
        await runs.answer(handle.id, question, ApprovalDecision.DEFER)
        await desk.polled.wait()
        assert (await runs.get(handle.id)).status is AgentStatus.ACTIVE
        await runs.answer(handle.id, question, ApprovalDecision.APPROVE)
        result = await (await runs.resume(handle.id)).result()
    assert (result.status, result.output, desk.done) == (AgentStatus.COMPLETED, "paid", ["pay rent"])


async def test_tasks_made_before_a_question_go_on_while_it_is_open() -> None:
    desk, store = Desk(), MemoryStore()
    async with process(store, desk) as runs:
        paused = await (await runs.start(Clerk, "send")).result()
        assert (paused.status, desk.done) == (AgentStatus.INTERRUPTED, ["note begun"])
        (question,) = await questions_of(runs, paused.state.id)
        await runs.answer(paused.state.id, question, ApprovalDecision.APPROVE)
        result = await (await runs.resume(paused.state.id)).result()
    assert (result.output, desk.done) == ("paid, noted", ["note begun", "pay rent"])


@pytest.mark.parametrize("is_restarted", [False, True], ids=["same process", "another process"])
async def test_tasks_have_begun_when_a_signal_that_was_waited_for_is_given(is_restarted: bool) -> None:
    desk, store = Desk(), MemoryStore()
    async with process(store, desk) as runs:
        paused = await (await runs.start(Clerk, "signal")).result()
        await runs.signal(paused.state.id, MESSAGE, {"text": "go"})
        if not is_restarted:
            result = await (await runs.resume(paused.state.id)).result()
    if is_restarted:
        async with process(store, desk) as runs:
            result = await (await runs.resume(paused.state.id)).result()
    assert (result.status, desk.done) == (AgentStatus.COMPLETED, ["note closed"])
    # The task of the first attempt made no calls, so the pause did not know it.
    desk.closing.set()
    await asyncio.sleep(0)

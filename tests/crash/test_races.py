"""Races for one run: whoever ends it, ends it once; whoever loses it, acts no more."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

import pytest

from pilotage import (
    Agent,
    AgentExecutionSpec,
    AgentStatus,
    Application,
    Idempotency,
    Pod,
    RecoveryStrategy,
    ToolEffects,
    agent_tool,
)
from pilotage.agent import ToolApprovalRequirement
from pilotage.runtime import AgentRuns
from pilotage.runtime.journal.lease import LeaseSettings
from pilotage.runtime.journal.scope import RESULT
from pilotage.runtime.plugin import initialize
from pilotage.testing import MemoryStore, ProcessStopped, StopBefore, VirtualClock
from tests.crash.machine import Strict, Town

LEASE_SECONDS = LeaseSettings().seconds


async def asked(town: Town) -> str:
    """A run that waits for an approval."""
    async with town.process() as runs:
        run = await runs.start(Strict, "A-17")
        await run.result()
        return run.id


async def approved(town: Town) -> str:
    """A run whose approval is given and not used yet."""
    run_id = await asked(town)
    async with town.process() as runs:
        (request,) = await runs.questions(run_id)
        await runs.approve(request.id)
    return run_id


async def turns(count: int) -> None:
    for _ in range(count):
        await asyncio.sleep(0)


@pytest.mark.parametrize("count", range(45))
@pytest.mark.parametrize("setup", [approved, asked])
async def test_cancelling_a_live_run_at_any_moment_leaves_one_end_that_all_agree_on(
    setup: object, count: int
) -> None:
    town = Town()
    run_id = await (approved if setup is approved else asked)(town)
    async with town.process() as runs:
        handle = await runs.resume(run_id)
        await turns(count)
        was_cancelled = await runs.cancel(run_id)
        state = await runs.get(run_id)
        assert state.status is (AgentStatus.CANCELLED if was_cancelled else AgentStatus.COMPLETED)
        await handle.result()
        has_result = any(row.action_id == RESULT for row in await town.rows(run_id))
        assert has_result == (state.status is AgentStatus.COMPLETED)


@pytest.mark.parametrize("count", range(30))
@pytest.mark.parametrize("act", ["resume", "cancel"])
async def test_a_run_that_ends_while_somebody_else_reaches_for_it_stays_ended(act: str, count: int) -> None:
    town = Town()
    run_id = await approved(town)
    async with town.process() as owner, town.process() as other:
        handle = await owner.resume(run_id)
        await turns(count)
        reaching = asyncio.ensure_future(other.resume(run_id) if act == "resume" else other.cancel(run_id))
        ends = await asyncio.gather(handle.result(), reaching, return_exceptions=True)
        reached = ends[1]
        if act == "resume" and not isinstance(reached, BaseException):
            await asyncio.gather(reached.result(), return_exceptions=True)
        state = await owner.get(run_id)
        if isinstance(reached, bool):
            assert reached == (state.status is AgentStatus.CANCELLED)
        # Whoever takes a run over in the middle of a payment cannot know what became of it, and asks.
        assert state.is_terminal or await owner.questions(run_id), ends
        rows = await town.rows(run_id)
        assert sum(row.action_id == RESULT for row in rows) == (state.status is AgentStatus.COMPLETED)
        await owner.verify(run_id)


async def test_a_cancellation_that_was_accepted_is_not_forgotten_by_a_crash() -> None:
    town = Town()
    run_id = await approved(town)
    async with town.process(StopBefore(1)) as runs:
        with pytest.raises(ProcessStopped):
            await runs.cancel(run_id)
    async with town.process() as runs:
        result = await (await runs.resume(run_id)).result()
    assert result.status is AgentStatus.CANCELLED


async def test_an_approval_behind_a_deferral_counts() -> None:
    town = Town()
    run_id = await asked(town)
    async with town.process() as runs:
        (request,) = await runs.questions(run_id)
        await runs.defer(request.id)
        await runs.approve(request.id)
        result = await (await runs.resume(run_id)).result()
    assert result.status is AgentStatus.COMPLETED


class Harbour:
    """Dies at the first ship; lets the first inquiry about it hang."""

    def __init__(self) -> None:
        self.shipped = 0
        self.dies = True
        self.inquiries = 0
        self.asked = asyncio.Event()
        self.answers = asyncio.Event()


@Pod
class Carrier:
    def __init__(self, harbour: Harbour) -> None:
        self.harbour = harbour

    @agent_tool(
        effects=ToolEffects.external_side_effect(),
        idempotency=Idempotency.NON_IDEMPOTENT,
        approval=ToolApprovalRequirement.NOT_REQUIRED,
        reconcile="find",
        reads_untrusted=False,
    )
    async def ship(self, order: str) -> str:
        """Ship an order."""
        if self.harbour.dies:
            self.harbour.dies = False
            raise ProcessStopped("before the effect")
        self.harbour.shipped += 1
        return "shipped"

    async def find(self, idempotency_key: str) -> str | None:
        """Whether the order was shipped when the inquiry began."""
        self.harbour.inquiries += 1
        found = "shipped" if self.harbour.shipped else None
        if self.harbour.inquiries == 1:
            self.harbour.asked.set()
            await self.harbour.answers.wait()
        return found


@Agent(spec=AgentExecutionSpec(recovery=RecoveryStrategy.ACTION_BOUNDARY))
class Shipper:
    def __init__(self, carrier: Carrier) -> None:
        self.carrier = carrier

    async def execute(self, order: str) -> str:
        return await self.carrier.ship(order)


def unleased(store: MemoryStore) -> tuple[object, ...]:
    """A store without leases: everybody may try, and the journal decides."""
    return (store.journal, store.states, store.signals, store.evidence, store.sealer)


def leased(store: MemoryStore) -> tuple[object, ...]:
    """A store with leases: whoever was silent for long enough is replaced."""
    return store.ports


@pytest.mark.parametrize("ports", [unleased, leased])
async def test_an_owner_that_was_replaced_while_it_inquired_does_not_act_on_the_old_answer(
    ports: Callable[[MemoryStore], tuple[object, ...]],
) -> None:
    clock, harbour = VirtualClock(), Harbour()
    store = MemoryStore(clock)

    def process() -> Application:
        app = Application("harbour").add(Shipper, Carrier, harbour, clock, *ports(store))
        initialize(app)
        return app

    async with process() as app:
        run = await app.get(AgentRuns).start(Shipper, "A-17")
        with pytest.raises(ProcessStopped):
            await run.result()
    async with process() as slow, process() as quick:
        late = await slow.get(AgentRuns).resume(run.id)
        await harbour.asked.wait()
        clock.advance(2 * LEASE_SECONDS)
        won = await (await quick.get(AgentRuns).resume(run.id)).result()
        assert won.status is AgentStatus.COMPLETED
        harbour.answers.set()
        await asyncio.gather(late.result(), return_exceptions=True)
    assert harbour.shipped == 1

"""Cancellations that come while a call acts that may not be repeated: they strike at the next call of the task."""

from __future__ import annotations

import asyncio
from contextlib import suppress

import pytest

from pilotage import (
    Agent,
    AgentRuns,
    AgentStatus,
    Application,
    Idempotency,
    Pod,
    ToolApprovalRequirement,
    ToolEffects,
    agent_tool,
)
from pilotage.testing import MemoryStore


@Pod
class Cashier:
    """Pays, and lets time run out and cancels its caller meanwhile."""

    def __init__(self) -> None:
        self.paid: list[str] = []
        self.turns = 0
        """The turns of the loop between two cancellations."""
        self.limits: list[asyncio.Timeout] = []
        self.cancels: tuple[object, ...] | None = None
        self.caller: asyncio.Task[str] | None = None

    @agent_tool(
        effects=ToolEffects.external_side_effect(),
        idempotency=Idempotency.NON_IDEMPOTENT,
        approval=ToolApprovalRequirement.NOT_REQUIRED,
        reads_untrusted=False,
    )
    async def pay(self, item: str) -> str:
        """Pay for something."""
        self.paid.append(item)
        caller, level = self.caller, 0
        while caller is not None and self.limits:
            self.limits.pop().reschedule(0)
            level += 1
            while caller.cancelling() < level:  # noqa: ASYNC110 - nothing else says that time is up
                await asyncio.sleep(0)
            for _ in range(self.turns):
                await asyncio.sleep(0)
        if caller is not None and self.cancels is not None:
            caller.cancel(*self.cancels)
            self.cancels = None
        return item


async def program(cashier: Cashier, limits: int, goes_on: bool, words: list[object]) -> str:
    """Pay within time-outs, perhaps once more there, then outside of them."""

    async def buy(left: int) -> str:
        if not left:
            return await cashier.pay("apple")
        with suppress(TimeoutError):
            async with asyncio.timeout(None) as limit:
                cashier.limits.append(limit)
                bought = await buy(left - 1)
                return f"{bought}, {await cashier.pay('pear')}" if goes_on else bought
        return f"late {left}"

    async def work() -> str:
        bought = await buy(limits)
        return f"{bought}, {await cashier.pay('plum')}"

    cashier.caller = asyncio.create_task(work())
    try:
        return await cashier.caller
    except asyncio.CancelledError as cancelled:
        words.extend(cancelled.args)
        return "cancelled"


@pytest.mark.parametrize("turns", [0, 3])
@pytest.mark.parametrize("is_durable", [True, False])
@pytest.mark.parametrize(
    ("limits", "goes_on", "cancels", "output", "paid"),
    [
        (0, False, ("enough",), "cancelled", ["apple"]),
        (1, True, None, "late 1, plum", ["apple", "plum"]),
        (2, True, None, "late 2, plum", ["apple", "plum"]),
        (1, True, (), "cancelled", ["apple"]),
        (2, True, (), "cancelled", ["apple"]),
        (1, False, None, "apple, plum", ["apple", "plum"]),
        (2, False, None, "apple, plum", ["apple", "plum"]),
        (1, False, (), "cancelled", ["apple"]),
        (2, False, (), "cancelled", ["apple"]),
    ],
)
async def test_a_time_out_takes_only_its_own_cancellation_back(
    is_durable: bool,
    limits: int,
    goes_on: bool,
    cancels: tuple[object, ...] | None,
    output: str,
    paid: list[str],
    turns: int,
) -> None:
    cashier, words = Cashier(), list[object]()
    cashier.cancels, cashier.turns = cancels, turns

    @Agent(durable=is_durable)
    class Buyer:
        def __init__(self, cashier: Cashier) -> None:
            self.cashier = cashier

        async def execute(self) -> str:
            return await program(self.cashier, limits, goes_on, words)

    app = Application("shop").add(Buyer, cashier, *MemoryStore().ports).load_plugins()
    async with asyncio.timeout(120), app:
        result = await (await app.get(AgentRuns).start(Buyer)).result()
    assert result.status is AgentStatus.COMPLETED, result.error
    assert (result.output, cashier.paid) == (output, paid)
    assert words == ["enough"] * (limits == 0)

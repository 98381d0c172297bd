"""The promises of the wake-up port; they are few, because a hint may be lost."""

from __future__ import annotations

import asyncio

import pytest

from pilotage.agent.ports.leases import IAgentWakeUps, IWakeUpSubscription
from pilotage.testing.conformance.kit import Kit

FLOOD = 2000


class WakeUpsConformance(Kit):
    """Conformance tests of every wake-up port.

    Fixtures to give: `wake_ups`, without listeners. Where a channel can be opened twice, give `second_wake_ups`
    too: another adapter over the same channel, as a second process has it.
    """

    hint_seconds = 10.0
    """Seconds after which a hint counts as lost."""

    @pytest.fixture
    def second_wake_ups(self, wake_ups: IAgentWakeUps) -> IAgentWakeUps:
        return wake_ups

    async def test_a_hint_reaches_who_listens(
        self, wake_ups: IAgentWakeUps, second_wake_ups: IAgentWakeUps
    ) -> None:
        async with wake_ups.subscribe() as listener:
            await second_wake_ups.notify("run-1")
            assert await self.received(listener) == "run-1"

    async def test_a_hint_wakes_who_waits_for_it(self, wake_ups: IAgentWakeUps) -> None:
        async with wake_ups.subscribe() as listener:
            waiting = asyncio.create_task(self.received(listener))
            await asyncio.sleep(0)
            await wake_ups.notify("run-1")
            assert await waiting == "run-1"

    async def test_hints_at_several_runs_are_all_received(self, wake_ups: IAgentWakeUps) -> None:
        async with wake_ups.subscribe() as listener:
            for run_id in ("run-1", "run-2", "run-3"):
                await wake_ups.notify(run_id)
            assert {await self.received(listener) for _ in range(3)} == {"run-1", "run-2", "run-3"}

    async def test_all_listeners_receive_a_hint(
        self, wake_ups: IAgentWakeUps, second_wake_ups: IAgentWakeUps
    ) -> None:
        async with (
            wake_ups.subscribe() as one,
            wake_ups.subscribe() as two,
            second_wake_ups.subscribe() as elsewhere,
        ):
            await wake_ups.notify("run-1")
            assert [await self.received(each) for each in (one, two, elsewhere)] == ["run-1"] * 3

    async def test_a_received_hint_can_come_again(self, wake_ups: IAgentWakeUps) -> None:
        async with wake_ups.subscribe() as listener:
            for _ in range(3):
                await wake_ups.notify("run-1")
                assert await self.received(listener) == "run-1"

    async def test_many_hints_at_a_run_are_received_as_few(self, wake_ups: IAgentWakeUps) -> None:
        async with wake_ups.subscribe() as listener:
            for _ in range(FLOOD):
                await wake_ups.notify("run-1")
            await wake_ups.notify("run-2")
            repeated = 0
            while await self.received(listener) != "run-2":
                repeated += 1
            assert repeated < FLOOD / 2

    async def test_a_slow_listener_blocks_no_other_and_gets_hints_later(
        self, wake_ups: IAgentWakeUps
    ) -> None:
        async with wake_ups.subscribe() as slow, wake_ups.subscribe() as other:
            for number in range(FLOOD):
                await wake_ups.notify(f"run-{number}")
            # Each received hint makes room, so a repeated one gets in and to the front.
            for listener in (slow, other):
                received = ""
                for _ in range(2 * FLOOD):
                    if received != "fresh":
                        await wake_ups.notify("fresh")
                        received = await self.received(listener)
                assert received == "fresh"

    async def test_who_is_cancelled_while_waiting_misses_nothing(self, wake_ups: IAgentWakeUps) -> None:
        async with wake_ups.subscribe() as listener:
            waiting = asyncio.create_task(listener.next())
            await asyncio.sleep(0)
            await wake_ups.notify("run-1")
            waiting.cancel()
            await asyncio.wait([waiting])
            received = "run-1" if not waiting.cancelled() else await self.received(listener)
            assert received == "run-1"

    async def test_who_has_left_is_not_missed(
        self, wake_ups: IAgentWakeUps, second_wake_ups: IAgentWakeUps
    ) -> None:
        async with wake_ups.subscribe() as listener:
            async with second_wake_ups.subscribe():
                pass
            await second_wake_ups.notify("run-1")
            assert await self.received(listener) == "run-1"
        await wake_ups.notify("run-2")

    async def test_a_new_subscription_receives_hints_again(self, wake_ups: IAgentWakeUps) -> None:
        for run_id in ("run-1", "run-2"):
            async with wake_ups.subscribe() as listener:
                await wake_ups.notify(run_id)
                assert await self.received(listener) == run_id

    async def received(self, listener: IWakeUpSubscription) -> str:
        """Return the next hint, unless it takes too long."""
        return await asyncio.wait_for(listener.next(), self.hint_seconds)

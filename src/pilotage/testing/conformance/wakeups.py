"""The promises of the wake-up port; they are few, because a hint may be lost."""

from __future__ import annotations

import asyncio

import pytest

from pilotage.agent.ports.leases import IAgentWakeUps, IWakeUpSubscription
from pilotage.testing.conformance.kit import Kit

FLOOD = 2000


class WakeUpsConformance(Kit):
    """What every wake-up port must do.

    Fixtures to give: `wake_ups`, with nobody listening. Where a channel can be opened twice, give `second_wake_ups`
    too: another adapter over the same channel, as a second process has it.
    """

    patience = 10.0
    """Seconds after which a hint is taken for lost; one that comes costs none of them."""

    @pytest.fixture
    def second_wake_ups(self, wake_ups: IAgentWakeUps) -> IAgentWakeUps:
        return wake_ups

    async def test_a_hint_reaches_who_listens(
        self, wake_ups: IAgentWakeUps, second_wake_ups: IAgentWakeUps
    ) -> None:
        async with wake_ups.subscribe() as listener:
            await second_wake_ups.notify("run-1")
            assert await self.heard(listener) == "run-1"

    async def test_a_hint_wakes_who_waits_for_it(self, wake_ups: IAgentWakeUps) -> None:
        async with wake_ups.subscribe() as listener:
            waiting = asyncio.create_task(self.heard(listener))
            await asyncio.sleep(0)
            await wake_ups.notify("run-1")
            assert await waiting == "run-1"

    async def test_hints_at_several_runs_are_all_heard(self, wake_ups: IAgentWakeUps) -> None:
        async with wake_ups.subscribe() as listener:
            for run_id in ("run-1", "run-2", "run-3"):
                await wake_ups.notify(run_id)
            assert {await self.heard(listener) for _ in range(3)} == {"run-1", "run-2", "run-3"}

    async def test_everybody_who_listens_hears_a_hint(
        self, wake_ups: IAgentWakeUps, second_wake_ups: IAgentWakeUps
    ) -> None:
        async with (
            wake_ups.subscribe() as one,
            wake_ups.subscribe() as two,
            second_wake_ups.subscribe() as elsewhere,
        ):
            await wake_ups.notify("run-1")
            assert [await self.heard(each) for each in (one, two, elsewhere)] == ["run-1"] * 3

    async def test_a_hint_that_was_heard_can_come_again(self, wake_ups: IAgentWakeUps) -> None:
        async with wake_ups.subscribe() as listener:
            for _ in range(3):
                await wake_ups.notify("run-1")
                assert await self.heard(listener) == "run-1"

    async def test_many_hints_at_a_run_are_heard_as_few(self, wake_ups: IAgentWakeUps) -> None:
        async with wake_ups.subscribe() as listener:
            for _ in range(FLOOD):
                await wake_ups.notify("run-1")
            await wake_ups.notify("run-2")
            repeated = 0
            while await self.heard(listener) != "run-2":
                repeated += 1
            assert repeated < FLOOD / 2

    async def test_who_does_not_keep_up_holds_nobody_up_and_hears_again_later(
        self, wake_ups: IAgentWakeUps
    ) -> None:
        async with wake_ups.subscribe() as slow, wake_ups.subscribe() as other:
            for number in range(FLOOD):
                await wake_ups.notify(f"run-{number}")
            # Each hint that is heard makes room, so a repeated one gets in and to the front.
            for listener in (slow, other):
                heard = ""
                for _ in range(2 * FLOOD):
                    if heard != "fresh":
                        await wake_ups.notify("fresh")
                        heard = await self.heard(listener)
                assert heard == "fresh"

    async def test_who_is_cancelled_while_waiting_misses_nothing(self, wake_ups: IAgentWakeUps) -> None:
        async with wake_ups.subscribe() as listener:
            waiting = asyncio.create_task(listener.next())
            await asyncio.sleep(0)
            await wake_ups.notify("run-1")
            waiting.cancel()
            await asyncio.wait([waiting])
            heard = "run-1" if not waiting.cancelled() else await self.heard(listener)
            assert heard == "run-1"

    async def test_who_has_left_is_not_missed(
        self, wake_ups: IAgentWakeUps, second_wake_ups: IAgentWakeUps
    ) -> None:
        async with wake_ups.subscribe() as listener:
            async with second_wake_ups.subscribe():
                pass
            await second_wake_ups.notify("run-1")
            assert await self.heard(listener) == "run-1"
        await wake_ups.notify("run-2")

    async def test_who_comes_back_hears_again(self, wake_ups: IAgentWakeUps) -> None:
        for run_id in ("run-1", "run-2"):
            async with wake_ups.subscribe() as listener:
                await wake_ups.notify(run_id)
                assert await self.heard(listener) == run_id

    async def heard(self, listener: IWakeUpSubscription) -> str:
        """Return the next hint, unless it takes too long."""
        return await asyncio.wait_for(listener.next(), self.patience)

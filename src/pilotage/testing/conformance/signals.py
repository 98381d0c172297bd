"""The promises of the signal repository."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import replace
from datetime import UTC, datetime, timedelta, timezone

import pytest

from pilotage.agent.ports.repositories import IAgentSignalRepository
from pilotage.agent.signals import AgentSignal, AgentSignalKind, AgentSignalLane, select_signals
from pilotage.errors import SignalNotFoundError
from pilotage.jsonvalue import JsonValue
from pilotage.testing.conformance.samples import PAYLOAD

SIGNAL = AgentSignal("signal-1", "run-1", AgentSignalKind.USER_MESSAGE, PAYLOAD)


async def pending(signals: IAgentSignalRepository, run_id: str = "run-1") -> Sequence[str]:
    """The ids of the signals that wait for a run."""
    return [each.id for each in await signals.list_pending(run_id)]


class SignalRepositoryConformance:
    """What every signal repository must do.

    Fixtures to give: `signals`, over an empty store, for the tenant "default" (or all), and `foreign_signals`,
    over the same store, for the tenant "elsewhere".
    """

    pytestmark = pytest.mark.asyncio

    async def test_nothing_waits_for_a_run_without_signals(self, signals: IAgentSignalRepository) -> None:
        assert await signals.list_pending("run-1") == []

    async def test_a_signal_comes_back_unchanged(self, signals: IAgentSignalRepository) -> None:
        moment = datetime(2026, 3, 29, 3, 30, 0, 123456, tzinfo=timezone(timedelta(hours=2)))
        given = replace(SIGNAL, created_at=moment)
        assert await signals.append(given) == given
        assert await signals.list_pending("run-1") == [given]

    async def test_a_signal_without_a_time_gets_the_stores(self, signals: IAgentSignalRepository) -> None:
        stored = await signals.append(SIGNAL)
        assert stored.created_at is not None
        assert stored.created_at.utcoffset() is not None
        assert replace(stored, created_at=None) == SIGNAL

    async def test_signals_wait_in_the_order_they_came_whatever_their_ids_and_times(
        self, signals: IAgentSignalRepository
    ) -> None:
        for day, signal_id in ((3, "c"), (2, "a"), (1, "b")):
            await signals.append(replace(SIGNAL, id=signal_id, created_at=datetime(2026, 1, day, tzinfo=UTC)))
        assert await pending(signals) == ["c", "a", "b"]

    async def test_signals_of_both_lanes_wait_in_one_queue_from_which_control_is_taken_first(
        self, signals: IAgentSignalRepository
    ) -> None:
        kinds = list(AgentSignalKind)
        for kind in kinds:
            await signals.append(replace(SIGNAL, id=kind.value, kind=kind))
        waiting = await signals.list_pending("run-1")
        assert [each.kind for each in waiting] == kinds
        selected = [each.kind.lane for each in select_signals(waiting)]
        assert selected == [AgentSignalLane.CONTROL] * 4 + [AgentSignalLane.MESSAGE] * 4

    async def test_a_signal_keeps_its_place_however_many_come_at_the_same_time(
        self, signals: IAgentSignalRepository
    ) -> None:
        seen: Sequence[str] = []
        for batch in range(4):
            coming = [replace(SIGNAL, id=f"{9 - batch}-{number}") for number in range(5)]
            await asyncio.gather(*map(signals.append, coming))
            now = await pending(signals)
            assert now[: len(seen)] == seen
            assert sorted(now[len(seen) :]) == [each.id for each in coming]
            seen = now

    async def test_an_id_is_queued_once_and_the_first_signal_stays(
        self, signals: IAgentSignalRepository
    ) -> None:
        first = await signals.append(SIGNAL)
        assert await signals.append(replace(SIGNAL, payload={"text": "changed"})) == first
        assert await signals.list_pending("run-1") == [first]

    async def test_an_id_is_queued_once_even_if_it_comes_twice_at_the_same_time(
        self, signals: IAgentSignalRepository
    ) -> None:
        one, two = await asyncio.gather(signals.append(SIGNAL), signals.append(SIGNAL))
        assert one == two
        assert await pending(signals) == ["signal-1"]

    async def test_a_consumed_signal_waits_no_more_and_does_not_come_back(
        self, signals: IAgentSignalRepository
    ) -> None:
        first = await signals.append(SIGNAL)
        await signals.append(replace(SIGNAL, id="signal-2"))
        assert await signals.mark_consumed("signal-1") == first
        assert await signals.append(SIGNAL) == first
        assert await pending(signals) == ["signal-2"]

    async def test_a_signal_is_consumed_once(self, signals: IAgentSignalRepository) -> None:
        await signals.append(SIGNAL)
        await signals.mark_consumed("signal-1")
        with pytest.raises(SignalNotFoundError):
            await signals.mark_consumed("signal-1")

    async def test_an_unknown_signal_cannot_be_consumed(self, signals: IAgentSignalRepository) -> None:
        with pytest.raises(SignalNotFoundError):
            await signals.mark_consumed("signal-9")

    async def test_each_run_has_its_own_queue(self, signals: IAgentSignalRepository) -> None:
        await signals.append(SIGNAL)
        await signals.append(replace(SIGNAL, id="signal-2", agent_state_id="run-2"))
        assert await pending(signals, "run-1") == ["signal-1"]
        assert await pending(signals, "run-2") == ["signal-2"]

    async def test_another_tenants_signal_is_not_found(
        self, signals: IAgentSignalRepository, foreign_signals: IAgentSignalRepository
    ) -> None:
        await signals.append(SIGNAL)
        assert await foreign_signals.list_pending("run-1") == []
        with pytest.raises(SignalNotFoundError):
            await foreign_signals.mark_consumed("signal-1")
        assert await pending(signals) == ["signal-1"]

    async def test_what_is_stored_is_nobodys_object(self, signals: IAgentSignalRepository) -> None:
        shared: dict[str, JsonValue] = {"amount": 1}
        stored = await signals.append(replace(SIGNAL, payload=shared))
        shared["amount"] = 2
        assert isinstance(stored.payload, dict)
        stored.payload["amount"] = 3
        assert [each.payload for each in await signals.list_pending("run-1")] == [{"amount": 1}]

"""The promises of the signal repository."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import replace
from datetime import UTC, datetime, timedelta, timezone

import pytest

from pilotage.agent.ports.persistence import RunKey
from pilotage.agent.ports.repositories import IAgentSignalRepository
from pilotage.agent.signals import (
    AgentSignal,
    AgentSignalEnd,
    AgentSignalKind,
    AgentSignalLane,
    AgentSteeringUpdate,
    select_signals,
)
from pilotage.errors import CallerError, SignalNotFoundError
from pilotage.jsonvalue import JsonObject, JsonValue
from pilotage.testing.conformance.kit import PAYLOAD, Kit

SIGNAL = AgentSignal("signal-1", "run-1", AgentSignalKind.USER_MESSAGE, {**PAYLOAD, "text": "more"})


async def pending(signals: IAgentSignalRepository, run_id: str = "run-1") -> Sequence[str]:
    """Return the ids of the signals that wait for a run."""
    return [each.id for each in await signals.list_pending(run_id)]


def _answer(signal_id: str, decision: str) -> AgentSignal:
    kind = AgentSignalKind.APPROVAL_DECISION
    return AgentSignal(signal_id, "run-1", kind, {"decision": decision})


class SignalRepositoryConformance(Kit):
    """Conformance tests of every signal repository.

    Fixtures to give: `signals`, over an empty store, for the tenant "default" (or all), and `foreign_signals`,
    over the same store, for the tenant "elsewhere".
    """

    async def test_nothing_waits_for_a_run_without_signals(self, signals: IAgentSignalRepository) -> None:
        assert await signals.list_pending("run-1") == []

    async def test_a_signal_comes_back_unchanged(self, signals: IAgentSignalRepository) -> None:
        moment = datetime(2026, 3, 29, 3, 30, microsecond=123456, tzinfo=timezone(timedelta(hours=2)))
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

    @pytest.mark.parametrize("kind", [AgentSignalKind.USER_MESSAGE, AgentSignalKind.STEERING_INSTRUCTION])
    @pytest.mark.parametrize("payload", [{}, {"text": " "}, {"message": 7}, {"words": "stop"}])
    async def test_a_message_without_words_is_refused(
        self, signals: IAgentSignalRepository, kind: AgentSignalKind, payload: JsonObject
    ) -> None:
        with pytest.raises(CallerError, match="has no text"):
            await signals.append(AgentSignal("signal-1", "run-1", kind, payload))
        assert await pending(signals) == []
        await signals.append(AgentSignal("signal-1", "run-1", kind, {"message": "stop"}))
        assert await pending(signals) == ["signal-1"]

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

    async def test_each_run_with_a_pending_signal_has_a_mark_that_a_newer_one_changes(
        self, signals: IAgentSignalRepository
    ) -> None:
        runs = dict.fromkeys(RunKey("default", f"run-{number}") for number in (1, 2, 3))
        one, two, _ = runs
        assert await signals.newest_pending(runs.keys()) == {}
        for number in (1, 2, 9):
            await signals.append(replace(SIGNAL, id=f"first-{number}", agent_state_id=f"run-{number}"))
        first = await signals.newest_pending(runs.keys())
        assert set(first) == {one, two}
        assert await signals.newest_pending(runs.keys()) == first
        await signals.append(replace(SIGNAL, id="another", agent_state_id="run-2"))
        second = await signals.newest_pending(runs.keys())
        assert (second[one] == first[one], second[two] == first[two]) == (True, False)
        await signals.mark_consumed("first-2")
        assert await signals.newest_pending(runs.keys()) == second
        await signals.mark_consumed("another")
        assert await signals.newest_pending(runs.keys()) == {one: first[one]}
        await signals.append(replace(SIGNAL, id="a third", agent_state_id="run-2"))
        assert (await signals.newest_pending(runs.keys()))[two] not in (first[two], second[two])
        assert await signals.newest_pending(frozenset()) == {}

    async def test_the_marks_of_another_tenant_are_not_given(
        self, signals: IAgentSignalRepository, foreign_signals: IAgentSignalRepository
    ) -> None:
        await foreign_signals.append(SIGNAL)
        assert await signals.newest_pending({RunKey("default", "run-1")}) == {}
        assert set(await foreign_signals.newest_pending({RunKey("elsewhere", "run-1")})) == {
            RunKey("elsewhere", "run-1")
        }

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

    async def test_a_consumed_signal_cannot_be_consumed_again(self, signals: IAgentSignalRepository) -> None:
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

    async def test_of_two_different_answers_with_one_key_at_the_same_time_one_is_stored(
        self, signals: IAgentSignalRepository
    ) -> None:
        """The key of a question is the id of its answer: the first one closes the question."""
        for number in range(10):
            answers = [_answer(f"key-{number}", decision) for decision in ("approve", "reject")]
            one, two = await asyncio.gather(*map(signals.append, answers))
            assert one == two
            assert one.payload in [each.payload for each in answers]

    async def test_several_signals_are_queued_together_in_their_order(
        self, signals: IAgentSignalRepository
    ) -> None:
        given = [
            replace(_answer("c", "approve"), agent_state_id="run-2"),
            _answer("b", "approve"),
            _answer("a", "reject"),
        ]
        stored = await signals.append_all(given)
        assert {name: each.payload for name, each in stored.items()} == {
            each.id: each.payload for each in given
        }
        assert all(each.created_at is not None for each in stored.values())
        assert (await pending(signals), await pending(signals, "run-2")) == (["b", "a"], ["c"])

    async def test_of_several_signals_none_is_queued_if_one_is_there(
        self, signals: IAgentSignalRepository
    ) -> None:
        first = await signals.append(_answer("b", "approve"))
        given = [
            _answer("a", "reject"),
            _answer("b", "reject"),
            replace(_answer("c", "x"), agent_state_id="run-2"),
        ]
        assert await signals.append_all(given) == {"b": first}
        assert (await pending(signals), await pending(signals, "run-2")) == (["b"], [])
        assert await signals.append_all([_answer("b", "reject")]) == {"b": first}

    async def test_of_overlapping_signals_at_the_same_time_one_side_is_queued(
        self, signals: IAgentSignalRepository
    ) -> None:
        for number in range(10):
            shared = f"shared-{number}"
            sides = [
                [_answer(f"{side}-{number}", side), _answer(shared, side)][:: 1 if side == "left" else -1]
                for side in ("left", "right")
            ]
            one, two = await asyncio.gather(*map(signals.append_all, sides))
            assert one[shared] == two[shared]
            counts = one[shared].payload["decision"]
            queued = await pending(signals)
            assert [f"{side}-{number}" in queued for side in ("left", "right")] == [
                counts == "left",
                counts == "right",
            ]

    async def test_a_refused_answer_is_stored_and_is_not_pending(
        self, signals: IAgentSignalRepository
    ) -> None:
        first = await signals.append(_answer("first", "approve"))
        refused = await signals.record_refused(_answer("second", "reject"))
        assert (refused.end, refused.payload) == (AgentSignalEnd.REFUSED, {"decision": "reject"})
        assert refused.created_at is not None
        assert await pending(signals) == ["first"]
        answers = await signals.list_answers("run-1")
        assert answers == [first, refused]
        assert [each.end for each in answers] == [None, AgentSignalEnd.REFUSED]

    async def test_a_refused_answer_is_stored_once(self, signals: IAgentSignalRepository) -> None:
        first = await signals.record_refused(_answer("one", "reject"))
        assert await signals.record_refused(_answer("one", "cancel")) == first
        assert await signals.append(_answer("one", "approve")) == first
        assert await signals.list_answers("run-1") == [first]

    async def test_answers_are_listed_after_they_were_taken_and_without_other_signals(
        self, signals: IAgentSignalRepository
    ) -> None:
        await signals.append(SIGNAL)
        taken = await signals.append(_answer("taken", "approve"))
        await signals.append(replace(_answer("other", "approve"), agent_state_id="run-2"))
        await signals.mark_consumed("taken")
        assert await signals.list_answers("run-1") == [taken]

    async def test_steering_instructions_are_listed_with_their_ends_and_without_other_signals(
        self, signals: IAgentSignalRepository
    ) -> None:
        await signals.append(_answer("answer", "approve"))
        kind = AgentSignalKind.STEERING_INSTRUCTION
        first = AgentSteeringUpdate("a", "left")
        for update in (first, AgentSteeringUpdate("a", revision=2, withdrawn=True)):
            await signals.append(AgentSignal(update.signal_id("run-1"), "run-1", kind, update.to_payload()))
        await signals.append(AgentSignal("other", "run-2", kind, {"text": "left"}))
        await signals.mark_consumed(first.signal_id("run-1"))
        listed = await signals.list_steering("run-1")
        assert [(each.payload["revision"], each.end) for each in listed] == [
            (1, AgentSignalEnd.TAKEN),
            (2, None),
        ]

    @pytest.mark.parametrize(
        "payload",
        [
            {"input_id": "a"},
            {"input_id": "a", "text": "left", "revision": 0},
            {"input_id": "a", "text": "left", "revision": "2"},
            {"input_id": " ", "withdrawn": True},
        ],
    )
    async def test_an_instruction_that_is_no_revision_of_the_input_it_names_is_refused(
        self, signals: IAgentSignalRepository, payload: JsonObject
    ) -> None:
        with pytest.raises(CallerError):
            await signals.append(
                AgentSignal("signal-1", "run-1", AgentSignalKind.STEERING_INSTRUCTION, payload)
            )
        assert await pending(signals) == []

    async def test_another_tenants_answers_and_instructions_are_not_listed(
        self, signals: IAgentSignalRepository, foreign_signals: IAgentSignalRepository
    ) -> None:
        await signals.append(_answer("one", "approve"))
        await signals.record_refused(_answer("two", "reject"))
        await signals.append(
            AgentSignal("three", "run-1", AgentSignalKind.STEERING_INSTRUCTION, {"text": "left"})
        )
        assert await foreign_signals.list_answers("run-1") == []
        assert await foreign_signals.list_steering("run-1") == []

    async def test_a_change_of_a_returned_signal_does_not_reach_the_store(
        self, signals: IAgentSignalRepository
    ) -> None:
        shared: dict[str, JsonValue] = {"text": "pay", "amount": 1}
        stored = await signals.append(replace(SIGNAL, payload=shared))
        shared["amount"] = 2
        assert isinstance(stored.payload, dict)
        stored.payload["amount"] = 3
        assert [each.payload for each in await signals.list_pending("run-1")] == [
            {"text": "pay", "amount": 1}
        ]

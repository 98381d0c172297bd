"""The promises of the state repository and of the signal repository."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import replace
from datetime import UTC, datetime, timedelta, timezone

import pytest

from pilotage.agent.ports.repositories import IAgentSignalRepository, IAgentStateRepository, RunPage
from pilotage.agent.signals import (
    AgentSignal,
    AgentSignalEnd,
    AgentSignalKind,
    AgentSignalLane,
    AgentSteeringUpdate,
    select_signals,
)
from pilotage.agent.state import AgentState, AgentStateReason, AgentStateTransition, AgentStatus
from pilotage.errors import AgentDefinitionError, CallerError, RunNotFoundError, SignalNotFoundError
from pilotage.jsonvalue import JsonObject, JsonValue
from pilotage.testing.conformance.kit import Kit
from pilotage.testing.conformance.samples import PAYLOAD

CREATED = AgentState("run-1", "shop:Refunds", AgentStatus.CREATED)
WAITING = AgentState(
    id="run-1",
    agent_type="shop:Refunds",
    status=AgentStatus.INTERRUPTED,
    transition=AgentStateTransition.WAITING_APPROVAL,
    reason=AgentStateReason.APPROVAL_REQUIRED,
    current_activity="waits for Ada",
    input_ref="input-1",
    output_ref="output-1",
    last_event_cursor="17",
    recovery_marker="marker",
    metadata=PAYLOAD,
)

SIGNAL = AgentSignal("signal-1", "run-1", AgentSignalKind.USER_MESSAGE, {**PAYLOAD, "text": "more"})


async def pages(states: IAgentStateRepository, limit: int) -> Sequence[Sequence[str]]:
    """Return the ids of all runs of the tenant "default", page by page."""
    page = await states.list_runs("default", limit=limit)
    found = [[each.id for each in page.runs]]
    while page.cursor is not None and len(found) < 10:  # one that goes in circles is noticed, not followed
        page = await states.list_runs("default", limit=limit, after=page.cursor)
        found.append([each.id for each in page.runs])
    return found


class StateRepositoryConformance(Kit):
    """Conformance tests of every state repository.

    Fixtures to give: `states`, over an empty store, for the tenant "default" (or all), and `foreign_states`, over
    the same store, for the tenant "elsewhere".
    """

    async def test_an_unknown_run_is_not_found(self, states: IAgentStateRepository) -> None:
        assert await states.get_or_none("run-9") is None
        with pytest.raises(RunNotFoundError):
            await states.get("run-9")

    async def test_a_state_comes_back_unchanged(self, states: IAgentStateRepository) -> None:
        await states.save(WAITING)
        stored = await states.get("run-1")
        assert replace(stored, created_at=None, updated_at=None) == WAITING
        assert await states.get_or_none("run-1") == stored

    async def test_saving_gives_back_what_was_stored_with_timestamps(
        self, states: IAgentStateRepository
    ) -> None:
        saved = await states.save(CREATED)
        assert saved == await states.get("run-1")
        assert saved.created_at is not None
        assert saved.updated_at is not None
        assert saved.created_at.utcoffset() is not None
        assert saved.updated_at.utcoffset() is not None

    async def test_saving_again_replaces_all_but_the_time_of_creation(
        self, states: IAgentStateRepository
    ) -> None:
        first = await states.save(CREATED)
        second = await states.save(WAITING)
        assert second.created_at == first.created_at
        assert second.updated_at is not None
        assert first.updated_at is not None
        assert second.updated_at >= first.updated_at
        assert (await states.get("run-1")).metadata == PAYLOAD

    async def test_a_given_time_of_creation_is_stored_as_the_same_moment(
        self, states: IAgentStateRepository
    ) -> None:
        moment = datetime(2026, 3, 29, 3, 30, microsecond=123456, tzinfo=timezone(timedelta(hours=2)))
        await states.save(replace(CREATED, created_at=moment))
        stored = (await states.get("run-1")).created_at
        assert stored == moment
        assert stored is not None
        assert stored.utcoffset() is not None

    async def test_runs_in_a_status_come_oldest_first(self, states: IAgentStateRepository) -> None:
        for run_id in ("c", "a", "b"):
            await states.save(replace(CREATED, id=run_id, created_at=datetime(2026, 1, 1, tzinfo=UTC)))
        await states.save(replace(CREATED, id="d", status=AgentStatus.COMPLETED))
        await states.save(replace(CREATED, id="c", current_activity="changed last, still the oldest"))
        assert [each.id for each in await states.list_by_status(AgentStatus.CREATED)] == ["c", "a", "b"]

    async def test_resume_candidates_are_active_interrupted_or_cancelling(
        self, states: IAgentStateRepository
    ) -> None:
        for status in AgentStatus:
            await states.save(replace(CREATED, id=status.value, status=status))
        found = [each.id for each in await states.list_resume_candidates()]
        assert found == ["active", "interrupted", "cancelling"]

    async def test_no_runs_are_one_empty_page(self, states: IAgentStateRepository) -> None:
        assert await states.list_runs("default") == RunPage(())

    async def test_runs_are_listed_newest_first_whatever_their_ids_and_times(
        self, states: IAgentStateRepository
    ) -> None:
        for day, run_id in ((3, "c"), (2, "a"), (1, "b")):
            await states.save(replace(CREATED, id=run_id, created_at=datetime(2026, 1, day, tzinfo=UTC)))
        await states.save(replace(WAITING, id="c"))
        assert await pages(states, 50) == [["b", "a", "c"]]
        assert (await states.list_runs("default")).runs[2] == await states.get("c")

    @pytest.mark.parametrize(
        "expected", [[["5", "4"], ["3", "2"], ["1"]], [["4", "3"], ["2", "1"]], [["2", "1"]], [["1"]]]
    )
    async def test_a_page_leads_to_the_next_until_there_is_none(
        self, states: IAgentStateRepository, expected: list[list[str]]
    ) -> None:
        for number in range(1, 1 + sum(map(len, expected))):
            await states.save(replace(CREATED, id=str(number)))
        assert await pages(states, 2) == expected

    async def test_runs_that_come_and_change_in_between_neither_shift_nor_repeat_anything(
        self, states: IAgentStateRepository
    ) -> None:
        for run_id in ("first", "second", "third", "fourth"):
            await states.save(replace(CREATED, id=run_id))
        page = await states.list_runs("default", limit=2)
        await states.save(replace(CREATED, id="newcomer"))
        await states.save(replace(WAITING, id="third"))
        await states.save(replace(WAITING, id="second"))
        rest = await states.list_runs("default", limit=2, after=page.cursor)
        assert [each.id for each in page.runs + rest.runs] == ["fourth", "third", "second", "first"]
        assert rest.cursor is None

    async def test_runs_are_listed_by_status_and_agent_page_by_page(
        self, states: IAgentStateRepository
    ) -> None:
        for number, status in enumerate([*AgentStatus, *AgentStatus]):
            agent = "shop:Refunds" if number < len(AgentStatus) else "shop:Orders"
            await states.save(replace(CREATED, id=str(number), status=status, agent_type=agent))
        ended = [status for status in AgentStatus if status.is_terminal]
        orders = await states.list_runs("default", agent_type="shop:Orders")
        both = await states.list_runs("default", agent_type="shop:Refunds", statuses=ended)
        first = await states.list_runs("default", statuses=ended, limit=4)
        rest = await states.list_runs("default", statuses=ended, limit=4, after=first.cursor)
        assert [each.id for each in orders.runs] == ["13", "12", "11", "10", "9", "8", "7"]
        assert [each.id for each in both.runs] == ["6", "5", "4"]
        assert [each.id for each in first.runs] == ["13", "12", "11", "6"]
        assert ([each.id for each in rest.runs], rest.cursor) == (["5", "4"], None)

    async def test_runs_are_listed_by_the_time_they_were_created(self, states: IAgentStateRepository) -> None:
        days = [datetime(2026, 1, day, 12, tzinfo=UTC) for day in (1, 2, 3, 4)]
        for number, moment in enumerate(days, start=1):
            await states.save(replace(CREATED, id=str(number), created_at=moment))
        later = await states.list_runs("default", since=days[2])
        between = await states.list_runs("default", since=days[1], until=days[3])
        elsewhere = days[1].astimezone(timezone(timedelta(hours=9)))
        earlier = await states.list_runs("default", until=elsewhere)
        assert [each.id for each in later.runs] == ["4", "3"]
        assert [each.id for each in between.runs] == ["3", "2"]
        assert [each.id for each in earlier.runs] == ["1"]

    async def test_a_list_of_runs_refuses_a_moment_without_a_time_zone(
        self, states: IAgentStateRepository
    ) -> None:
        with pytest.raises(AgentDefinitionError):
            await states.list_runs("default", since=datetime(2026, 1, 1))  # noqa: DTZ001 - the mistake

    @pytest.mark.parametrize("cursor", ["", "not a cursor", "-1", "²"])
    async def test_what_is_no_cursor_leads_to_no_page(
        self, states: IAgentStateRepository, cursor: str
    ) -> None:
        with pytest.raises(CallerError):
            await states.list_runs("default", after=cursor)

    async def test_a_page_has_room_for_a_run(self, states: IAgentStateRepository) -> None:
        with pytest.raises(AgentDefinitionError):
            await states.list_runs("default", limit=0)

    async def test_another_tenants_runs_are_not_listed(
        self, states: IAgentStateRepository, foreign_states: IAgentStateRepository
    ) -> None:
        await states.save(CREATED)
        await foreign_states.save(replace(CREATED, id="theirs", tenant_id="elsewhere"))
        await states.save(replace(CREATED, id="run-2"))
        assert await pages(states, 1) == [["run-2"], ["run-1"]]
        assert [each.id for each in (await foreign_states.list_runs("elsewhere")).runs] == ["theirs"]
        assert await foreign_states.list_runs("default") == RunPage(())

    async def test_another_tenants_run_is_not_found(
        self, states: IAgentStateRepository, foreign_states: IAgentStateRepository
    ) -> None:
        await states.save(replace(CREATED, status=AgentStatus.ACTIVE))
        assert await foreign_states.get_or_none("run-1") is None
        assert await foreign_states.get_with_head("run-1") is None
        with pytest.raises(RunNotFoundError):
            await foreign_states.get("run-1")
        assert await foreign_states.list_by_status(AgentStatus.ACTIVE) == []
        assert await foreign_states.list_resume_candidates() == []

    async def test_another_tenants_run_cannot_be_saved(
        self, states: IAgentStateRepository, foreign_states: IAgentStateRepository
    ) -> None:
        await states.save(CREATED)
        with pytest.raises(RunNotFoundError):
            await foreign_states.save(replace(CREATED, current_activity="taken over"))
        assert (await states.get("run-1")).current_activity is None

    async def test_a_change_of_a_returned_state_does_not_reach_the_store(
        self, states: IAgentStateRepository
    ) -> None:
        shared: dict[str, JsonValue] = {"amount": 1}
        saved = await states.save(replace(CREATED, metadata=shared))
        shared["amount"] = 2
        assert isinstance(saved.metadata, dict)
        saved.metadata["amount"] = 3
        assert (await states.get("run-1")).metadata == {"amount": 1}


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

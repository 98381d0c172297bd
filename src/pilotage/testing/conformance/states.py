"""The promises of the state repository."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from datetime import UTC, datetime, timedelta, timezone

import pytest

from pilotage.agent.ports.repositories import IAgentStateRepository, RunPage
from pilotage.agent.state import AgentState, AgentStateReason, AgentStateTransition, AgentStatus
from pilotage.errors import AgentDefinitionError, CallerError, RunNotFoundError
from pilotage.jsonvalue import JsonValue
from pilotage.testing.conformance.kit import PAYLOAD, Kit

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

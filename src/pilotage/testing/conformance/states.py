"""The promises of the state repository."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime, timedelta, timezone

import pytest

from pilotage.agent.ports.repositories import IAgentStateRepository
from pilotage.agent.state import AgentState, AgentStateReason, AgentStateTransition, AgentStatus
from pilotage.errors import RunNotFoundError
from pilotage.jsonvalue import JsonValue
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


class StateRepositoryConformance:
    """What every state repository must do.

    Fixtures to give: `states`, over an empty store, for the tenant "default" (or all), and `foreign_states`, over
    the same store, for the tenant "elsewhere".
    """

    pytestmark = pytest.mark.asyncio

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

    async def test_a_given_time_of_creation_is_kept_as_the_moment_it_is(
        self, states: IAgentStateRepository
    ) -> None:
        moment = datetime(2026, 3, 29, 3, 30, 0, 123456, tzinfo=timezone(timedelta(hours=2)))
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

    async def test_another_tenants_run_is_not_found(
        self, states: IAgentStateRepository, foreign_states: IAgentStateRepository
    ) -> None:
        await states.save(replace(CREATED, status=AgentStatus.ACTIVE))
        assert await foreign_states.get_or_none("run-1") is None
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

    async def test_what_is_stored_is_nobodys_object(self, states: IAgentStateRepository) -> None:
        shared: dict[str, JsonValue] = {"amount": 1}
        saved = await states.save(replace(CREATED, metadata=shared))
        shared["amount"] = 2
        assert isinstance(saved.metadata, dict)
        saved.metadata["amount"] = 3
        assert (await states.get("run-1")).metadata == {"amount": 1}

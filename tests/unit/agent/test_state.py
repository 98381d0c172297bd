"""The state of a run and the one table of its transitions."""

from __future__ import annotations

from dataclasses import FrozenInstanceError
from datetime import UTC, datetime

import pytest

from pilotage.agent.state import (
    AgentSituation,
    AgentState,
    AgentStateReason,
    AgentStateTransition,
    AgentStatus,
    can_move,
)
from pilotage.errors import AgentDefinitionError

ALLOWED = {
    AgentStatus.CREATED: {"active", "cancelling", "failed"},
    AgentStatus.ACTIVE: {"active", "interrupted", "cancelling", "completed", "failed"},
    AgentStatus.INTERRUPTED: {"active", "interrupted", "cancelling", "failed"},
    AgentStatus.CANCELLING: {"cancelling", "cancelled", "failed"},
    AgentStatus.COMPLETED: set[str](),
    AgentStatus.FAILED: set[str](),
    AgentStatus.CANCELLED: set[str](),
}


@pytest.mark.parametrize("current", AgentStatus)
def test_a_run_goes_only_where_the_table_allows(current: AgentStatus) -> None:
    assert {str(target) for target in AgentStatus if can_move(current, target)} == ALLOWED[current]


@pytest.mark.parametrize("status", AgentStatus)
def test_exactly_the_terminal_statuses_lead_nowhere(status: AgentStatus) -> None:
    assert status.is_terminal == (ALLOWED[status] == set())


@pytest.mark.parametrize(
    ("situation", "triple"),
    [
        (AgentSituation.WAITING_FOR_APPROVAL, ("interrupted", "waiting_approval", "approval_required")),
        (AgentSituation.APPROVAL_DEFERRED, ("interrupted", "waiting_approval", "approval_deferred")),
        (AgentSituation.RUNNING, ("active", "running", None)),
        (AgentSituation.APPROVAL_REJECTED, ("failed", "failed", "approval_rejected")),
        (AgentSituation.CANCELLING, ("cancelling", "cancelling", "cancellation_requested")),
        (AgentSituation.CANCELLED, ("cancelled", "cancelled", "cancellation_requested")),
        (AgentSituation.CANCELLATION_CLEANUP_FAILED, ("failed", "failed", "cancellation_cleanup_failed")),
        (AgentSituation.TIMED_OUT, ("failed", "timed_out", "timeout")),
        (AgentSituation.FAILED, ("failed", "failed", "execution_failed")),
        (AgentSituation.RECOVERY_REQUIRED, ("interrupted", "interrupted", "recovery_requires_hitl")),
        (AgentSituation.USER_INTERRUPTED, ("interrupted", "interrupted", "user_interrupted")),
        (AgentSituation.POISONED, ("interrupted", "interrupted", "poisoned")),
        (AgentSituation.MODEL_UNAVAILABLE, ("interrupted", "interrupted", "model_unavailable")),
        (AgentSituation.DIVERGED, ("interrupted", "interrupted", "diverged")),
        (AgentSituation.CREATED, ("created", "pending", None)),
        (AgentSituation.COMPLETED, ("completed", "completed", None)),
    ],
)
def test_each_situation_is_one_triple(situation: AgentSituation, triple: tuple[str, str, str | None]) -> None:
    assert (situation.status, situation.transition, situation.reason) == triple


def test_moving_keeps_everything_but_the_triple() -> None:
    state = AgentState("run", "Refunds", AgentStatus.ACTIVE, current_activity="paying", metadata={"a": 1})
    moved = state.moved_to(AgentSituation.WAITING_FOR_APPROVAL, activity="Pay?", metadata={"b": 2})
    assert moved == AgentState(
        "run",
        "Refunds",
        AgentStatus.INTERRUPTED,
        AgentStateTransition.WAITING_APPROVAL,
        AgentStateReason.APPROVAL_REQUIRED,
        "Pay?",
        metadata={"a": 1, "b": 2},
    )
    assert moved.moved_to(AgentSituation.RUNNING).current_activity == "Pay?"


@pytest.mark.parametrize("status", [status for status in AgentStatus if status.is_terminal])
def test_a_finished_run_never_reopens(status: AgentStatus) -> None:
    state = AgentState("run", "Refunds", status)
    assert state.is_terminal
    for situation in AgentSituation:
        with pytest.raises(AgentDefinitionError):
            state.moved_to(situation)


def test_a_refused_step_says_what_is_allowed() -> None:
    with pytest.raises(AgentDefinitionError) as caught:
        AgentState("r1", "Refunds", AgentStatus.CREATED).moved_to(AgentSituation.COMPLETED)
    assert str(caught.value) == (
        "run 'r1' is created and cannot become completed. Allowed: active, cancelling, failed."
    )


def test_a_state_is_frozen_and_its_times_are_aware() -> None:
    state = AgentState("run", "Refunds", AgentStatus.CREATED, created_at=datetime.now(UTC))
    with pytest.raises(FrozenInstanceError):
        state.status = AgentStatus.ACTIVE  # type: ignore[misc]
    with pytest.raises(AgentDefinitionError):
        AgentState("run", "Refunds", AgentStatus.CREATED, created_at=datetime(2026, 1, 1))  # noqa: DTZ001
    with pytest.raises(AgentDefinitionError):
        AgentState("run", "Refunds", AgentStatus.CREATED, pending_signal_count=-1)

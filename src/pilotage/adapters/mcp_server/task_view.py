"""Runs as tasks of the Tasks extension: the task id is the id of the run. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any

import mcp_types as types

from pilotage.agent.state import AgentState, AgentStatus

_MILLISECONDS = 1_000


def created_task(state: AgentState, poll_seconds: float) -> dict[str, Any]:
    """Return the result of a call that has become a task."""
    return {"resultType": "task", **_about(state, status_of(state, None, None), poll_seconds)}


def task(
    state: AgentState,
    poll_seconds: float,
    *,
    requests: Mapping[str, types.ElicitRequest] | None = None,
    result: types.CallToolResult | None = None,
    error: Mapping[str, Any] | None = None,
) -> dict[str, Any]:
    """Return a task with what its status brings along: open questions, a result, or an error of the protocol."""
    view = {"resultType": "complete", **_about(state, status_of(state, requests, error), poll_seconds)}
    if requests:
        view["inputRequests"] = {
            key: each.model_dump(by_alias=True, mode="json", exclude_none=True)
            for key, each in requests.items()
        }
    if error is not None:
        view["error"] = dict(error)
    elif result is not None and state.status is not AgentStatus.CANCELLED:
        view["result"] = result.model_dump(by_alias=True, mode="json", exclude_none=True)
    return view


def status_of(
    state: AgentState, requests: Mapping[str, types.ElicitRequest] | None, error: Mapping[str, Any] | None
) -> str:
    """Return the status of a task: a run that has failed by what it was asked is complete, with an error in it."""
    if state.status is AgentStatus.CANCELLED:
        return "cancelled"
    if state.is_terminal:
        return "failed" if error is not None else "completed"
    return "input_required" if requests else "working"


def _about(state: AgentState, status: str, poll_seconds: float) -> dict[str, Any]:
    view: dict[str, Any] = {
        "taskId": state.id,
        "status": status,
        "createdAt": _moment(state.created_at),
        "lastUpdatedAt": _moment(state.updated_at or state.created_at),
        "ttlMs": None,
        "pollIntervalMs": int(poll_seconds * _MILLISECONDS),
    }
    if state.current_activity:
        view["statusMessage"] = state.current_activity
    return view


def _moment(moment: datetime | None) -> str:
    return (moment or datetime.now(UTC)).isoformat().replace("+00:00", "Z")

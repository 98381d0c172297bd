"""A task whose server is away for more looks than may fail: it is followed again, and its loss is never a failure."""

from __future__ import annotations

import asyncio
from typing import Any, cast

import pytest

from pilotage.adapters.mcp import McpServerSettings
from pilotage.adapters.mcp.catalog import Definition
from pilotage.adapters.mcp.connection import McpConnection, RequestFailedError
from pilotage.adapters.mcp.errors import McpUnknownOutcomeError, McpVerdict
from pilotage.adapters.mcp.questions import AskedTool, ToolQuestions
from pilotage.adapters.mcp.tasks import ToolTasks
from pilotage.jsonvalue import JsonObject

MOST_LOOKS = 10
WORKING: JsonObject = {"taskId": "t1", "status": "working", "pollIntervalMs": 1}
DONE: JsonObject = {
    **WORKING,
    "status": "completed",
    "result": {"content": [{"type": "text", "text": "paid"}]},
}


class Away:
    """A connection whose first requests are lost; then the task goes on for one look, and is completed."""

    def __init__(self, lost: int) -> None:
        self.lost, self.looks = lost, 0

    async def request(self, _: object) -> Any:
        self.looks += 1
        if self.looks <= self.lost:
            raise RequestFailedError(McpVerdict.UNSENT, "the line is lost")
        return WORKING if self.looks == self.lost + 1 else DONE


async def outcome(away: Away) -> object:
    settings = McpServerSettings("bank", command=["bank"])
    tasks = ToolTasks(
        cast("McpConnection", away),
        Definition("pay", "Pay.", {"type": "object"}),
        ToolQuestions(settings, AskedTool("pay", "bank_pay")),
        "bank_pay",
        is_repeatable=False,
    )
    async with asyncio.timeout(60):
        return (await tasks.outcome(WORKING, "key")).content


async def test_a_task_that_goes_on_is_followed_when_its_server_knows_it_again() -> None:
    away = Away(MOST_LOOKS)
    assert await outcome(away) == "paid"
    assert away.looks == MOST_LOOKS + 2


async def test_a_task_that_cannot_be_asked_for_is_an_unknown_outcome_and_no_failure() -> None:
    with pytest.raises(McpUnknownOutcomeError, match="the line is lost"):
        await outcome(Away(MOST_LOOKS + 1))

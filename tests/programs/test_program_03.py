"""The hand-written loop: it streams, asks before it changes anything, and survives its process."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager

import pytest

from pilotage import AgentStatus, Application, Approval, Final, IAgentModel, Token, Tool
from pilotage.runtime import AgentRuns
from pilotage.runtime.plugin import initialize
from pilotage.testing import MemoryStore, ScriptedModel, calls, crash_matrix, says, turn
from tests.programs.program_03_loop import (
    CodeAssistant,
    CodeResult,
    CodeTask,
    Disk,
    ShellTools,
    WorkspaceTools,
)

TASK = CodeTask("You write code.", "say goodbye")
SCRIPT = [
    turn(says("Reading. "), calls("read", path="README")),
    turn(calls("write", path="README", text="goodbye"), calls("run", command="make test")),
    says("Done."),
]


@asynccontextmanager
async def process(store: MemoryStore, disk: Disk, model: IAgentModel) -> AsyncGenerator[Application, None]:
    """One process over what outlives it."""
    app = Application("code").add(CodeAssistant, WorkspaceTools, ShellTools, disk, model, *store.ports)
    initialize(app)
    async with app:
        yield app


async def test_it_streams_until_a_person_is_asked_and_goes_on_in_other_processes() -> None:
    store, disk, model = MemoryStore(), Disk(), ScriptedModel(SCRIPT)
    async with process(store, disk, model) as app:
        items = [item async for item in app.get(CodeAssistant).execute(TASK)]
        (state,) = (await app.get(AgentRuns).list()).runs
    assert items[:-1] == [Token("Reading. "), Tool("read", "call-1", result="hello")]
    assert isinstance(items[-1], Approval)
    asked = 0
    while True:
        asked += 1
        async with process(store, disk, model := model.restarted()) as app:
            runs = app.get(AgentRuns)
            for request in await runs.questions(state.id):
                await runs.approve(request.id)
            result = await (await runs.resume(state.id)).result()
            await runs.verify(state.id)
        if result.status is not AgentStatus.INTERRUPTED:
            break
    assert (result.status, result.output) == (AgentStatus.COMPLETED, CodeResult("Done."))
    assert asked == 2
    assert (disk.files, disk.commands) == ({"README": "goodbye"}, ["make test"])


async def test_its_last_item_is_the_answer() -> None:
    model = ScriptedModel([turn(says("Reading. "), calls("read", path="README")), says("It says hello.")])
    async with process(MemoryStore(), Disk(), model) as app:
        items = [item async for item in app.get(CodeAssistant).execute(TASK)]
    assert isinstance(items[-1], Final)
    assert items[-1].output == CodeResult("It says hello.")


@pytest.mark.slow
async def test_no_crash_changes_what_it_does() -> None:
    add = [Disk(), WorkspaceTools, ShellTools]
    report = await crash_matrix(CodeAssistant, TASK, model=ScriptedModel(SCRIPT), add=add)
    assert report.points > 100
    report.assert_same_result()
    report.assert_no_repeated_effects()

"""The state that a run shares, on the wire: STATE_SNAPSHOT and STATE_DELTA, also for a page that comes back."""

from __future__ import annotations

import json
from collections.abc import AsyncGenerator

import pytest
from tests.adapters.agui.bank import Frame, ask
from tests.adapters.agui.samples import ag_ui_input

from pilotage import Agent, AgentYield, Application, Final, Pod, Principal, State, StatePatch, agent_tool
from pilotage.adapters.agui import AgUiConfig, driver_for, frames_for, line_of
from pilotage.agent import Idempotency, ToolApprovalRequirement, ToolEffects
from pilotage.jsonvalue import object_or_empty
from pilotage.runtime import AgentRuns, patch_state, read_state
from pilotage.testing import MemoryStore, ScriptedModel, calls, says

FIRST = {"op": "add", "path": "/steps/-", "value": "first"}
SECOND = {"op": "replace", "path": "/done", "value": True}


@Pod
class Plan:
    @agent_tool(
        effects=ToolEffects.external_side_effect(),
        idempotency=Idempotency.IDEMPOTENT,
        approval=ToolApprovalRequirement.NOT_REQUIRED,
    )
    async def note(self) -> str:
        """Note the first step."""
        await patch_state([FIRST])
        return "noted"

    @agent_tool(effects=ToolEffects.read_only())
    async def account(self) -> str:
        """Return the account that the page shows, and show it as read."""
        state = object_or_empty(await read_state())
        await patch_state([{"op": "add", "path": "/read", "value": True}])
        return str(state.get("account"))


@Agent(name="planner", durable=True)
class Planner:
    def __init__(self, plan: Plan) -> None:
        self.plan = plan

    async def execute(self, prompt: str) -> AsyncGenerator[AgentYield[str], None]:
        yield State({"steps": [], "done": False})
        await self.plan.note()
        yield StatePatch([SECOND])
        yield Final(prompt)


@Agent(name="noter", durable=True)
class Noter:
    """Note what is to be done."""

    def __init__(self, plan: Plan) -> None:
        self.plan = plan


def planning(*replies: object) -> Application:
    app = Application("planning").add(Planner, Noter, Plan, ScriptedModel([*replies]), *MemoryStore().ports)
    return app.load_plugins()


def states(frames: list[Frame]) -> list[object]:
    """The snapshots and deltas, in order."""
    return [
        frame["snapshot"] if frame["type"] == "STATE_SNAPSHOT" else frame["delta"]
        for frame in frames
        if frame["type"].startswith("STATE_")
    ]


async def test_the_state_of_a_program_and_of_its_tools_reaches_the_page() -> None:
    async with planning() as app:
        frames = await ask(app, ag_ui_input("Plan"), Planner)
    assert states(frames) == [{"steps": [], "done": False}, [FIRST], [SECOND]]
    assert frames[-1]["type"] == "RUN_FINISHED"


async def test_a_tool_of_a_declarative_agent_changes_the_state_between_its_call_and_its_result() -> None:
    async with planning(calls("note"), says("Noted.")) as app:
        frames = await ask(app, ag_ui_input("Plan"), Noter)
    shown = [
        frame["type"]
        for frame in frames
        if frame["type"] in ("TOOL_CALL_END", "STATE_DELTA", "TOOL_CALL_RESULT")
    ]
    assert shown == ["TOOL_CALL_END", "STATE_DELTA", "TOOL_CALL_RESULT"]
    assert states(frames) == [[FIRST]]


async def test_without_snapshots_the_deltas_stay() -> None:
    async with planning() as app:
        frames = await ask(app, ag_ui_input("Plan"), Planner, config=AgUiConfig(emit_state_snapshot=False))
    assert states(frames) == [[FIRST], [SECOND]]


async def test_a_page_that_comes_back_gets_the_changes_again_in_order() -> None:
    given = ag_ui_input("Plan").model_dump_json(by_alias=True)
    async with planning() as app:
        factory = driver_for(app, Planner, principal=Principal("ada"))
        first = [json.loads(line_of(frame)) async for frame in frames_for(factory, given)]
        again = [json.loads(line_of(frame)) async for frame in frames_for(factory, given)]
    assert states(first) == states(again) == [{"steps": [], "done": False}, [FIRST], [SECOND]]


async def test_a_tool_reads_the_state_that_the_page_sends_and_changes_what_the_page_shows() -> None:
    model = ScriptedModel([calls("account"), says("Savings.")])
    app = Application("planning").add(Noter, Plan, model, *MemoryStore().ports).load_plugins()
    async with app:
        frames = await ask(app, ag_ui_input("Which account?", state={"account": "savings"}), Noter)
        (run,) = (await app.get(AgentRuns).list()).runs
        assert await app.get(AgentRuns).verify(run.id) > 0
    (result,) = [frame["content"] for frame in frames if frame["type"] == "TOOL_CALL_RESULT"]
    assert result == '"savings"'
    assert states(frames) == [[{"op": "add", "path": "/read", "value": True}]]


@pytest.mark.parametrize(("is_own", "is_asked"), [(False, True), (True, False)])
async def test_the_state_of_a_page_is_untrusted_unless_it_is_declared_to_be_our_own(
    is_own: bool, is_asked: bool
) -> None:
    given, config = ag_ui_input("Plan", state={"steps": []}), AgUiConfig(owns_page_state=is_own)
    async with planning(calls("account"), calls("note"), says("Noted.")) as app:
        frames = await ask(app, given, Noter, config=config)
    outcome = frames[-1]["outcome"]
    assert (outcome["type"] == "interrupt") is is_asked
    if is_asked:
        assert outcome["interrupts"][0]["metadata"]["reason"].startswith("untrusted content")

"""Tools of a page in an `execute()` of its own: the page gets the call, its result goes on, a reload asks again."""

from __future__ import annotations

import json
from typing import Any

import pytest
from tests.adapters.agui.bank import Frame, ask, interrupts_of, texts
from tests.adapters.agui.samples import PICK, ag_ui_input, resume, tool_message, types
from tests.behaviour.test_caller_tools import Decorator, Painter
from tests.behaviour.test_deferred_tools import Walls

from pilotage import Application
from pilotage.adapters.agui import AgUiConfig
from pilotage.agent import AgentStatus, RunKey
from pilotage.runtime import AgentRuns
from pilotage.testing import MemoryStore, ScriptedModel, calls, says

PICKED = '{"color": "red"}'


class Yard:
    """Processes come and go; the store and the walls stay."""

    def __init__(self) -> None:
        self.store, self.walls = MemoryStore(), Walls()

    def open(self, model: ScriptedModel) -> Application:
        app = Application("yard").add(Painter, Decorator, self.walls, model, *self.store.ports)
        return app.load_plugins()


def calls_of(frames: list[Frame]) -> list[tuple[str, str, Any]]:
    """The calls that a page performs: id, name and arguments, which all came whole."""
    starts = {f["toolCallId"]: f["toolCallName"] for f in frames if f["type"] == "TOOL_CALL_START"}
    ended = [f["toolCallId"] for f in frames if f["type"] == "TOOL_CALL_END"]
    pieces = {f["toolCallId"]: f["delta"] for f in frames if f["type"] == "TOOL_CALL_ARGS"}
    assert sorted(starts) == sorted(ended) == sorted(pieces)
    return [(each, name, json.loads(pieces[each])) for each, name in starts.items()]


def result_for(call_id: str, content: str = PICKED, run_id: str = "client-2") -> Any:
    called = {"id": call_id, "type": "function", "function": {"name": "pick", "arguments": "{}"}}
    asked = [
        {"id": "u1", "role": "user", "content": "Paint"},
        {"id": "a1", "role": "assistant", "toolCalls": [called]},
    ]
    return ag_ui_input(messages=[*asked, tool_message(call_id, content)], runId=run_id, tools=[PICK])


async def test_a_program_offers_the_tools_of_the_page_and_goes_on_in_another_process() -> None:
    yard = Yard()
    model = ScriptedModel([calls("pick", of="walls"), says("Red it is.")])
    async with yard.open(model) as app:
        first = await ask(app, ag_ui_input("Paint", tools=[PICK]), Painter)
    ((call, name, arguments),) = calls_of(first)
    assert (name, arguments, first[-1]["outcome"]) == ("pick", {"of": "walls"}, {"type": "success"})
    assert [tool.name for tool in model.requests[0].tool_calling.tools] == ["paint", "pick"]
    model = model.restarted()
    async with yard.open(model) as app:
        frames = await ask(app, result_for(call), Painter)
        (run,) = (await app.get(AgentRuns).list()).runs
    assert model.requests[-1].messages[-1].text == '{"color":"red"}'
    assert (texts(frames), run.status) == ("Red it is.", AgentStatus.COMPLETED)
    assert [each for each in types(frames) if each.startswith("TOOL_CALL")] == []


async def test_a_call_that_the_program_makes_itself_reaches_the_page_too() -> None:
    async with Yard().open(ScriptedModel([])) as app:
        first = await ask(app, ag_ui_input("Paint", tools=[PICK]), Decorator)
        ((call, name, arguments),) = calls_of(first)
        frames = await ask(app, result_for(call, "red"), Decorator)
    assert (name, arguments, frames[-1]["result"]) == ("pick", {"of": "walls"}, "picked red")


async def test_what_the_model_decides_behind_the_page_needs_a_person() -> None:
    yard, model = Yard(), ScriptedModel([calls("pick", of="a"), calls("paint", color="red"), says("Done.")])
    async with yard.open(model) as app:
        first = await ask(app, ag_ui_input("Paint", tools=[PICK]), Painter)
        asked = await ask(app, result_for(calls_of(first)[0][0]), Painter)
        (interrupt,) = interrupts_of(asked)
        assert yard.walls.painted == []
        frames = await ask(app, resume(interrupt["id"], {"decision": "approve"}), Painter)
    assert (yard.walls.painted, texts(frames)) == (["red"], "Done.")


async def test_a_page_that_is_loaded_anew_gets_the_call_again_and_no_second_run() -> None:
    yard, model = Yard(), ScriptedModel([calls("pick", of="walls"), says("Red it is.")])
    async with yard.open(model) as app:
        first = await ask(app, ag_ui_input("Paint", tools=[PICK]), Painter)
        connected = await ask(app, ag_ui_input(messages=[], runId="client-2"), Painter)
        said = await ask(app, ag_ui_input("Well?", runId="client-3", tools=[PICK]), Painter)
        frames = await ask(app, result_for(calls_of(said)[0][0], run_id="client-4"), Painter)
        history = await ask(app, ag_ui_input(messages=[], runId="client-5"), Painter)
        again = await ask(app, ag_ui_input("Paint", tools=[PICK]), Painter)
        runs = (await app.get(AgentRuns).list()).runs
    assert calls_of(first) == calls_of(connected) == calls_of(said)
    # Nobody performs a call again that has its result.
    assert (calls_of(history), calls_of(again), texts(again)) == ([], [], "Red it is.")
    assert (texts(frames), len(runs)) == ("Red it is.", 1)
    (snapshot,) = [frame["messages"] for frame in history if frame["type"] == "MESSAGES_SNAPSHOT"]
    assert [each["content"] for each in snapshot] == ["Paint", "Red it is."]


async def test_a_call_is_shown_once_to_a_page_that_has_it() -> None:
    yard, model = Yard(), ScriptedModel([[calls("pick", of="a"), calls("pick", of="b")], says("Both.")])
    async with yard.open(model) as app:
        first = await ask(app, ag_ui_input("Paint", tools=[PICK]), Painter)
        second = await ask(app, result_for(calls_of(first)[0][0]), Painter)
        frames = await ask(app, result_for(calls_of(second)[0][0], run_id="client-3"), Painter)
    # A program that reads the stream of a model performs one call after the other.
    assert [arguments for _, _, arguments in (*calls_of(first), *calls_of(second))] == [
        {"of": "a"},
        {"of": "b"},
    ]
    assert texts(frames) == "Both."


@pytest.mark.parametrize(("own", "is_asked"), [((), True), (("pick",), False)])
async def test_tools_of_a_page_of_our_own_count_as_words_of_the_user(
    own: tuple[str, ...], is_asked: bool
) -> None:
    yard, model = Yard(), ScriptedModel([calls("pick", of="a"), says("Done.")])
    config = AgUiConfig(own_page_tools=own)
    async with yard.open(model) as app:
        first = await ask(app, ag_ui_input("Paint", tools=[PICK]), Painter, config=config)
        await ask(app, result_for(calls_of(first)[0][0]), Painter, config=config)
        (run,) = (await app.get(AgentRuns).list()).runs
        rows = [row async for row in yard.store.journal.read(RunKey(run.tenant_id, run.id))]
    assert ("untrusted" in str([row.record for row in rows])) is is_asked

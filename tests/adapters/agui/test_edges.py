"""Input and output at the edges: numbers, documents over several lines, encoders of others, what is left out."""

from __future__ import annotations

import base64
import io
import json
from dataclasses import replace
from typing import Any

import pytest
from ag_ui.core import BaseEvent, TextMessageContentEvent
from ag_ui.encoder import EventEncoder
from tests.adapters.agui.bank import PAY, Bank, Teller, ask, interrupts_of, texts
from tests.adapters.agui.samples import PICK, ag_ui_input, resume, said, tool_message, types
from tests.adapters.agui.server import client, endpoints, served, teller
from tests.media.pictures import png

from pilotage import Agent, Application
from pilotage.adapters.agui import (
    AgUiConfig,
    AgUiProjector,
    AgUiRunDriver,
    AgUiStdioCommand,
    driver_for,
    line_of,
)
from pilotage.adapters.agui.transport import Documents
from pilotage.agent import RunAgentInput as CoreRunInput
from pilotage.runtime import AgentRunner
from pilotage.testing import MemoryStore, ScriptedModel, calls, says

PNG = base64.b64encode(png()).decode()
IMAGE = {"type": "image", "source": {"type": "data", "value": PNG, "mimeType": "image/png"}}
HUGE = '{"a":[1e309]}'


@pytest.mark.parametrize(
    "fields",
    [
        f'"state":{HUGE}',
        f'"tools":[{{"name":"t","description":"","parameters":{HUGE}}}]',
        f'"forwardedProps":{HUGE}',
        '"state":{"a":-1e400}',
        f'"state":{{"a":{"9" * 5_000}}}',
    ],
)
async def test_numbers_that_no_float_holds_are_refused_on_every_transport(fields: str) -> None:
    text = f'{{"threadId":"t","runId":"r","messages":[{{"id":"u","role":"user","content":"Hi"}}],{fields}}}'
    async with Bank().open(ScriptedModel([says("Hi.")])) as app:
        out = io.StringIO()
        await AgUiStdioCommand(driver_for(app, Teller), io.StringIO(f"{text}\n{json.dumps(said())}\n"), out)()
        async with served(endpoints(teller(app))) as address, client(address) as http:
            answer = await http.post("/agui", content=text)
    refused, *rest = [json.loads(line) for line in out.getvalue().splitlines()]
    assert (refused["type"], texts(rest)) == ("RUN_ERROR", "Hi.")
    assert answer.status_code in (200, 400, 422)


async def test_over_stdio_an_input_may_have_several_lines() -> None:
    pretty = json.dumps(said('A { in " a text ['), indent=2)
    broken = '{"threadId": "t",\n'
    async with Bank().open(ScriptedModel([says("One."), says("Two.")])) as app:
        lines = io.StringIO(f"{pretty}\n{broken}{json.dumps(said('B', runId='client-2'))}\nnonsense\n")
        out = io.StringIO()
        await AgUiStdioCommand(driver_for(app, Teller), lines, out)()
    frames = [json.loads(line) for line in out.getvalue().splitlines()]
    ends = [frame["type"] for frame in frames if frame["type"] in ("RUN_FINISHED", "RUN_ERROR")]
    assert ends == ["RUN_FINISHED", "RUN_ERROR", "RUN_FINISHED", "RUN_ERROR"]
    assert texts(frames) == "One.Two."


def test_a_document_that_never_ends_is_bounded() -> None:
    documents = Documents(most=100)
    assert documents.add("{\n") == []
    given = [documents.add("[" * 30 + "\n") for _ in range(4)]
    assert sum(map(len, given)) == 1
    assert documents.rest() == ""


async def test_the_encoder_of_the_protocols_package_encodes_a_run() -> None:
    async with Bank().open(ScriptedModel([says("Hi.")])) as app:
        runner = AgentRunner.for_agent_instance(app.get(Teller))
        given = CoreRunInput("a", "Hello")
        driver = AgUiRunDriver(runner, given, "teller", AgUiProjector(), EventEncoder())
        frames = [frame async for frame in driver]
        assert await runner.signals.list_pending("a") == []
        assert await runner.states.get_or_none("a") is None
        assert runner.evidence is not None
        assert (await runner.states.list_runs("default")).runs[0].agent_type == "teller"
    assert all(frame.startswith("id: ") and frame.endswith("\n\n") for frame in frames)
    assert texts([json.loads(line_of(frame)) for frame in frames]) == "Hi."


class Stubborn(EventEncoder):
    """Cannot encode a text."""

    def encode(self, event: BaseEvent) -> str:
        if isinstance(event, TextMessageContentEvent):
            raise ZeroDivisionError("password=hunter2")
        return super().encode(event)


async def test_an_encoder_that_fails_ends_the_stream_with_an_error() -> None:
    async with Bank().open(ScriptedModel([says("Hi.")])) as app:
        runner = AgentRunner.for_agent_instance(app.get(Teller))
        driver = AgUiRunDriver(runner, CoreRunInput("a", "Hello"), "teller", encoder=Stubborn())
        frames = [json.loads(line_of(frame)) async for frame in driver]
    assert (frames[-1]["type"], frames[-1]["code"]) == ("RUN_ERROR", "agui_stream_broken")
    assert "hunter2" not in str(frames)


async def test_reasoning_can_be_left_out() -> None:
    found: list[set[str]] = []
    for emits in (True, False):
        model = ScriptedModel([says("Hi.", reasoning="Hm.")])
        async with Bank().open(model) as app:
            frames = await ask(app, ag_ui_input("Hello"), config=AgUiConfig(emit_reasoning=emits))
        found.append({each for each in types(frames) if each.startswith("REASONING")})
        assert texts(frames) == "Hi."
    assert ("REASONING_START" in found[0], found[1]) == (True, set())


async def test_the_result_of_a_clients_own_tool_is_not_sent_back_to_it() -> None:
    model = ScriptedModel([calls("pick", of="paint"), says("Red.")])
    async with Bank().open(model) as app:
        first = await ask(app, ag_ui_input("Pick", tools=[PICK]))
        (call,) = [frame["toolCallId"] for frame in first if frame["type"] == "TOOL_CALL_START"]
        done = await ask(app, ag_ui_input(messages=[tool_message(call, "red")], runId="client-2"))
    assert ("TOOL_CALL_RESULT" in types(done), texts(done)) == (False, "Red.")


@Agent(durable=True)
class Shouter:
    """Has an execute() that takes words."""

    async def execute(self, words: str) -> str:
        """Shout."""
        return words.upper()


async def test_an_image_is_shown_to_the_model_or_refused_and_never_lost() -> None:
    model = ScriptedModel([says("A cat."), calls("pick", of="paint")])
    app = Application("zoo").add(Teller, Shouter, Bank().payments, model, *MemoryStore().ports)
    content = [{"type": "text", "text": "What is it?"}, IMAGE]
    given = ag_ui_input(messages=[{"id": "u1", "role": "user", "content": content}])
    async with app.load_plugins():
        seen = await ask(app, given)
        refused = await ask(app, given, Shouter)
        first = await ask(app, ag_ui_input("Pick", runId="client-2", tools=[PICK]))
        (call,) = [frame["toolCallId"] for frame in first if frame["type"] == "TOOL_CALL_START"]
        result = {**tool_message(call, ""), "content": [IMAGE]}
        (no_result,) = await ask(app, ag_ui_input(messages=[result], runId="client-3"))
    assert (texts(seen), "image/png" in str(model.requests[0].messages)) == ("A cat.", True)
    assert (refused[-1]["type"], refused[-1]["code"]) == ("RUN_ERROR", "media_refused")
    assert (no_result["code"], "has media" in no_result["message"]) == ("agui_run_resolution_error", True)


async def test_ids_of_calls_are_unique_in_a_thread_whatever_the_model_gives() -> None:
    def same(name: str, **arguments: str) -> Any:
        return replace(
            calls(name, **arguments),
            calls=tuple(replace(call, call_id="call-1") for call in calls(name, **arguments).calls),
        )

    model = ScriptedModel(
        [same("pick", of="a"), says("A."), same("pick", of="b"), says("B."), same("pay", **PAY)]
    )
    async with Bank().open(model) as app:
        ids: list[str] = []
        for number, answer in enumerate(("A.", "B.")):
            first = await ask(app, ag_ui_input("Pick", runId=f"ask-{number}", tools=[PICK]))
            (call,) = [frame["toolCallId"] for frame in first if frame["type"] == "TOOL_CALL_START"]
            ids.append(call)
            done = await ask(app, ag_ui_input(messages=[tool_message(call, "x")], runId=f"do-{number}"))
            assert texts(done) == answer
        asked = await ask(app, ag_ui_input("Pay", runId="ask-3"))
        (interrupt,) = interrupts_of(asked)
        paying_call = next(frame["toolCallId"] for frame in asked if frame["type"] == "TOOL_CALL_START")
        paid = await ask(app, resume(interrupt["id"], True))
        # A client with the id of the model is understood as well; of a call that no run waits for nothing is.
        stale = await ask(app, ag_ui_input(messages=[tool_message(ids[0], "x")], runId="do-3"))
    assert len({*ids, paying_call}) == 3
    assert interrupt["toolCallId"] == paying_call
    assert [frame["toolCallId"] for frame in paid if frame["type"] == "TOOL_CALL_RESULT"] == [paying_call]
    assert stale[-1]["code"] == "agui_pending_approval_error"

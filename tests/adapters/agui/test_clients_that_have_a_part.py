"""Clients that have a part of a run already: one that was cut off, and one that gets a call of its page again."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncGenerator

import pytest
from ag_ui.core import RunAgentInput
from tests.adapters.agui.bank import Frame, texts
from tests.adapters.agui.door import Gate
from tests.adapters.agui.samples import PICK, ag_ui_input, types
from tests.adapters.agui.sequence import fault_in
from tests.adapters.agui.threads import ADA, HELLO, NEXT, Host, Threads, customs, watched

from pilotage import (
    Agent,
    AgentExecutionSpec,
    AgentSignalKind,
    AgentYield,
    Application,
    Final,
    RecoveryStrategy,
    Token,
)
from pilotage.adapters.agui import driver_for, frames_for, line_of
from pilotage.testing import ScriptedModel, calls, says, turn


async def read(
    threads: Threads, app: Application, given: RunAgentInput, last: str | None = None, most: int | None = None
) -> list[tuple[str, Frame]]:
    """Frames with their ids: at most so many, then the client is cut off."""
    factory = driver_for(app, threads.agent, principal=ADA)
    read: list[tuple[str, Frame]] = []
    stream = frames_for(factory, given.model_dump_json(by_alias=True), last_event_id=last)
    async for frame in stream:
        head, _, _ = frame.partition("\n")
        read.append((head.removeprefix("id: "), json.loads(line_of(frame))))
        if len(read) == most:
            break
    await stream.aclose()
    return read


@Agent(
    spec=AgentExecutionSpec(
        name="talker",
        recovery=RecoveryStrategy.ACTION_BOUNDARY,
        accepted_signals=(AgentSignalKind.USER_MESSAGE,),
    )
)
class Talker:
    """Talks, and takes no message in."""

    def __init__(self, gate: Gate) -> None:
        self.gate = gate

    async def execute(self, words: str) -> AsyncGenerator[AgentYield[str], None]:
        yield Token("One, ")
        await self.gate.hold()
        yield Token("two.")
        yield Final(f"re: {words}")


@pytest.mark.parametrize(
    ("agent", "model", "answer"),
    [(Host, [calls("hold"), says("All of it.")], "All of it."), (Talker, [], "re: And then?")],
)
async def test_a_second_tab_may_be_cut_off_after_every_frame_and_gets_its_own_end(
    agent: type[object], model: list[object], answer: str
) -> None:
    """The first tab has read the same run meanwhile, with ids and an end of its own."""
    cut, most = 1, 2
    while cut < most:
        threads = Threads(agent)
        signals = watched(threads)
        async with threads.process(ScriptedModel(model)) as app:
            first = asyncio.ensure_future(threads.ask(app, HELLO))
            await threads.gate.reached.get()
            second = asyncio.ensure_future(read(threads, app, NEXT, most=cut))
            await signals.stored.get()
            threads.gate.open.set()
            has = await second
            await first
            has += await read(threads, app, NEXT, last=has[-1][0])
            most = max(most, len(has))
        frames = [frame for _, frame in has]
        assert fault_in(frames) is None, cut
        assert (frames[-1]["runId"], frames[-1].get("result")) == ("client-2", answer), cut
        cut += 1
    assert cut > 8


def messages_of(frames: list[Frame], said: list[Frame]) -> list[Frame]:
    """What a client has that takes these frames: messages are found by their ids, and deltas are added."""
    found = {each["id"]: {**each} for each in said}
    for frame in frames:
        match frame:
            case {"type": "MESSAGES_SNAPSHOT", "messages": given}:
                found = {each["id"]: {**each} for each in given}
            case {"type": "TEXT_MESSAGE_START", "messageId": name}:
                found.setdefault(name, {"id": name, "role": "assistant", "content": ""})
            case {"type": "TEXT_MESSAGE_CONTENT", "messageId": name, "delta": delta}:
                found[name]["content"] = (found[name].get("content") or "") + delta
            case {"type": "TOOL_CALL_START", "toolCallId": name, "parentMessageId": above}:
                message = found.setdefault(above, {"id": above, "role": "assistant"})
                held = message["toolCalls"] = list(message.get("toolCalls") or [])
                if name not in [each["id"] for each in held]:
                    held.append(
                        {
                            "id": name,
                            "type": "function",
                            "function": {"name": frame["toolCallName"], "arguments": ""},
                        }
                    )
            case {"type": "TOOL_CALL_ARGS", "toolCallId": name, "delta": delta}:
                (call,) = [
                    call
                    for each in found.values()
                    for call in each.get("toolCalls") or []
                    if call["id"] == name
                ]
                call["function"]["arguments"] += delta
            case {"type": "TOOL_CALL_RESULT"}:
                found[frame["messageId"]] = {
                    "id": frame["messageId"],
                    "role": "tool",
                    "toolCallId": frame["toolCallId"],
                    "content": frame["content"],
                }
            case _:
                pass
    return list(found.values())


async def test_a_page_that_lost_its_stream_has_every_text_once_after_its_next_message() -> None:
    """The run goes on without it; the stream of the next message is that of the run from its beginning."""
    threads = Threads(Host)
    model = ScriptedModel([turn(says("Wait for it."), calls("hold")), says("There it is.")])
    signals = watched(threads)
    async with threads.process(model) as app:
        said = [each.model_dump(by_alias=True, mode="json", exclude_none=True) for each in HELLO.messages]
        first = asyncio.ensure_future(read(threads, app, HELLO, most=10))
        await threads.gate.reached.get()
        has = messages_of([frame for _, frame in await first], said)
        assert has[1]["content"] == "Wait for it."
        user = {"id": "u2", "role": "user", "content": "And then?"}
        again = ag_ui_input(messages=[*has, user], runId="client-2")
        second = asyncio.ensure_future(read(threads, app, again))
        await signals.stored.get()
        threads.gate.open.set()
        frames = [frame for _, frame in await second]
    assert fault_in(frames) is None
    has = messages_of(frames, [*has, user])
    shown = [(each["role"], each.get("content")) for each in has]
    assert shown == [
        ("user", "Hello"),
        ("assistant", "Wait for it."),
        ("user", "And then?"),
        ("tool", '"held"'),
        ("assistant", "There it is."),
    ]
    assert [call["function"]["arguments"] for call in has[1]["toolCalls"]] == ["{}"]


@pytest.mark.parametrize("how", ["message", "connect"])
async def test_a_call_of_the_page_that_is_shown_again_has_its_arguments_once(how: str) -> None:
    threads, model = Threads(), ScriptedModel([calls("pick", of="paint"), says("Red.")])
    async with threads.process(model) as app:
        said = [each.model_dump(by_alias=True, mode="json", exclude_none=True) for each in HELLO.messages]
        first = await threads.ask(app, ag_ui_input("Hello", tools=[PICK]))
        has = messages_of(first, said)
        if how == "message":
            has.append({"id": "u2", "role": "user", "content": "And then?"})
            given = ag_ui_input(messages=has, tools=[PICK], runId="client-2")
        else:
            has, given = [], ag_ui_input(None, runId="client-2", tools=[PICK])
        frames = await threads.ask(app, given)
    assert "TOOL_CALL_START" in types(frames)
    made = [call for each in messages_of(frames, has) for call in each.get("toolCalls") or []]
    assert [call["function"]["arguments"] for call in made] == ['{"of":"paint"}']


async def test_a_client_that_has_nothing_of_the_run_gets_no_snapshot() -> None:
    threads, model = Threads(Host), ScriptedModel([calls("hold"), says("Both.")])
    signals = watched(threads)
    async with threads.process(model) as app:
        first = asyncio.ensure_future(threads.ask(app, HELLO))
        await threads.gate.reached.get()
        second = asyncio.ensure_future(threads.ask(app, NEXT))
        await signals.stored.get()
        threads.gate.open.set()
        await first
        frames = await second
    assert (customs(frames), texts(frames)) == (["message_queued"], "Both.")
    assert "MESSAGES_SNAPSHOT" not in types(frames)

"""A thread never dies: crashes, second tabs and pages that are loaded anew."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncGenerator

import pytest
from tests.adapters.agui.bank import PAY, Frame, Porter, Teller, ask, interrupts_of, paying, texts
from tests.adapters.agui.door import KeptDoorman
from tests.adapters.agui.samples import PICK, ag_ui_input, resume, tool_message, types
from tests.adapters.agui.sequence import fault_in
from tests.adapters.agui.threads import ADA, HELLO, NEXT, RUN, Deaf, Host, Threads, customs
from tests.behaviour.newsroom import let_run

from pilotage.adapters.agui import Bookmark, driver_for, frames_for, line_of
from pilotage.runtime import AgentRuns
from pilotage.runtime.events.feed import START
from pilotage.testing import (
    MemoryStore,
    ScriptedModel,
    StopAfter,
    StopBefore,
    VirtualClock,
    calls,
    fails,
    says,
)

TEXT = ["TEXT_MESSAGE_START", "TEXT_MESSAGE_CONTENT", "TEXT_MESSAGE_END"]


@pytest.mark.parametrize("fault", [StopAfter(1), StopBefore(2)], ids=repr)
async def test_a_message_on_a_thread_whose_process_died_is_answered_after_the_one_before(
    fault: StopAfter | StopBefore,
) -> None:
    threads, model = Threads(), ScriptedModel([says("One."), says("Two.")])
    await threads.die(model, fault)
    async with threads.process(model.restarted()) as app:
        frames = await threads.ask(app, NEXT)
        third = await threads.ask(app, ag_ui_input("Hm", runId="client-2"))
        runs = await app.get(AgentRuns).list(principal=ADA)
    assert (customs(frames)[0], texts(frames)) == ("run_taken_up", "One.Two.")
    assert types(frames).count("RUN_STARTED") == types(frames).count("RUN_FINISHED") == 1
    assert (frames[0]["runId"], frames[-1]["result"]) == ("client-2", "Two.")
    assert [state.status.value for state in runs.runs] == ["completed", "completed"]
    assert third[-1]["code"] == "run_conflict"


async def test_a_stream_with_an_earlier_run_may_be_cut_after_every_frame() -> None:
    reference: list[Frame] | None = None
    cut, most = 0, 1
    while cut < most:
        threads, model = Threads(), ScriptedModel([says("One."), says("Two.")])
        await threads.die(model, StopAfter(1))
        async with threads.process(model.restarted()) as app:
            factory = driver_for(app, Teller, principal=ADA)
            text = NEXT.model_dump_json(by_alias=True)
            read: list[tuple[str, Frame]] = []
            stream = frames_for(factory, text)
            async for frame in stream:
                read.append((frame.partition("\n")[0].removeprefix("id: "), json.loads(line_of(frame))))
                if len(read) == cut:
                    break
            await stream.aclose()
            if cut:
                last = read[-1][0]
                again = frames_for(factory, text, last_event_id=last)
                read += [("", json.loads(line_of(frame))) async for frame in again]
        frames = [frame for _, frame in read]
        assert fault_in(frames) is None
        reference = reference or frames
        most = len(reference)
        assert (texts(frames), frames[-1]["result"]) == ("One.Two.", "Two."), cut
        cut += 1


async def test_an_orphan_that_asks_is_the_answer_to_the_message() -> None:
    threads, model = Threads(), paying("Done.")
    await threads.die(model, StopAfter(1))
    async with threads.process(model.restarted()) as app:
        frames = await threads.ask(app, NEXT)
        (interrupt,) = interrupts_of(frames)
        assert (customs(frames)[0], threads.bank.payments.paid) == ("run_taken_up", [])
        done = await threads.ask(app, resume(interrupt["id"], True))
    assert (texts(done), threads.bank.payments.paid) == ("Done.", ["5 to Bo"])


async def test_a_failed_orphan_does_not_keep_the_message_from_its_answer() -> None:
    threads, model = Threads(), ScriptedModel([fails("no such model"), says("Two.")])
    await threads.die(model, StopAfter(1))
    async with threads.process(model.restarted()) as app:
        frames = await threads.ask(app, NEXT)
    assert customs(frames)[0] == "run_taken_up"
    assert (len(customs(frames)), texts(frames), frames[-1]["type"]) == (2, "Two.", "RUN_FINISHED")


async def test_an_open_stream_waits_for_a_run_that_a_dead_process_still_holds() -> None:
    threads, model, clock = Threads(), ScriptedModel([says("One.")]), VirtualClock()
    threads.bank.store = MemoryStore(clock)
    await threads.die(model, StopAfter(1))
    await threads.hold()
    async with threads.process(model.restarted(), None, clock) as app:
        text = HELLO.model_dump_json(by_alias=True)
        stream = frames_for(driver_for(app, Teller, principal=ADA), text)
        first, second = [json.loads(line_of(await anext(stream))) for _ in range(2)]
        assert (first["type"], second["name"]) == ("RUN_STARTED", "run_held")
        reading = asyncio.ensure_future(_rest(stream))
        for _ in range(40):
            clock.advance(1.0)
            await let_run()
        frames = [first, second, *reading.result()]
    assert fault_in(frames) is None
    assert (texts(frames), frames[-1]["result"]) == ("One.", "One.")


async def test_a_client_that_comes_back_is_told_at_once_that_its_run_is_held() -> None:
    threads, model, clock = Threads(), ScriptedModel([says("One.")]), VirtualClock()
    threads.bank.store = MemoryStore(clock)
    await threads.die(model, StopAfter(1))
    await threads.hold()
    async with threads.process(model.restarted(), None, clock) as app:
        factory, text = driver_for(app, Teller, principal=ADA), HELLO.model_dump_json(by_alias=True)
        last = Bookmark(RUN, START, START)
        again = frames_for(factory, text, last_event_id=str(last))
        first = json.loads(line_of(await anext(again)))
        await again.aclose()
        assert (first["type"], first["name"], first["value"]) == ("CUSTOM", "run_held", {"runId": RUN})
        assert not [task for task in asyncio.all_tasks() if "waiting for run" in task.get_name()]


async def _rest(stream: AsyncGenerator[str, None]) -> list[Frame]:
    return [json.loads(line_of(frame)) async for frame in stream]


async def test_the_message_of_a_second_tab_is_given_to_the_run_under_way() -> None:
    threads, model = Threads(Host), ScriptedModel([calls("hold"), says("Both.")])
    async with threads.process(model) as app:
        one = asyncio.ensure_future(threads.ask(app, HELLO))
        await threads.gate.reached.get()
        two = asyncio.ensure_future(threads.ask(app, NEXT))
        await let_run()
        assert await threads.bank.store.signals.list_pending(RUN)
        threads.gate.open.set()
        first, second = await one, await two
    assert (texts(first), texts(second)) == ("Both.", "Both.")
    assert customs(second) == ["message_queued"]
    assert [frame["runId"] for frame in (second[0], second[-1])] == ["client-2", "client-2"]
    assert "And then?" in str(model.requests[-1].messages)


async def test_messages_of_three_tabs_that_came_too_late_are_answered_one_after_the_other() -> None:
    threads = Threads(Deaf)
    async with threads.process(ScriptedModel([])) as app:
        one = asyncio.ensure_future(threads.ask(app, HELLO))
        await threads.gate.reached.get()
        tabs = [ag_ui_input(f"Tab {tab}", runId=f"client-{tab}") for tab in (2, 3, 4)]
        others = [asyncio.ensure_future(threads.ask(app, tab)) for tab in tabs]
        await let_run()
        threads.gate.open.set()
        await one
        answers = await asyncio.gather(*others)
    assert [fault_in(frames) for frames in answers] == [None, None, None]
    assert [frames[-1].get("result") for frames in answers] == ["re: Tab 2", "re: Tab 3", "re: Tab 4"]


async def test_a_second_tab_is_refused_in_words_where_the_agent_takes_no_messages() -> None:
    threads, model = Threads(KeptDoorman), ScriptedModel([calls("hold"), says("One."), says("Two.")])
    async with threads.process(model) as app:
        one = asyncio.ensure_future(threads.ask(app, HELLO))
        await threads.gate.reached.get()
        refused = await threads.ask(app, NEXT)
        threads.gate.open.set()
        await one
        after = await threads.ask(app, NEXT)
    assert types(refused) == ["RUN_STARTED", *TEXT, "RUN_ERROR"]
    assert (texts(refused), refused[-1]["code"]) == (refused[-1]["message"], "agui_thread_busy")
    assert texts(after) == "Two."


async def test_a_page_that_is_loaded_anew_gets_the_question_as_the_answer_to_its_next_message() -> None:
    threads, model = Threads(), paying()
    async with threads.process(model) as app:
        (interrupt,) = interrupts_of(await threads.ask(app, ag_ui_input("Pay Bo")))
        again = await threads.ask(app, NEXT)
        assert types(again) == ["RUN_STARTED", *TEXT, "RUN_FINISHED"]
        assert (texts(again).startswith("This message was not taken"), interrupts_of(again)) == (
            True,
            [interrupt],
        )
        done = await threads.ask(app, resume(interrupt["id"], True))
        after = await threads.ask(app, ag_ui_input("And then?", runId="client-4"))
    assert (texts(done), threads.bank.payments.paid) == ("Done.", ["5 to Bo"])
    assert after[-1]["type"] in ("RUN_FINISHED", "RUN_ERROR")


async def test_a_call_that_the_page_performs_is_shown_again_to_a_page_that_is_loaded_anew() -> None:
    threads, model = Threads(), ScriptedModel([calls("pick", of="paint"), says("Red.")])
    async with threads.process(model) as app:
        await threads.ask(app, ag_ui_input("Pick", tools=[PICK]))
        again = await threads.ask(app, NEXT)
        assert types(again) == [
            "RUN_STARTED",
            *TEXT,
            "TOOL_CALL_START",
            "TOOL_CALL_ARGS",
            "TOOL_CALL_END",
            "RUN_FINISHED",
        ]
        result = tool_message(again[4]["toolCallId"], "red")
        done = await threads.ask(app, ag_ui_input(messages=[result], runId="client-3"))
    assert texts(done) == "Red."


async def test_a_message_beside_an_open_question_is_kept_for_the_run_that_asks() -> None:
    threads = Threads(Host)
    model = ScriptedModel([calls("ask_first"), says("Both.")])
    async with threads.process(model) as app:
        (interrupt,) = interrupts_of(await threads.ask(app, HELLO))
        again = await threads.ask(app, NEXT)
        assert (customs(again), interrupts_of(again)) == (["message_queued"], [interrupt])
        done = await threads.ask(app, resume(interrupt["id"], True))
    assert (texts(done), "And then?" in str(model.requests[-1].messages)) == ("Both.", True)


async def test_the_thread_of_another_agent_is_a_conflict() -> None:
    threads = Threads()
    async with threads.bank.open(ScriptedModel([calls("pay", **PAY)])) as app:
        await ask(app, ag_ui_input("Pay Bo"), principal=ADA)
        (refused,) = await ask(app, NEXT, Porter, principal=ADA)
    assert (refused["type"], refused["code"]) == ("RUN_ERROR", "run_conflict")

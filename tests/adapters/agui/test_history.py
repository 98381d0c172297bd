"""The history of a thread: for pages that are loaded anew, at the start of a run, and by a route of its own."""

from __future__ import annotations

import asyncio

from tests.adapters.agui.bank import Bank, Clerk, Frame, Teller, ask, interrupts_of, paying, texts
from tests.adapters.agui.door import Badges, Gate, KeptDoorman
from tests.adapters.agui.samples import ag_ui_input, resume, said, types
from tests.adapters.agui.server import client, endpoints, served
from tests.adapters.agui.threads import HELLO, NEXT, Host, Threads, watched
from tests.behaviour.newsroom import let_run

from pilotage import Application, Principal
from pilotage.adapters.agui import AgUiConfig, driver_for
from pilotage.testing import MemoryStore, ScriptedModel, calls, says

ADA = Principal("ada")
CONNECT = ag_ui_input(None, runId="client-9")


def roles(messages: list[Frame]) -> list[tuple[str, str | None]]:
    return [(message["role"], message.get("content")) for message in messages]


async def test_a_page_that_connects_gets_the_messages_of_the_thread_with_the_ids_of_their_streams() -> None:
    bank, model = Bank(), ScriptedModel([says("One."), calls("pay", to="Bo", amount="5"), says("Paid.")])
    async with bank.open(model) as app:
        first = await ask(app, ag_ui_input("Hello"), principal=ADA)
        (interrupt,) = interrupts_of(await ask(app, ag_ui_input("Pay", runId="c2"), principal=ADA))
        await ask(app, resume(interrupt["id"], True), principal=ADA)
        frames = await ask(app, CONNECT, principal=ADA)
        foreign = await ask(app, CONNECT, principal=Principal("eve", tenant="elsewhere"))
    assert types(frames) == ["RUN_STARTED", "MESSAGES_SNAPSHOT", "RUN_FINISHED"]
    messages = frames[1]["messages"]
    assert roles(messages) == [
        ("user", "Hello"),
        ("assistant", "One."),
        ("user", "Pay"),
        ("assistant", None),
        ("tool", '"paid"'),
        ("assistant", "Paid."),
    ]
    assert messages[3]["toolCalls"][0]["function"]["name"] == "pay"
    assert messages[1]["id"] in {frame.get("messageId") for frame in first}
    assert foreign[1]["messages"] == []


async def test_a_page_that_connects_gets_the_open_question_back() -> None:
    bank = Bank()
    async with bank.open(paying()) as app:
        (interrupt,) = interrupts_of(await ask(app, ag_ui_input("Pay Bo"), principal=ADA))
        frames = await ask(app, CONNECT, principal=ADA)
        assert interrupts_of(frames) == [interrupt]
        done = await ask(app, resume(interrupt["id"], True), principal=ADA)
    assert types(frames) == ["RUN_STARTED", "MESSAGES_SNAPSHOT", "RUN_FINISHED"]
    assert roles(frames[1]["messages"]) == [("user", "Pay Bo"), ("assistant", None)]
    assert (texts(done), bank.payments.paid) == ("Done.", ["5 to Bo"])


async def test_a_page_that_connects_to_a_run_under_way_reads_it_to_its_end() -> None:
    gate, model = Gate(), ScriptedModel([calls("hold"), says("Done.")])
    app = Application("door").add(KeptDoorman, gate, model, *MemoryStore().ports)
    async with app.load_plugins():
        one = asyncio.ensure_future(ask(app, ag_ui_input("Hold"), KeptDoorman, principal=ADA))
        await gate.reached.get()
        connect = ag_ui_input("Hold", runId="client-9", forwardedProps={"connect": True})
        two = asyncio.ensure_future(ask(app, connect, KeptDoorman, principal=ADA))
        await asyncio.sleep(0)
        gate.open.set()
        await one
        frames = await two
    assert types(frames)[:2] == ["RUN_STARTED", "MESSAGES_SNAPSHOT"]
    assert roles(frames[1]["messages"]) == [("user", "Hold")]
    assert (texts(frames), frames[-1]["outcome"]) == ("Done.", {"type": "success"})


async def test_messages_that_a_run_was_given_stand_where_the_model_read_them() -> None:
    threads = Threads(Host)
    signals = watched(threads)
    model = ScriptedModel([calls("hold"), calls("ask_first"), says("All three.")])
    async with threads.process(model) as app:
        one = asyncio.ensure_future(threads.ask(app, HELLO))
        await threads.gate.reached.get()
        two = asyncio.ensure_future(threads.ask(app, NEXT))
        await signals.stored.get()
        under_way = asyncio.ensure_future(threads.ask(app, CONNECT))
        await let_run()
        threads.gate.open.set()
        (interrupt,) = interrupts_of(await one)
        await two
        await threads.ask(app, ag_ui_input("Still there?", runId="client-3"))
        asked = await threads.ask(app, CONNECT)
        await threads.ask(app, resume(interrupt["id"], True))
        done = await threads.ask(app, CONNECT)
    called = [("assistant", None), ("tool", '"held"')]
    assert roles((await under_way)[1]["messages"]) == [("user", "Hello"), ("user", "And then?")]
    before = [("user", "Hello"), *called, ("user", "And then?"), ("assistant", None)]
    assert roles(asked[1]["messages"]) == [*before, ("user", "Still there?")]
    assert roles(done[1]["messages"]) == [
        *before,
        ("tool", '"done"'),
        ("user", "Still there?"),
        ("assistant", "All three."),
    ]


async def test_a_run_may_begin_with_the_messages_of_its_thread() -> None:
    config = AgUiConfig(history_at_start=True)
    async with Bank().open(ScriptedModel([says("One."), says("Two.")])) as app:
        await ask(app, ag_ui_input("Hello"), config=config, principal=ADA)
        frames = await ask(app, ag_ui_input("And?", runId="client-2"), config=config, principal=ADA)
    assert types(frames)[:2] == ["RUN_STARTED", "MESSAGES_SNAPSHOT"]
    assert roles(frames[1]["messages"]) == [("user", "Hello"), ("assistant", "One."), ("user", "And?")]
    assert frames[1]["messages"][-1]["id"] == "u1"
    assert texts(frames) == "Two."


async def test_a_route_gives_the_messages_of_a_thread_to_those_who_may_see_them() -> None:
    bank = Bank()
    async with (
        bank.open(ScriptedModel([says("One.")])) as app,
        served(endpoints(driver_for(app, Teller), principal=Badges())) as address,
        client(address) as http,
    ):
        ada, eve = {"x-badge": "ada"}, {"x-badge": "eve"}
        await http.post("/agui", json=said("Hello", threadId="a/b"), headers=ada)
        mine = await http.get("/agui/threads/a/b", headers=ada)
        hers = await http.get("/agui/threads/a/b", headers=eve)
        refused = await http.get("/agui/threads/a/b")
    assert roles(mine.json()["messages"]) == [("user", "Hello"), ("assistant", "One.")]
    assert (mine.json()["threadId"], hers.json()["messages"]) == ("a/b", [])
    assert refused.status_code == 401


async def test_an_agent_that_is_not_durable_has_no_thread_to_connect_to() -> None:
    model = ScriptedModel([says("One.")])
    async with Bank().open(model) as app:
        (refused,) = await ask(app, CONNECT, Clerk, principal=ADA)
    assert (refused["code"], model.requests) == ("agui_run_resolution_error", [])

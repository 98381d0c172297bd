"""Runs that their clients end: by an input that says so, at once where the line is one that goes on."""

from __future__ import annotations

import asyncio
import json
from typing import Any

import websockets
from tests.adapters.agui.bank import PAY, Bank, Clerk, Frame, Porter, ask, paying, texts
from tests.adapters.agui.door import Gate, KeptDoorman
from tests.adapters.agui.samples import ag_ui_input, said
from tests.adapters.agui.server import endpoints, frames_in, served

from pilotage import Application, Principal
from pilotage.adapters.agui import driver_for
from pilotage.agent import DamagedRun, RunPage
from pilotage.testing import MemoryStateRepository, MemoryStore, ScriptedModel, calls, says


def end(name: str | bool = "client-1", **fields: Any) -> Any:
    props = {"cancelRun": name}
    return ag_ui_input(None, runId="client-9", forwardedProps=props, protocolVersion="1.0", **fields)


async def test_a_waiting_run_is_cancelled_and_a_finished_one_stays_as_it_is() -> None:
    bank = Bank()
    async with bank.open(ScriptedModel([calls("pay", **PAY), says("Hi.")])) as app:
        await ask(app, ag_ui_input("Pay Bo"))
        cancelled = await ask(app, end())
        again = await ask(app, end())
        await ask(app, ag_ui_input("Hello", runId="client-2"))
        finished = await ask(app, end("client-2"))
    assert [frame["type"] for frame in cancelled] == ["RUN_STARTED", "RUN_FINISHED"]
    assert cancelled[-1]["outcome"] == again[-1]["outcome"] == {"type": "cancelled"}
    assert (finished[-1]["outcome"], finished[-1]["result"]) == ({"type": "success"}, "Hi.")
    assert bank.payments.paid == []


async def test_a_page_that_does_not_know_who_started_the_run_of_its_thread_ends_it() -> None:
    gate, model = Gate(), ScriptedModel([calls("hold"), says("Hi.")])
    app = Application("door").add(KeptDoorman, Porter, gate, model, *Bank().store.ports)
    async with app.load_plugins():
        one = asyncio.ensure_future(ask(app, ag_ui_input("Hold", protocolVersion="1.0"), KeptDoorman))
        await gate.reached.get()
        elsewhere = await ask(app, end(name=True, threadId="thread-2"), KeptDoorman)
        (misplaced,) = await ask(app, end(name=True), Porter)
        ended = await ask(app, end(name=True), KeptDoorman)
        again = await ask(app, end(name=True), KeptDoorman)
        assert texts(await ask(app, ag_ui_input("Hello", runId="client-2"), KeptDoorman)) == "Hi."
    assert [frames[-1]["outcome"]["type"] for frames in (await one, ended)] == ["cancelled", "cancelled"]
    assert [frames[-1]["outcome"]["type"] for frames in (elsewhere, again)] == ["success", "success"]
    assert misplaced["code"] == "run_conflict"


class DamagedStates(MemoryStateRepository):
    """Says that each run of a list is damaged."""

    async def list_runs(self, *given: Any, **named: Any) -> RunPage:
        found = await super().list_runs(*given, **named)
        damaged = [
            DamagedRun(each.id, f"run {each.id!r} is not stored as it was written.") for each in found.runs
        ]
        return RunPage((), found.cursor, tuple(damaged))


async def test_a_page_is_told_of_a_damaged_run_of_its_thread_and_not_that_none_was_to_be_ended() -> None:
    store = MemoryStore()
    store.states = DamagedStates(store)
    async with Bank(store).open(paying()) as app:
        await ask(app, ag_ui_input("Pay Bo"))
        (refused,) = await ask(app, end(name=True))
        elsewhere = await ask(app, end(name=True, threadId="thread-2"))
    assert (refused["type"], refused["code"]) == ("RUN_ERROR", "damaged_entry")
    assert "is not stored as it was written" in refused["message"]
    assert elsewhere[-1]["outcome"] == {"type": "success"}


async def test_nobody_ends_runs_of_others() -> None:
    async with Bank().open(paying()) as app:
        await ask(app, ag_ui_input("Pay Bo"))
        eve = await ask(app, end(), principal=Principal("eve", tenant="elsewhere"))
        misplaced = await ask(app, end(), Porter)
        unknown = await ask(app, end("nobody"))
        unkept = await ask(app, end(), Clerk)
    codes = [frames[-1]["code"] for frames in (eve, misplaced, unknown, unkept)]
    assert codes == ["run_not_found", "run_conflict", "run_not_found", "run_conflict"]


async def test_over_a_socket_a_run_is_ended_while_it_is_told() -> None:
    gate = Gate()
    app = Application("door").add(KeptDoorman, gate, ScriptedModel([calls("hold")]), *Bank().store.ports)
    read: list[Frame] = []
    async with (
        app.load_plugins(),
        served(endpoints(driver_for(app, KeptDoorman))) as address,
        websockets.connect(f"ws://{address}/agui/ws") as socket,
    ):
        await socket.send(json.dumps(said("Hold it", protocolVersion="1.0")))
        await gate.reached.get()
        await socket.send(end().model_dump_json(by_alias=True))
        while [frame["type"] for frame in read].count("RUN_FINISHED") < 2:
            read += frames_in(str(await socket.recv()))
    ends = [frame for frame in read if frame["type"] == "RUN_FINISHED"]
    assert [frame["runId"] for frame in ends] == ["client-1", "client-9"]
    assert [frame["outcome"]["type"] for frame in ends] == ["cancelled", "cancelled"]

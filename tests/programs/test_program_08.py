"""The serving program: routes for runs, AG-UI and a socket of one's own, over one agent."""

from __future__ import annotations

import json

import websockets

from pilotage import Application
from pilotage.testing import MemoryStore, ScriptedModel, says
from tests.adapters.agui.sequence import fault_in
from tests.adapters.agui.server import client, frames_in, served
from tests.programs.program_08_serving import CodeAssistant, serving

TASK = {"goal": "Fix it"}


async def test_one_agent_is_reached_in_three_ways() -> None:
    model = ScriptedModel([says("Over HTTP."), says("Over AG-UI."), says("Over a socket.")])
    app = Application("code").add(CodeAssistant, model, *MemoryStore().ports)
    async with app.load_plugins():
        api = serving(app)
        async with api.router.lifespan_context(api), served(api) as address, client(address) as http:
            known = {"authorization": "Bearer secret-token"}
            started = await http.post("/runs", json={"agent": "code_assistant", "input": TASK}, headers=known)
            run = started.json()["id"]
            over_http = (await http.get(f"/runs/{run}/events", headers=known)).text
            refused = await http.get(f"/runs/{run}")
            words = [{"id": "u1", "role": "user", "content": json.dumps(TASK)}]
            given = {"threadId": "thread-1", "runId": "run-1", "messages": words}
            frames = frames_in((await http.post("/agui", json=given)).text)
            async with websockets.connect(f"ws://{address}/agents/code") as socket:
                await socket.send(json.dumps(TASK))
                items = [json.loads(await socket.recv())]
                while items[-1]["kind"] != "final":
                    items.append(json.loads(await socket.recv()))
    assert (started.status_code // 100, refused.status_code) == (2, 401)
    assert "HTTP." in over_http
    assert (fault_in(frames), frames[-1]["result"]) == (None, "Over AG-UI.")
    assert "Over a socket." in json.dumps(items[-1])

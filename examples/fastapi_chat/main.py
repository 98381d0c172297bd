"""A chat behind FastAPI, in three ways: an endpoint of your own, a controller, and the routes of runs.

The first two stream `agent.execute()`, over a WebSocket and as server-sent events. The third one is for runs that
outlive their readers: a client loses the line, comes back with the last id, and has missed nothing.

Run it: python examples/fastapi_chat/main.py            (talks to itself)
        python examples/fastapi_chat/main.py --serve    (listens on http://127.0.0.1:8000, needs pilotage[serve])
"""

from __future__ import annotations

import json
import sys
from collections.abc import AsyncGenerator, AsyncIterator
from typing import Annotated, Any

from fastapi import FastAPI, WebSocket
from pydantic import BaseModel
from starlette.testclient import TestClient

from pilotage import (
    Agent,
    AgentExecutionSpec,
    AgentYield,
    AgentYieldJsonEncoder,
    Application,
    Final,
    IAgentModel,
    ModelMessage,
    ModelRequest,
    Principal,
    Token,
)
from pilotage.adapters.fastapi import (
    ApiController,
    BearerTokens,
    Caller,
    Inject,
    agent_routes,
    asgi_application,
    controller_routes,
    get,
    pilotage_lifespan,
    serve,
    sse,
)
from pilotage.testing import MemoryStore, ScriptedModel, says, when

ADA = {"authorization": "Bearer a-long-random-token-for-ada"}


ANSWERS = {
    "ship": "A ship carries what you put into it.",
    "port": "A port is where a ship meets the land.",
    "pilot": "A pilot knows the way in and out.",
}


class Question(BaseModel):
    """What somebody wants to know."""

    text: str


@Agent(durable=True, spec=AgentExecutionSpec(name="chat"))
class Chat:
    """Answers questions, word by word."""

    def __init__(self, model: IAgentModel) -> None:
        self.model = model

    async def execute(self, question: Question) -> AsyncGenerator[AgentYield[str], None]:
        """The answer."""
        answer = ""
        async for event in self.model.stream(ModelRequest([ModelMessage.user(question.text)])):
            if event.is_text_delta:
                answer += event.text
                yield Token(event.text)
        yield Final(answer)


@ApiController(prefix="/chat")
class ChatController:
    """The same chat as a controller: a pod, with what it needs in its constructor."""

    def __init__(self, chat: Chat) -> None:
        self.chat = chat

    @get("/me")
    async def me(self, caller: Caller) -> str:
        """Who is talking."""
        return caller.id

    @sse("", method="POST")
    async def ask(self, question: Question) -> AsyncIterator[AgentYield[str]]:
        """The answer as server-sent events."""
        async for item in self.chat.execute(question):
            yield item


def application() -> Application:
    """The application, which knows nothing of HTTP but its controller."""
    model = ScriptedModel([when(f"a {about}?", says(answer)) for about, answer in ANSWERS.items()])
    app = Application("chat").add(Chat, ChatController, model, *MemoryStore().ports)
    return app.load_plugins(exclude=["pilotage.adapters.sqlalchemy"])


def chat_api(app: Application) -> FastAPI:
    """A FastAPI application as you would write it, with the chat in it three times."""
    people = BearerTokens({"a-long-random-token-for-ada": Principal("ada", tenant="acme")})
    api = FastAPI(lifespan=pilotage_lifespan(app))
    api.include_router(agent_routes(app, principal=people))
    api.include_router(controller_routes(app, principal=people))

    @api.websocket("/talk")
    async def talk(socket: WebSocket, chat: Annotated[Chat, Inject()]) -> None:
        await socket.accept()
        question = Question.model_validate(await socket.receive_json())
        async for item in chat.execute(question):
            await socket.send_json(AgentYieldJsonEncoder.encode(item))
        await socket.close()

    return api


def frames(text: str) -> list[dict[str, Any]]:
    """The events of a server-sent stream."""
    found: list[dict[str, Any]] = []
    for block in text.split("\n\n"):
        fields = dict(line.split(": ", 1) for line in block.splitlines() if ": " in line)
        if "data" in fields:
            found.append({**fields, "data": json.loads(fields["data"])})
    return found


def own_endpoint(client: TestClient) -> str:
    """Over a WebSocket, by an endpoint of your own."""
    said: list[str] = []
    with client.websocket_connect("/talk") as socket:
        socket.send_json({"text": "What is a ship?"})
        while (item := socket.receive_json())["kind"] == "token":
            said.append(item["payload"]["text"])
    assert item["kind"] == "final"
    return "".join(said)


def controller(client: TestClient) -> str:
    """As server-sent events, by a controller."""
    assert client.get("/chat/me").status_code == 401
    assert client.get("/chat/me", headers=ADA).json() == "ada"
    told = frames(client.post("/chat", json={"text": "What is a port?"}, headers=ADA).text)
    assert told[-1]["event"] == "final"
    return "".join(each["data"]["payload"]["text"] for each in told if each["event"] == "token")


def runs(client: TestClient) -> str:
    """By the routes of runs: started, read, cut off, read on over the other transport."""
    body = {"agent": "chat", "input": {"question": {"text": "What is a pilot?"}}}
    run = client.post("/runs", json=body, headers=ADA).json()
    told = frames(client.get(f"/runs/{run['id']}/events", headers=ADA).text)
    had: list[dict[str, Any]] = told[: len(told) // 2]
    rest: list[dict[str, Any]] = []
    last = had[-1]["id"]
    print(f"    the line broke behind event {last}")
    with client.websocket_connect(f"/runs/{run['id']}/events?after={last}", headers=ADA) as socket:
        while not rest or rest[-1]["event"] != "run_finished":
            rest.append(socket.receive_json())
    print(f"    {len(had)} events came before, {len(rest)} behind it")
    return "".join(each["data"]["delta"] for each in (*had, *rest) if each["event"] == "message_delta")


def main() -> None:
    """Ask in three ways."""
    with TestClient(chat_api(application())) as client:
        ways = (own_endpoint, controller, runs)
        for way, expected in zip(ways, ANSWERS.values(), strict=True):
            print(way.__doc__)
            answer = way(client)
            print(f"    {answer}")
            assert answer == expected
    # Or all of it in one line, without an endpoint of your own: serve(application()) listens.
    assert asgi_application(application()).title == "chat"
    print("demo: ok")


if __name__ == "__main__":
    if "--serve" in sys.argv:
        serve(application())
    else:
        main()

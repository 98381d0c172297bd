"""Use case 5: a model call to an OpenAI-compatible server. The server replays what a real one answered.

The same adapter is proven against a live vLLM server by `make test-vllm`.
"""

from __future__ import annotations

from pilotage import Agent, Application, IAgentModel, ModelMessage, ModelRequest
from pilotage.adapters.openai import OpenAICompatibleSettings
from tests.adapters.openai.answers import about_server
from tests.adapters.openai.replay_server import Answer, ReplayServer, Seen, answer_of, replaying
from tests.adapters.openai.traces import trace


@Agent
class Asker:
    def __init__(self, model: IAgentModel) -> None:
        self.model = model

    async def execute(self, question: str) -> str:
        return (await self.model.complete(ModelRequest([ModelMessage.user(question)]))).content


def recorded(seen: Seen) -> Answer:
    name = "chat_stream_usage" if seen.method == "POST" and seen.json.get("stream") else "chat_nonstream"
    return about_server(seen) or answer_of(trace(name))


async def ask(server: ReplayServer) -> str:
    settings = OpenAICompatibleSettings(server.base_url, "tiny")
    async with Application("asking").add(Asker, settings).load_plugins() as app:
        return await app.get(Asker).execute("the capital of France is")


async def test_an_agent_asks_the_server_that_the_settings_name() -> None:
    with replaying(recorded) as server:
        answer = await ask(server)
        (asked,) = server.chats
    assert answer.strip()
    assert asked["model"] == "tiny"
    assert asked["messages"][-1] == {"role": "user", "content": "the capital of France is"}

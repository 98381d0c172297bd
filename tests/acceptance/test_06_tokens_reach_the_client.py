"""Use case 6: what the model streams reaches the caller as items of the agent's own stream, token by token."""

from __future__ import annotations

from collections.abc import AsyncGenerator

from pilotage import (
    Agent,
    AgentYield,
    Application,
    Final,
    IAgentModel,
    ModelMessage,
    ModelRequest,
    RunAgentInput,
    Token,
)
from pilotage.adapters.openai import OpenAICompatibleSettings
from pilotage.runtime import AgentRunner
from tests.adapters.openai.answers import about_server, streamed
from tests.adapters.openai.replay_server import Answer, Seen, replaying

WORDS = ["Good ", "day, ", "Countess."]


@Agent
class Handwritten:
    def __init__(self, model: IAgentModel) -> None:
        self.model = model

    async def execute(self, name: str) -> AsyncGenerator[AgentYield[str], None]:
        async for event in self.model.stream(ModelRequest([ModelMessage.user(f"greet {name}")])):
            if event.is_text_delta:
                yield Token(event.text)
            if event.is_final:
                yield Final(event.text)


@Agent
class Declared:
    """Greet people."""


def greeting(seen: Seen) -> Answer:
    return about_server(seen) or streamed(*({"content": word} for word in WORDS))


async def test_tokens_of_a_server_are_tokens_of_the_agent() -> None:
    with replaying(greeting) as server:
        settings = OpenAICompatibleSettings(server.base_url, "tiny")
        async with Application("hotel").add(Handwritten, Declared, settings).load_plugins() as app:
            by_hand = [item async for item in app.get(Handwritten).execute("Ada")]
            runner = AgentRunner.for_agent_instance(app.get(Declared))
            declared = [item.payload async for item in runner.run(RunAgentInput("r-1", "greet Ada"))]
    assert by_hand[:-1] == [*map(Token, WORDS)]
    assert isinstance(by_hand[-1], Final)
    assert by_hand[-1].output == "Good day, Countess."
    tokens = [item.text for item in declared if isinstance(item, Token)]
    assert (len(tokens), "".join(tokens)) == (3, "Good day, Countess.")
    assert isinstance(declared[-1], Final)

"""A request for a longer reply than its model writes is refused before anything is sent."""

from __future__ import annotations

from pilotage import Agent, AgentExecutionSpec, IAgentModel, ModelMessage, ModelRequest
from pilotage.agent import ModelCapability, SamplingOptions
from pilotage.errors import ModelCallError
from pilotage.testing import ScriptedModel, says
from tests.behaviour.bureau import DURABLE, Bureau, started


@Agent(spec=AgentExecutionSpec(name="talker", recovery=DURABLE))
class Talker:
    """Asks for replies of a length."""

    def __init__(self, model: IAgentModel) -> None:
        self.model = model

    async def execute(self, length: int) -> str:
        asked = ModelRequest([ModelMessage.user("Hi")], sampling=SamplingOptions(max_tokens=length))
        try:
            return (await self.model.complete(asked)).content
        except ModelCallError as error:
            return f"{error.failure}: {error}"


async def test_only_a_length_that_the_model_writes_is_asked_for() -> None:
    model = ScriptedModel([says("Hello.")], capability=ModelCapability("terse", max_output_tokens=100))
    async with Bureau().process(Talker, model=model) as runs:
        assert (await started(runs, Talker, 101)).output == (
            "max_tokens_refused: the model call is not made: 'terse' writes at most 100 tokens, and the request asks "
            "for max_tokens=101. Ask for less, or use another model."
        )
        assert (await started(runs, Talker, 100)).output == "Hello."
    assert len(model.requests) == 1

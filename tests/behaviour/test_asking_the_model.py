"""`Dependencies.ask`: the id of the coming message, and the stream of it."""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping

from pilotage import (
    Agent,
    AgentEvent,
    AgentExecutionSpec,
    IAgentModel,
    ModelMessage,
    ModelRequest,
    ModelResponse,
    ModelStreamEvent,
    ModelStreamEventKind,
    ToolEffects,
    agent_tool,
    run_sync,
)
from pilotage.agent import AgentSession, Dependencies, ModelToolCall
from pilotage.agent.ports.architecture import AgentRef

CALL = ModelToolCall("look_up", {"page": 1}, "call-1")


class Caller(IAgentModel):
    """Asks for a page, in events without the tools of the request."""

    async def complete(self, request: ModelRequest) -> ModelResponse:
        return ModelResponse("", tool_calls=[CALL])

    async def stream(self, request: ModelRequest) -> AsyncIterator[ModelStreamEvent]:
        yield ModelStreamEvent(ModelStreamEventKind.TOOL_CALL_CANDIDATE, tool_call=CALL)
        yield ModelStreamEvent(ModelStreamEventKind.DONE, response=await self.complete(request))


class Listening:
    """Asks three times, and keeps what came."""

    name, version = "listening", 1

    def __init__(self) -> None:
        self.ids: list[str] = []
        self.are_attached: list[bool] = []

    async def run(self, session: AgentSession, deps: Dependencies, prompt: str) -> AsyncIterator[AgentEvent]:
        request = ModelRequest([ModelMessage.user(prompt)], tool_calling=deps.tools.calling)
        coming = deps.next_message_id()
        message_id, stream = deps.ask(request)
        calls = [event async for event in stream if event.tool_call is not None]
        calls += [event async for event in deps.model.stream(request) if event.tool_call is not None]
        worker_id, of_worker = deps.scope_for_worker("other").ask(request)
        calls += [event async for event in of_worker if event.tool_call is not None]
        self.ids = [coming, message_id, worker_id]
        self.are_attached = [event.tools is not None for event in calls]
        session.output = (await deps.tools.call(CALL)).result
        yield deps.progress("listened")

    def declared_workers(self) -> Mapping[str, AgentRef]:
        return {}


LOOP = Listening()


@Agent(spec=AgentExecutionSpec(architecture=LOOP))
class Listener:
    """Listen."""

    @agent_tool(effects=ToolEffects.read_only())
    async def look_up(self, page: int) -> str:
        """Look a page up."""
        return f"page {page}"


def test_a_loop_gets_the_id_that_was_announced_and_calls_tools_by_their_names() -> None:
    assert run_sync(Listener, "Read.", model=Caller()).output == "page 1"
    coming, message_id, worker_id = LOOP.ids
    assert message_id == coming
    assert worker_id != message_id
    assert LOOP.are_attached == [False, True, False]

"""A postbox for stories about signals: a run that is sent something while it works, at a place the test can name."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator

from tests.behaviour.office import UNGATED, World

from pilotage import (
    AgentSignalKind,
    IAgentModel,
    Idempotency,
    ModelRequest,
    ModelResponse,
    ModelStreamEvent,
    ModelStreamEventKind,
    Pod,
    ToolEffects,
    agent_tool,
    get_run_context,
)
from pilotage.runtime import AgentRuns

EVENT = AgentSignalKind.EXTERNAL_EVENT
WAKE_UP = AgentSignalKind.SCHEDULER_WAKE_UP
MESSAGE = AgentSignalKind.USER_MESSAGE
STEERING = AgentSignalKind.STEERING_INSTRUCTION


@Pod
class Postbox:
    """Sends signals to the run that uses it, as somebody outside would, and does things that strangers may decide."""

    def __init__(self, runs: AgentRuns, world: World) -> None:
        self.runs, self.world = runs, world

    @agent_tool(
        effects=ToolEffects.write_state(),
        idempotency=Idempotency.IDEMPOTENT,
        approval=UNGATED,
        accepts_untrusted=True,
    )
    async def send(self, kind: str, text: str) -> str:
        """Send a signal to this very run; its text is its id, so sending it again is sending it once."""
        run_id = get_run_context().run_id
        await self.runs.signal(run_id, AgentSignalKind(kind), {"text": text}, id=f"{kind}:{text}")
        return text

    @agent_tool(
        effects=ToolEffects.write_state(),
        idempotency=Idempotency.NON_IDEMPOTENT,
        approval=UNGATED,
        accepts_untrusted=True,
    )
    async def stamp(self, what: str) -> str:
        """Stamp something; only a person can find out whether it happened."""
        self.world.act(f"stamp {what}")
        return f"stamped {what}"

    @agent_tool(effects=ToolEffects.write_state(), idempotency=Idempotency.IDEMPOTENT, approval=UNGATED)
    async def shelve(self, what: str) -> str:
        """Put something away; what strangers want put away, a person is asked about."""
        self.world.act(f"shelve {what}")
        return f"shelved {what}"


class Parrot(IAgentModel):
    """Says what it was shown: who said it, and what."""

    async def complete(self, request: ModelRequest) -> ModelResponse:
        raise AssertionError("a run reads the stream")

    async def stream(self, request: ModelRequest) -> AsyncIterator[ModelStreamEvent]:
        said = "; ".join(f"{message.role.value}: {message.text}" for message in request.messages)
        for _ in range(5):
            await asyncio.sleep(0)  # what was told before is committed meanwhile
        yield ModelStreamEvent(ModelStreamEventKind.TOKEN_DELTA, token_delta=said)
        yield ModelStreamEvent(ModelStreamEventKind.DONE, response=ModelResponse(said))


def framed(text: str, kind: AgentSignalKind = EVENT) -> str:
    """A signal of the postbox as a model is shown it."""
    opening = f'id="{kind.value}:{text}" source="{kind.value}" role="evidence" freshness="current"'
    return f"<context {opening}>\n| {text}\n</context>"

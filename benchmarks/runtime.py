"""What the runtime adds to a run: a model call, one tool call, an answer; against a plain asyncio loop.

The durable runs here are journaled into memory, JSON and hash chain included: the runtime's own cost, no disk.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from time import perf_counter

from pilotage import (
    Agent,
    AgentExecutionSpec,
    Application,
    IAgentModel,
    Idempotency,
    ModelMessage,
    ModelRequest,
    ModelResponse,
    ModelStreamEvent,
    ModelStreamEventKind,
    Pod,
    RecoveryStrategy,
    ToolEffects,
    agent_tool,
)
from pilotage.agent import ToolApprovalRequirement
from pilotage.runtime import AgentRuns
from pilotage.runtime.plugin import initialize
from pilotage.testing import MemoryStore

_RUNS = 300
_SIDE_BY_SIDE = 200


class Instant(IAgentModel):
    """Answers at once."""

    async def complete(self, request: ModelRequest) -> ModelResponse:
        return ModelResponse("yes")

    async def stream(self, request: ModelRequest) -> AsyncIterator[ModelStreamEvent]:
        yield ModelStreamEvent(ModelStreamEventKind.DONE, response=ModelResponse("yes"))


@Pod
class Notes:
    @agent_tool(
        effects=ToolEffects.write_state(),
        idempotency=Idempotency.IDEMPOTENT,
        approval=ToolApprovalRequirement.NOT_REQUIRED,
    )
    async def note(self, text: str) -> str:
        """Take a note."""
        return text


@Agent(spec=AgentExecutionSpec(recovery=RecoveryStrategy.ACTION_BOUNDARY))
class Clerk:
    def __init__(self, model: IAgentModel, notes: Notes) -> None:
        self.model, self.notes = model, notes

    async def execute(self, turns: int) -> str:
        text = ""
        for _ in range(turns):
            reply = await self.model.complete(ModelRequest([ModelMessage.user("?")]))
            text = await self.notes.note(reply.content)
        return text


def measure() -> dict[str, float]:
    """Times per run and ratios against the floor."""
    return asyncio.run(_measure())


async def _measure() -> dict[str, float]:
    app = Application("benchmark").add(Clerk, Notes, Instant(), *MemoryStore().ports)
    initialize(app)
    async with app:
        runs = app.get(AgentRuns)

        async def durable(turns: int) -> None:
            await (await runs.start(Clerk, turns)).result()

        floor = await _time(lambda: _floor(1))
        single = await _time(lambda: durable(1))
        ten, two_hundred = await _time(lambda: durable(10), 30), await _time(lambda: durable(200), 5)
        started = perf_counter()
        await asyncio.gather(*(durable(1) for _ in range(_SIDE_BY_SIDE)))
        side_by_side = _SIDE_BY_SIDE / (perf_counter() - started)
    return {
        "plain loop: model, tool, answer, us": floor * 1e6,
        "durable run in memory, us": single * 1e6,
        "durable run in memory / plain loop": single / floor,
        "per turn at 200 turns / per turn at 10": (two_hundred / 200) / (ten / 10),
        "200 durable runs side by side, runs/s": side_by_side,
    }


async def _floor(turns: int) -> str:
    model, tools = Instant(), {"note": Notes().note}
    text, messages = "", [{"role": "user", "content": "?"}]
    for _ in range(turns):
        reply = await model.complete(ModelRequest([ModelMessage.user("?")]))
        text = await tools["note"](reply.content)
        messages += [{"role": "assistant", "content": reply.content}, {"role": "tool", "content": text}]
    return text


async def _time(act: Callable[[], Awaitable[object]], count: int = _RUNS) -> float:
    best = float("inf")
    for _ in range(3):
        started = perf_counter()
        for _ in range(count):
            await act()
        best = min(best, (perf_counter() - started) / count)
    return best


if __name__ == "__main__":
    for what, figure in measure().items():
        print(f"{what:<50}{figure:>12.2f}")

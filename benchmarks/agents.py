"""The agents and fake models that are measured: they do what the floor does."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from typing import cast

from benchmarks.floor import PAGE, WORDS
from benchmarks.redaction import PATTERNS

from pilotage import (
    Agent,
    AgentExecutionSpec,
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
from pilotage.agent import ModelToolCall, ToolApprovalRequirement
from pilotage.architectures import React
from pilotage.container import Scope
from pilotage.safety import StreamingRedactionPolicy, StreamingSensitivePattern

_ENDLESS = React(max_turns=10_000)
_POLICY = StreamingRedactionPolicy(
    [StreamingSensitivePattern(name, source) for name, source in PATTERNS.items()], buffer_size=256
)
_CALL, _TOKEN, _DONE = (
    ModelStreamEventKind.TOOL_CALL_CANDIDATE,
    ModelStreamEventKind.TOKEN_DELTA,
    ModelStreamEventKind.DONE,
)


class Asking(IAgentModel):
    """Asks for a page as often as the user says, then answers."""

    async def complete(self, request: ModelRequest) -> ModelResponse:
        return _reply(request)

    async def stream(self, request: ModelRequest) -> AsyncIterator[ModelStreamEvent]:
        reply = _reply(request)
        if reply.tool_calls:
            yield ModelStreamEvent(_CALL, tool_call=reply.tool_calls[0])
        else:
            yield ModelStreamEvent(_TOKEN, token_delta=reply.content)
        yield ModelStreamEvent(_DONE, response=reply)


def _reply(request: ModelRequest) -> ModelResponse:
    asked = (len(request.messages) - 2) // 2
    if asked < int(request.messages[1].text):
        return ModelResponse("", tool_calls=[ModelToolCall("look_up", {"page": asked}, f"call-{asked}")])
    return ModelResponse("done")


THINKING_SECONDS = 0.02


class Thinking(Asking):
    """Takes as long as a fast server."""

    async def stream(self, request: ModelRequest) -> AsyncIterator[ModelStreamEvent]:
        await asyncio.sleep(THINKING_SECONDS)
        async for event in super().stream(request):
            yield event


class Blocking(Asking):
    """Waits for ever instead of giving the answer; `reached` says how often it was asked for it."""

    def __init__(self) -> None:
        self.reached: asyncio.Queue[None] = asyncio.Queue()

    async def stream(self, request: ModelRequest) -> AsyncIterator[ModelStreamEvent]:
        if not _reply(request).tool_calls:
            self.reached.put_nowait(None)
            await asyncio.Event().wait()
        async for event in super().stream(request):
            yield event


class Talking(IAgentModel):
    """Says as many words as the user asks for."""

    async def complete(self, request: ModelRequest) -> ModelResponse:
        raise NotImplementedError

    async def stream(self, request: ModelRequest) -> AsyncIterator[ModelStreamEvent]:
        for number in range(int(request.messages[1].text)):
            yield ModelStreamEvent(_TOKEN, token_delta=WORDS[number % 8])
        yield ModelStreamEvent(_DONE, response=ModelResponse("done"))


@Agent(spec=AgentExecutionSpec(architecture=_ENDLESS))
class Declared:
    """Look things up, then answer."""

    @agent_tool(effects=ToolEffects.read_only())
    async def look_up(self, page: int) -> str:
        """Look a page up."""
        return PAGE


@Pod
class Library:
    @agent_tool(effects=ToolEffects.read_only())
    async def look_up(self, page: int) -> str:
        """Look a page up."""
        return PAGE


@Agent
class Written:
    """Has a loop of its own."""

    def __init__(self, model: IAgentModel, library: Library) -> None:
        self.model, self.library = model, library

    async def execute(self, turns: int) -> str:
        messages = [ModelMessage.system("Look things up, then answer."), ModelMessage.user(str(turns))]
        while True:
            reply = await self.model.complete(ModelRequest(messages))
            messages.append(reply.message)
            if not reply.tool_calls:
                return reply.content
            for call in reply.tool_calls:
                found = await self.library.look_up(cast(int, call.arguments["page"]))
                messages.append(ModelMessage.tool(call.call_id or "", found))


@Agent(spec=AgentExecutionSpec(architecture=_ENDLESS, recovery=RecoveryStrategy.ACTION_BOUNDARY))
class Kept:
    """Look things up, then answer."""

    @agent_tool(
        effects=ToolEffects.write_state(),
        idempotency=Idempotency.IDEMPOTENT,
        approval=ToolApprovalRequirement.NOT_REQUIRED,
    )
    async def look_up(self, page: int) -> str:
        """Look a page up, and remember that somebody did."""
        return PAGE


LARGE_PAGE = PAGE * 8
"""2 kB."""


@Agent(spec=AgentExecutionSpec(architecture=_ENDLESS, recovery=RecoveryStrategy.ACTION_BOUNDARY))
class Large:
    """Look large things up, then answer."""

    @agent_tool(
        effects=ToolEffects.write_state(),
        idempotency=Idempotency.IDEMPOTENT,
        approval=ToolApprovalRequirement.NOT_REQUIRED,
    )
    async def look_up(self, page: int) -> str:
        """Look a large page up, and remember that somebody did."""
        return f"{page}{LARGE_PAGE}"


@Agent(spec=AgentExecutionSpec(architecture=_ENDLESS, recovery=RecoveryStrategy.ACTION_BOUNDARY))
class Gated:
    """Look things up when a person allows it, then answer."""

    @agent_tool(effects=ToolEffects.write_state(), approval=ToolApprovalRequirement.REQUIRED)
    async def look_up(self, page: int) -> str:
        """Look a page up."""
        return PAGE


@Agent
class Speaker:
    """Talk."""


@Agent(spec=AgentExecutionSpec(redaction=_POLICY))
class GuardedSpeaker:
    """Talk."""


@Agent(spec=AgentExecutionSpec(recovery=RecoveryStrategy.ACTION_BOUNDARY))
class KeptSpeaker:
    """Talk."""


@Agent(scope=Scope.PROTOTYPE)
class Builder:
    """Has three tools."""

    @agent_tool(effects=ToolEffects.read_only())
    async def find(self, name: str) -> str:
        """Find something."""
        return name

    @agent_tool(effects=ToolEffects.read_only())
    async def count(self, name: str, most: int = 10) -> int:
        """Count something."""
        return most

    @agent_tool(effects=ToolEffects.read_only())
    async def compare(self, one: str, other: str) -> bool:
        """Compare two things."""
        return one == other

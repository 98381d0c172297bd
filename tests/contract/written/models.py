"""Models with the methods of section 15: their streams end with a bare DONE."""

from __future__ import annotations

from collections.abc import AsyncIterator
from dataclasses import replace

from pilotage.agent import (
    IAgentModel,
    ModelError,
    ModelMessageRole,
    ModelRequest,
    ModelResponse,
    ModelStreamEvent,
    ModelStreamEventKind,
    ModelToolCall,
    ModelUsage,
)
from tests.contract.written.tools import Ledger

Kind = ModelStreamEventKind


class PhraseModel(IAgentModel):
    """Books the city that the user's last word names if it may, and then says what came of it."""

    async def complete(self, request: ModelRequest) -> ModelResponse:
        return self.reply_to(request)

    async def stream(self, request: ModelRequest) -> AsyncIterator[ModelStreamEvent]:
        reply = self.reply_to(request)
        for word in reply.content.split():
            yield ModelStreamEvent(Kind.TOKEN_DELTA, token_delta=f"{word} ")
        for call in reply.tool_calls:
            yield ModelStreamEvent(Kind.TOOL_CALL_CANDIDATE, tool_call=call)
        if reply.structured_output is not None:
            yield ModelStreamEvent(Kind.STRUCTURED_OUTPUT, structured_output=reply.structured_output)
        yield ModelStreamEvent(Kind.DONE, usage=reply.usage)

    def reply_to(self, request: ModelRequest) -> ModelResponse:
        """The reply that the transcript asks for."""
        usage = ModelUsage(10, 5, 15)
        results = [each for each in request.messages if each.role is ModelMessageRole.TOOL]
        asked = [each.text for each in request.messages if each.role is ModelMessageRole.USER]
        city = asked[-1].split()[-1]
        if request.structured_output is not None:
            return ModelResponse("", {"city": city, "days": 3}, usage=usage)
        if results:
            return ModelResponse(f"Done: {results[-1].text}", usage=usage)
        offered = [tool.name for tool in request.tool_calling.tools] if request.tool_calling else []
        if "book" in offered:
            return ModelResponse(
                "", tool_calls=(ModelToolCall("book", {"city": city}, "call-1"),), usage=usage
            )
        return ModelResponse(f"I would go to {city}.", usage=usage)


class LedgerModel(PhraseModel):
    """Looks at the ledger and not at the transcript: books Oslo until that is done."""

    def __init__(self, ledger: Ledger) -> None:
        self.ledger = ledger

    def reply_to(self, request: ModelRequest) -> ModelResponse:
        if not self.ledger.booked:
            return ModelResponse("", tool_calls=(ModelToolCall("book", {"city": "Oslo"}, "call-1"),))
        return ModelResponse(f"Booked: {', '.join(self.ledger.booked)}.")


class NamelessCalls(PhraseModel):
    """Gives its calls no ids, which are optional, and says something behind its end."""

    def reply_to(self, request: ModelRequest) -> ModelResponse:
        reply = super().reply_to(request)
        return replace(reply, tool_calls=tuple(replace(call, call_id=None) for call in reply.tool_calls))

    async def stream(self, request: ModelRequest) -> AsyncIterator[ModelStreamEvent]:
        async for event in super().stream(request):
            yield event
        yield ModelStreamEvent(Kind.TOKEN_DELTA, token_delta="too late")
        yield ModelStreamEvent(Kind.DONE)


class BrokenModel(PhraseModel):
    """Reports an error in the middle of its stream."""

    async def stream(self, request: ModelRequest) -> AsyncIterator[ModelStreamEvent]:
        yield ModelStreamEvent(Kind.TOKEN_DELTA, token_delta="I would ")
        yield ModelStreamEvent(Kind.ERROR, error=ModelError("quota", "the quota is used up"))
        yield ModelStreamEvent(Kind.DONE)


class ClosedModel(PhraseModel):
    """Reports an error before it says anything."""

    async def stream(self, request: ModelRequest) -> AsyncIterator[ModelStreamEvent]:
        yield ModelStreamEvent(Kind.ERROR, error=ModelError("closed", "closed on Sundays"))

"""A use case that happens to use a model, word for word as users write it."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import AsyncGenerator
from dataclasses import dataclass

from pilotage import (
    Agent,
    AgentYield,
    Evidence,
    Final,
    IAgentModel,
    ModelMessage,
    ModelRequest,
    Pod,
    Progress,
    StructuredOutputSpec,
    Token,
    ToolEffects,
    agent_tool,
)


@dataclass(frozen=True)
class ResolveTicket:
    ticket_id: str
    question: str


@dataclass(frozen=True)
class SupportAnswer:
    text: str
    sources: list[str]


class TicketPort(ABC):
    @abstractmethod
    async def answer(self, ticket_id: str, answer: SupportAnswer) -> None: ...


@Pod
class DocsTools:
    @agent_tool(effects=ToolEffects.read_only())
    async def search(self, question: str, limit: int = 5) -> list[str]:
        """Search the knowledge base."""
        return [f"about: {question}"][:limit]


@Agent
class ResolveSupportTicket:
    def __init__(self, model: IAgentModel, docs: DocsTools, tickets: TicketPort) -> None:
        self.model, self.docs, self.tickets = model, docs, tickets

    async def execute(self, command: ResolveTicket) -> AsyncGenerator[AgentYield[SupportAnswer], None]:
        yield Progress("Searching the knowledge base")
        found = await self.docs.search(command.question, limit=5)        # a tool call: inside a run it is an action
        yield Evidence(found)
        request = ModelRequest(
            messages=[ModelMessage.user(command.question), ModelMessage.evidence(found)],
            output=StructuredOutputSpec.from_type(SupportAnswer),
        )
        async for event in self.model.stream(request):
            if event.is_text_delta:
                yield Token(event.text)
            if event.is_final:
                await self.tickets.answer(command.ticket_id, event.output)    # a plain port: wrap in step() to make it an action
                yield Final(event.output)

"""Constructed by hand the use case is plain business logic; an application injects it."""

from __future__ import annotations

from collections.abc import AsyncIterator

from pilotage import (
    AgentYield,
    Application,
    Evidence,
    Final,
    IAgentModel,
    ModelRequest,
    ModelResponse,
    ModelStreamEvent,
    ModelStreamEventKind,
    Progress,
    Token,
)
from tests.programs.program_02_use_case import (
    DocsTools,
    ResolveSupportTicket,
    ResolveTicket,
    SupportAnswer,
    TicketPort,
)

COMMAND = ResolveTicket("T-1", "How?")
STREAM: list[AgentYield[SupportAnswer]] = [
    Progress("Searching the knowledge base"),
    Evidence(["about: How?"]),
    Token("Like "),
    Token("this."),
    Final(SupportAnswer("Like this.", ["docs"])),
]


class OneAnswer(IAgentModel):
    """Knows one answer, and gives it in the shape that is asked for."""

    async def complete(self, request: ModelRequest) -> ModelResponse:
        assert request.structured_output is not None
        answer = {"text": "Like this.", "sources": ["docs"]}
        return ModelResponse("Like this.", answer, output=request.structured_output.decode(answer))

    async def stream(self, request: ModelRequest) -> AsyncIterator[ModelStreamEvent]:
        for text in ("Like ", "this."):
            yield ModelStreamEvent(ModelStreamEventKind.TOKEN_DELTA, text)
        yield ModelStreamEvent(ModelStreamEventKind.DONE, response=await self.complete(request))


class Desk(TicketPort):
    """Keeps the answers it is given."""

    def __init__(self) -> None:
        self.answers: dict[str, SupportAnswer] = {}

    async def answer(self, ticket_id: str, answer: SupportAnswer) -> None:
        self.answers[ticket_id] = answer


async def test_called_directly_it_is_plain_business_logic() -> None:
    desk = Desk()
    agent = ResolveSupportTicket(OneAnswer(), DocsTools(), desk)
    assert [item async for item in agent.execute(COMMAND)] == STREAM
    assert desk.answers == {"T-1": SupportAnswer("Like this.", ["docs"])}


async def test_an_application_injects_it() -> None:
    app = Application("support").add(ResolveSupportTicket, DocsTools, OneAnswer, Desk)
    async with app:
        assert [item async for item in app.get(ResolveSupportTicket).execute(COMMAND)] == STREAM
        assert app.get(Desk).answers["T-1"].sources == ["docs"]

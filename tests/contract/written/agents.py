"""Agents of an application, written with the names of sections 6, 7, 15 and 21."""

from __future__ import annotations

from collections.abc import AsyncGenerator

from pilotage.agent import (
    Agent,
    AgentDelegateTarget,
    AgentExecutionSpec,
    AgentSignalKind,
    AgentYield,
    DelegationPacket,
    DelegationReturnPolicy,
    Final,
    IAgentDelegate,
    IAgentModel,
    ModelMessage,
    ModelRequest,
    RecoveryStrategy,
    Token,
    ToolCallingSpec,
    get_run_context,
)
from tests.contract.written.architecture import DraftAndRevise
from tests.contract.written.tools import Bookings

DURABLE = RecoveryStrategy.ACTION_BOUNDARY


@Agent(spec=AgentExecutionSpec(recovery=DURABLE, accepted_signals=(AgentSignalKind.CANCEL,)))
class TravelDesk:
    """Book journeys."""

    def __init__(self, bookings: Bookings) -> None:
        self.bookings = bookings


@Agent(spec=AgentExecutionSpec(recovery=DURABLE))
class BookingLoop:
    """The loop that everybody writes: until the model has an answer."""

    def __init__(self, model: IAgentModel, bookings: Bookings) -> None:
        self.model, self.bookings = model, bookings

    async def execute(self, wish: str) -> AsyncGenerator[AgentYield[str], None]:
        model = self.model
        request = ModelRequest(
            messages=[ModelMessage.user(wish)], tools=ToolCallingSpec.from_tools([self.bookings.book])
        )
        while True:
            async for event in model.stream(request):
                if event.is_text_delta:
                    yield Token(event.text)
                if event.is_tool_call:
                    await event.invoke_tool()
                if event.is_final:
                    yield Final(event.output)
                    return


@Agent(spec=AgentExecutionSpec(recovery=DURABLE, architecture=DraftAndRevise()))
class Adviser:
    """Recommend a city."""


@Agent(spec=AgentExecutionSpec(recovery=DURABLE, delegation_allowed=True))
class HotelDesk:
    """Find a hotel by asking a colleague."""

    def __init__(self, delegate: IAgentDelegate) -> None:
        self.delegate = delegate

    async def execute(self, city: str) -> str:
        packet = DelegationPacket(
            id="hotel",
            parent_agent_state_id=get_run_context().run_id or "",
            target=AgentDelegateTarget("colleague"),
            task={"city": city},
            return_policy=DelegationReturnPolicy.FINAL_OUTPUT,
        )
        result = await self.delegate.delegate_tool_result(packet)
        return f"{result.summary}: {result.output}"

"""Tools of an application, and the outside world that they change."""

from __future__ import annotations

from pilotage.agent import (
    AgentToolCatalog,
    IAgentToolProvider,
    Idempotency,
    ToolEffects,
    agent_tool,
    discover_agent_tools,
)


class Ledger:
    """What was booked, for good."""

    def __init__(self) -> None:
        self.booked: list[str] = []


class Bookings(IAgentToolProvider):
    """Books journeys; a person has to allow it."""

    def __init__(self, ledger: Ledger) -> None:
        self.ledger = ledger

    @property
    def tool_catalog(self) -> AgentToolCatalog:
        return discover_agent_tools(type(self))

    @agent_tool(effects=ToolEffects.external_side_effect(), idempotency=Idempotency.NON_IDEMPOTENT)
    async def book(self, city: str) -> str:
        """Book a journey to a city."""
        self.ledger.booked.append(city)
        return f"{city} is booked"

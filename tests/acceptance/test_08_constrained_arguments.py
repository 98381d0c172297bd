"""Use case 8: what a model sends is checked, becomes what the signature says, and only then the tool is called."""

from __future__ import annotations

from datetime import date
from decimal import Decimal
from typing import Annotated

import pytest
from pydantic import Field

from pilotage import Agent, Application, Pod, RunAgentInput, Tool, ToolCallingSpec, ToolEffects, agent_tool
from pilotage.agent import ModelToolCall
from pilotage.errors import AgentToolBindingError
from pilotage.models import OfflineModel
from pilotage.runtime import AgentRunner

Seats = Annotated[int, Field(ge=1, le=9)]


@Pod
class Bookings:
    def __init__(self) -> None:
        self.made: list[tuple[object, ...]] = []

    @agent_tool(effects=ToolEffects.read_only())
    async def price(self, day: date, most: Decimal, seats: Seats = 1) -> str:
        """Find a price."""
        self.made.append((day, most, seats))
        return "found"


@Agent
class Clerk:
    """Find prices."""

    def __init__(self, bookings: Bookings) -> None:
        self.bookings = bookings


async def test_a_tool_gets_the_types_that_it_asks_for() -> None:
    async with Application("travel").add(Clerk, Bookings, OfflineModel).load_plugins() as app:
        runner = AgentRunner.for_agent_instance(app.get(Clerk))
        asked = RunAgentInput("r-1", "price day=2026-11-15 most=12.50 seats=3")
        called = [item.payload async for item in runner.run(asked) if isinstance(item.payload, Tool)]
        assert [tool.result for tool in called if tool.result] == ["found"]
        assert app.get(Bookings).made == [(date(2026, 11, 15), Decimal("12.50"), 3)]


async def test_what_does_not_fit_is_named_and_calls_nothing() -> None:
    bookings = Bookings()
    tools = ToolCallingSpec.from_tools([bookings.price])
    with pytest.raises(AgentToolBindingError) as caught:
        await tools.invoke(ModelToolCall("price", {"day": "soon", "seats": 10, "to": "Oslo"}))
    assert caught.value.problems == (
        "'day' should be a valid date or datetime, input is too short.",
        "'most' is missing.",
        "'seats' should be less than or equal to 9.",
        "'to' is not a parameter. It takes 'day', 'most', 'seats'.",
    )
    assert bookings.made == []

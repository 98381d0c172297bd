"""Use case 7: the signature of a tool is the schema that the model is shown."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import date
from decimal import Decimal
from typing import Annotated, Literal

from pydantic import Field

from pilotage import Agent, AgentToolRuntimeContext, SecretField, ToolEffects, agent_tool
from pilotage.agent import discover_agent_tools


@dataclass(frozen=True)
class Flight:
    number: str
    price: Decimal


@Agent
class Travel:
    """Plan journeys."""

    @agent_tool(effects=ToolEffects.read_only())
    async def flights(
        self,
        to: str,
        day: date,
        key: Annotated[str, SecretField()],
        runtime_context: AgentToolRuntimeContext,
        seats: Annotated[int, Field(ge=1, le=9)] = 1,
        cabin: Literal["economy", "first"] = "economy",
    ) -> list[Flight]:
        """Find flights.

        Args:
            to: the city, in English.
        """
        return []


def test_types_bounds_defaults_and_words_are_in_the_schema_and_what_is_not_the_models_is_not() -> None:
    tool = discover_agent_tools(Travel).by_schema_name("flights")
    assert tool.description == "Find flights."
    assert tool.schema.input_schema == {
        "title": "flights.input",
        "type": "object",
        "properties": {
            "to": {"type": "string", "description": "the city, in English."},
            "day": {"type": "string", "format": "date"},
            "seats": {"type": "integer", "minimum": 1, "maximum": 9, "default": 1},
            "cabin": {"type": "string", "enum": ["economy", "first"], "default": "economy"},
        },
        "required": ["to", "day"],
        "additionalProperties": False,
    }
    flight = tool.schema.output_schema["items"]
    assert isinstance(flight, dict)
    assert set(flight["properties"]) == {"number", "price"}

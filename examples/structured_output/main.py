"""An answer with a type: the agent says which, the model fills it in, and a program can use it.

Run it: python examples/structured_output/main.py
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import date
from typing import Literal

from pilotage import Agent, ToolEffects, agent_tool, run_sync


@dataclass(frozen=True)
class Journey:
    """What a journey needs to be booked."""

    city: str
    days: int
    day: date
    cabin: Literal["economy", "first"] = "economy"


@Agent(output=Journey)
class Planner:
    """Plan journeys."""

    @agent_tool(effects=ToolEffects.read_only())
    def holidays(self) -> dict[str, str]:
        """Find out when the holidays begin."""
        return {"day": "2026-12-24"}


if __name__ == "__main__":
    journey = run_sync(Planner, "holidays then plan a journey to Oslo for 3 days").output
    print(journey)
    assert journey == Journey("Oslo", 3, date(2026, 12, 24))
    print("demo: ok")

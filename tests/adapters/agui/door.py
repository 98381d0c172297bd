"""A door that somebody has to be let in by, and agents that hold it until they are stopped."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping

from pilotage import Agent, AgentExecutionSpec, Pod, Principal, RecoveryStrategy, ToolEffects, agent_tool
from pilotage.agent import IPrincipalResolver
from pilotage.errors import NotAuthenticatedError


class Badges(IPrincipalResolver):
    """Knows people by a badge."""

    async def resolve(self, headers: Mapping[str, str]) -> Principal:
        badge = headers.get("x-badge", "")
        if badge == "broken":
            raise ZeroDivisionError("password=hunter2")
        if not badge:
            raise NotAuthenticatedError("show a badge.")
        return Principal(badge, tenant=f"tenant of {badge}")


@Pod
class Gate:
    """A tool that waits until it is stopped, or the gate is open."""

    def __init__(self) -> None:
        self.reached = asyncio.Queue[int]()
        self.left = asyncio.Queue[int]()
        self.open = asyncio.Event()
        self.count = 0

    @agent_tool(effects=ToolEffects.external_side_effect())
    async def ask_first(self) -> str:
        """Do something that a person has to allow."""
        return "done"

    @agent_tool(effects=ToolEffects.read_only())
    async def hold(self) -> str:
        """Wait."""
        self.count += 1
        number = self.count
        self.reached.put_nowait(number)
        try:
            await self.open.wait()
        finally:
            self.left.put_nowait(number)
        return "held"


@Agent
class Doorman:
    """Holds the door; its runs are not kept."""

    def __init__(self, gate: Gate) -> None:
        self.gate = gate


@Agent(spec=AgentExecutionSpec(name="doorman", recovery=RecoveryStrategy.ACTION_BOUNDARY))
class KeptDoorman:
    """Holds the door, until somebody stops it."""

    def __init__(self, gate: Gate) -> None:
        self.gate = gate

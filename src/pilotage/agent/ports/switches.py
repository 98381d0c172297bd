"""The switch port: agents, tools and tenants that are switched off, for all runs of all processes.

A switch is looked at before every action of a run. What is off is not done: the run pauses where it stands, and goes on
from there when it is resumed after it was switched on again.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from datetime import datetime
from enum import StrEnum
from typing import Self

from pilotage.agent.ports.providers import persistence_port
from pilotage.checks import reject_blank, reject_naive
from pilotage.jsonvalue import JsonObject
from pilotage.values import value


class SwitchKind(StrEnum):
    """What can be switched off."""

    AGENT = "agent"
    TOOL = "tool"
    TENANT = "tenant"


@value
class Switch:
    """One thing that can be switched off: an agent by its id, a tool by the name models call it by, a tenant."""

    kind: SwitchKind
    name: str

    def __post_init__(self) -> None:
        reject_blank(self, name=self.name)

    @classmethod
    def agent(cls, agent_id: str) -> Self:
        """All runs of an agent, in all tenants."""
        return cls(SwitchKind.AGENT, agent_id)

    @classmethod
    def tool(cls, name: str) -> Self:
        """All calls of a tool, by all agents."""
        return cls(SwitchKind.TOOL, name)

    @classmethod
    def tenant(cls, tenant_id: str) -> Self:
        """All runs of a tenant."""
        return cls(SwitchKind.TENANT, tenant_id)

    def __str__(self) -> str:
        return f"{self.kind.value} {self.name!r}"


@value
class SwitchedOff:
    """A switch that is off: why, since when, and by whom."""

    switch: Switch
    reason: str
    by: str | None = None
    since: datetime | None = None

    def __post_init__(self) -> None:
        reject_blank(self, reason=self.reason, by=self.by)
        reject_naive(self, since=self.since)

    def to_payload(self) -> JsonObject:
        """The fact as JSON."""
        return {
            "kind": self.switch.kind.value,
            "name": self.switch.name,
            "reason": self.reason,
            "by": self.by,
            "since": self.since.isoformat() if self.since else None,
        }

    def __str__(self) -> str:
        return f"{self.switch} is switched off: {self.reason}"


@persistence_port
class IAgentSwitches(ABC):
    """Keeps what is switched off.

    Every adapter guarantees: what it has switched is durable when the call returns, and every process that asks from
    then on sees it. What was never switched off is on. An agent, a tool and a tenant of one name are three switches.
    """

    @abstractmethod
    async def turn_off(self, switch: Switch, *, reason: str, by: str | None = None) -> SwitchedOff:
        """Switch something off, and give back what is stored, with the store's time.

        What is off already stays as it is: the first reason is the one that is kept and given back.

        Raises:
            AgentDefinitionError: the reason is blank.
        """

    @abstractmethod
    async def turn_on(self, switch: Switch) -> bool:
        """Switch something on again; False where it was on."""

    @abstractmethod
    async def first_off(self, switches: Sequence[Switch]) -> SwitchedOff | None:
        """The first of these that is off; None where all of them are on."""

    @abstractmethod
    async def list_off(self) -> Sequence[SwitchedOff]:
        """Everything that is off, in the order it was switched off."""

"""Delegates with the one method of section 21: one asks a colleague outside the application, one passes packets on."""

from __future__ import annotations

from collections.abc import AsyncGenerator

from pilotage.agent import (
    AgentYield,
    AgentYieldKind,
    DelegationPacket,
    DelegationResult,
    IAgentDelegate,
    Progress,
)


class Colleague(IAgentDelegate):
    """Finds a hotel for the city in a packet's task."""

    def __init__(self) -> None:
        self.packets: list[DelegationPacket] = []

    async def delegate(self, packet: DelegationPacket) -> AsyncGenerator[AgentYield[DelegationResult], None]:
        self.packets.append(packet)
        yield AgentYield(AgentYieldKind.PROGRESS, Progress("asking around"))
        hotel = f"Grand Hotel {packet.task['city']}"
        result = DelegationResult(
            f"result-{packet.id}",
            packet.id,
            packet.target,
            f"found {hotel}",
            {"hotel": hotel},
            ("evidence-1",),
        )
        yield AgentYield(AgentYieldKind.FINAL, result)


class Passing(IAgentDelegate):
    """Passes packets on to another delegate."""

    def __init__(self, inner: IAgentDelegate) -> None:
        self.inner = inner

    async def delegate(self, packet: DelegationPacket) -> AsyncGenerator[AgentYield[DelegationResult], None]:
        async for item in self.inner.delegate(packet):
            yield item

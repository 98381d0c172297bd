"""The port through which one agent hands a bounded task to another."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import AsyncGenerator

from pilotage.agent.delegation import DelegationPacket, DelegationResult, DelegationToolResult
from pilotage.agent.yields import AgentYield


class IAgentDelegate(ABC):
    """Runs another agent on a packet.

    Every implementation keeps to the packet: the child gets no more budget, time, capabilities or context
    than it says, and the same packet id re-attaches to the child it started instead of starting another. A
    child that fails makes the delegation fail; a child that pauses pauses its parent.
    """

    @abstractmethod
    def delegate(self, packet: DelegationPacket) -> AsyncGenerator[AgentYield[DelegationResult], None]:
        """The child's stream, live; the last item is a `Final` with the result.

        Raises:
            RunError: the child failed; nothing follows.
        """

    @abstractmethod
    async def delegate_tool_result(self, packet: DelegationPacket) -> DelegationToolResult:
        """Run the child to its end and give back what the packet's return policy allows.

        Raises:
            RunError: the child failed.
        """

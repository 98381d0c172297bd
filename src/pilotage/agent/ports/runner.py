"""The ports that run agents: the runner of an agent in the container, and the delegate of another agent."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import AsyncGenerator, AsyncIterator
from contextlib import AbstractAsyncContextManager, aclosing

from pilotage.agent.delegation import DelegationPacket, DelegationResult, DelegationToolResult
from pilotage.agent.events import AgentEvent
from pilotage.agent.run_values import RunAgentInput
from pilotage.agent.yields import AgentYield, Final
from pilotage.errors import RunError


class IAgentRunner(ABC):
    """Runs one agent."""

    @abstractmethod
    def run(self, run_input: RunAgentInput) -> AsyncIterator[AgentYield[object]]:
        """Yield the run as the public stream."""

    @abstractmethod
    def run_events(self, run_input: RunAgentInput) -> AsyncIterator[AgentEvent]:
        """Yield the run as neutral events."""


class IAgentRunnerFactory(ABC):
    """Makes runners for agents."""

    @abstractmethod
    def open_runner(
        self, instance: object, run_input: RunAgentInput | None = None
    ) -> AbstractAsyncContextManager[IAgentRunner]:
        """Return a runner for the instance, for as long as the block lasts."""


class IAgentDelegate(ABC):
    """Runs another agent on a packet.

    Every implementation guarantees: the child gets no more budget, time, capabilities or context
    than the packet has, and the same packet id re-attaches to the child it started instead of starting another. A
    child that fails makes the delegation fail; a child that pauses pauses its parent.
    """

    @abstractmethod
    def delegate(self, packet: DelegationPacket) -> AsyncGenerator[AgentYield[DelegationResult], None]:
        """Yield the child's stream, live; the last item is a `Final` with the result.

        Raises:
            RunError: the child failed; nothing follows.
        """

    async def delegate_tool_result(self, packet: DelegationPacket) -> DelegationToolResult:
        """Run the child to its end and give back what the packet's return policy allows.

        Raises:
            RunError: the child failed, or its stream ended without a result.
        """
        async with aclosing(self.delegate(packet)) as stream:
            async for item in stream:
                if isinstance(item.payload, Final):
                    policy = packet.return_policy
                    result = item.payload.output.limited_to(policy)
                    return DelegationToolResult(
                        result.summary, result.output, metadata=result.returned_under(policy)
                    )
        raise RunError(
            f"the delegation of packet {packet.id!r} ended without a result. The last item of "
            f"{type(self).__name__}.delegate() must be a Final with a DelegationResult."
        )

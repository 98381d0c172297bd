"""The runner port: what drives the run of an agent that was made by the container."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import AsyncIterator
from contextlib import AbstractAsyncContextManager

from pilotage.agent.events import AgentEvent
from pilotage.agent.run_input import RunAgentInput
from pilotage.agent.yields import AgentYield


class IAgentRunner(ABC):
    """Runs one agent."""

    @abstractmethod
    def run(self, run_input: RunAgentInput) -> AsyncIterator[AgentYield[object]]:
        """The run as the public stream."""

    @abstractmethod
    def run_events(self, run_input: RunAgentInput) -> AsyncIterator[AgentEvent]:
        """The run as neutral events."""


class IAgentRunnerFactory(ABC):
    """Makes runners for agents."""

    @abstractmethod
    def open_runner(
        self, instance: object, run_input: RunAgentInput | None = None
    ) -> AbstractAsyncContextManager[IAgentRunner]:
        """A runner for the instance, for as long as the block lasts."""

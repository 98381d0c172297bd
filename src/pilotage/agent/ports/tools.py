"""The port through which a pod offers tools that no class declares, such as those of a remote server."""

from __future__ import annotations

from abc import ABC, abstractmethod

from pilotage.agent.tools.catalog import AgentToolCatalog


class IAgentToolProvider(ABC):
    """Offers tools to the agents it is injected into.

    Tools are made with `described_tool`. The catalog is read when the agent is made; it must not change while a
    run uses it: names and schemas are part of what a run records.
    """

    @property
    @abstractmethod
    def tool_catalog(self) -> AgentToolCatalog:
        """The tools on offer."""

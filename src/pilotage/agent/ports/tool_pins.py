"""The port of tool pins: which definitions of a server's tools were accepted, by whom and when.

A server may change its tools at any time, and what it says about them is read by models. A pin is the definition that
was accepted: `agent.tools.review` compares it with what the server lists now, and offers nothing that differs.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime

from pilotage.agent.ports.persistence import persistence_port
from pilotage.agent.tools.listed import ListedTool
from pilotage.checks import reject_blank, reject_naive
from pilotage.errors import AgentDefinitionError
from pilotage.values import value


@value
class ToolPin:
    """An accepted definition: the source that lists the tool, who accepted it, and when."""

    source: str
    definition: ListedTool
    by: str | None = None
    accepted_at: datetime | None = None

    def __post_init__(self) -> None:
        reject_blank(self, source=self.source, by=self.by)
        reject_naive(self, accepted_at=self.accepted_at)

    @property
    def tool(self) -> str:
        """The name under which the source lists the tool."""
        return self.definition.name

    @property
    def digest(self) -> str:
        """The digest of the accepted definition."""
        return self.definition.digest


@persistence_port
class IToolPins(ABC):
    """Stores the accepted definitions of tools, by source and tool. A source is the name of a server.

    Every adapter guarantees: what it has accepted is durable when the call returns, and every process that asks from
    then on sees it; a call is carried out as a whole or not at all; definitions come back as they were given. A tool
    has one pin in a source. Names are compared letter by letter. Pins belong to the application, not to a tenant.
    """

    @abstractmethod
    async def pins_of(self, source: str) -> Sequence[ToolPin]:
        """Return the pins of a source, in the order of the names of their tools."""

    @abstractmethod
    async def list_pins(self) -> Sequence[ToolPin]:
        """Return all pins, in the order of their sources and tools."""

    @abstractmethod
    async def accept(
        self, source: str, tools: Sequence[ListedTool], *, by: str | None = None
    ) -> Sequence[ToolPin]:
        """Pin definitions in place of those that their tools had, and give back the pins of the source.

        A tool whose pin has this very definition keeps that pin, with its person and its time.

        Raises:
            AgentDefinitionError: the name of the source or of the person is blank, or two tools have one name.
        """

    @abstractmethod
    async def accept_first(
        self, source: str, tools: Sequence[ListedTool], *, by: str | None = None
    ) -> Sequence[ToolPin]:
        """Pin definitions if the source has no pin, and give back the pins that it has then.

        Of several callers at once the first one's definitions are pinned, and all of them get these.

        Raises:
            AgentDefinitionError: the name of the source or of the person is blank, or two tools have one name.
        """

    @abstractmethod
    async def withdraw(self, source: str, tools: Sequence[str]) -> int:
        """Remove the pins of these tools, and return how many there were."""


def pins_to_add(
    source: str, known: Iterable[ToolPin], tools: Sequence[ListedTool], *, by: str | None
) -> Mapping[str, ToolPin]:
    """Return the pins that accepting these definitions adds or replaces, by the names of their tools. Pure.

    Raises:
        AgentDefinitionError: the name of the source or of the person is blank, or two tools have one name.
    """
    reject_blank("ToolPin", source=source, by=by)
    pinned = {pin.tool: pin.digest for pin in known}
    added: dict[str, ToolPin] = {}
    for tool in tools:
        if tool.name in added:
            raise AgentDefinitionError(
                f"two tools of {source!r} are named {tool.name!r}, and a name has one pin. Accept one of them."
            )
        added[tool.name] = ToolPin(source, tool, by)
    return {name: pin for name, pin in added.items() if pinned.get(name) != pin.digest}

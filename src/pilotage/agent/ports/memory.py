"""The memory port: what an agent keeps beyond one run, strictly apart per tenant and user."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import field
from datetime import datetime
from enum import StrEnum

from pilotage.checks import reject_blank, reject_naive
from pilotage.jsonvalue import JsonObject, empty_object
from pilotage.safety.trust import TrustLabel
from pilotage.values import value


class MemoryKind(StrEnum):
    """A fact holds until it is forgotten; an episode happened once."""

    FACT = "fact"
    EPISODE = "episode"


@value
class MemoryScope:
    """Whose memory it is. Nothing crosses a scope."""

    tenant_id: str
    user_id: str
    agent_type: str | None = None

    def __post_init__(self) -> None:
        reject_blank(self, tenant_id=self.tenant_id, user_id=self.user_id, agent_type=self.agent_type)


@value
class MemoryItem:
    """One thing remembered, with the trust label of what it was learned from."""

    id: str
    kind: MemoryKind
    text: str
    label: TrustLabel
    metadata: JsonObject = field(default_factory=empty_object)
    created_at: datetime | None = None

    def __post_init__(self) -> None:
        reject_blank(self, id=self.id, text=self.text)
        reject_naive(self, created_at=self.created_at)


class IAgentMemory(ABC):
    """Remembers and recalls. Every adapter guarantees that a scope sees only its own items."""

    @abstractmethod
    async def remember(self, scope: MemoryScope, item: MemoryItem) -> MemoryItem:
        """Keep an item; the same id again replaces it.

        Raises:
            AgentMemoryError: the item could not be kept.
        """

    @abstractmethod
    async def recall(self, scope: MemoryScope, query: str, *, limit: int = 10) -> Sequence[MemoryItem]:
        """The items that fit a query, best first.

        Raises:
            AgentMemoryError: the memory could not be searched.
        """

    @abstractmethod
    async def forget(self, scope: MemoryScope, item_id: str | None = None) -> int:
        """Delete one item, or everything of the scope; how many were deleted."""

    @abstractmethod
    async def export(self, scope: MemoryScope) -> Sequence[MemoryItem]:
        """Everything of the scope, oldest first."""

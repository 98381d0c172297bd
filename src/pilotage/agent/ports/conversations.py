"""The conversation port: turns of a conversation, appended when a run completes."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import Literal

from pilotage.checks import reject_blank
from pilotage.errors import AgentDefinitionError
from pilotage.values import value


@value
class ConversationTurn:
    """What one side said in one turn."""

    role: Literal["user", "assistant"]
    content: str

    def __post_init__(self) -> None:
        if self.role not in ("user", "assistant"):
            raise AgentDefinitionError(
                f"ConversationTurn.role is {self.role!r}. A turn belongs to 'user' or 'assistant'."
            )
        reject_blank(self, content=self.content)


class ITaskStore(ABC):
    """Keeps the turns of conversations in order."""

    @abstractmethod
    async def load_history(self, conversation_id: str) -> Sequence[ConversationTurn]:
        """All turns, oldest first; an unknown conversation has none."""

    @abstractmethod
    async def append_turns(self, conversation_id: str, turns: Sequence[ConversationTurn]) -> None:
        """Add turns at the end, all or none."""

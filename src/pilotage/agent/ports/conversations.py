"""The conversation port: turns of a conversation, appended when a run completes.

A run records the history it began with as a reference: the conversation, up to turn n. So turns are only ever
added at the end, and the first n are the same for ever. Within runs the journal appends, in the commit that
completes the run.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import field
from typing import Literal

from pilotage.agent.messages import ModelMessage
from pilotage.agent.ports.providers import persistence_port
from pilotage.checks import reject_blank, reject_empty
from pilotage.errors import AgentDefinitionError
from pilotage.safety.trust import TrustLabel
from pilotage.values import shared, value


@value
class ConversationTurn:
    """What one side said in one turn.

    `trust` is the label of what was known when it was said; the neutral one adds nothing to what a run starts with.
    """

    role: Literal["user", "assistant"]
    content: str
    trust: TrustLabel = field(default_factory=shared(TrustLabel))

    def __post_init__(self) -> None:
        if self.role not in ("user", "assistant"):
            raise AgentDefinitionError(
                f"ConversationTurn.role is {self.role!r}. A turn belongs to 'user' or 'assistant'."
            )
        reject_blank(self, content=self.content)

    @property
    def message(self) -> ModelMessage:
        """The turn as a model is shown it."""
        said = ModelMessage.user if self.role == "user" else ModelMessage.assistant
        return said(self.content)


@value
class ConversationTurns:
    """The turns that a run adds to the conversation it holds."""

    conversation_id: str
    turns: tuple[ConversationTurn, ...]

    def __post_init__(self) -> None:
        reject_blank(self, conversation_id=self.conversation_id)
        reject_empty(self, turns=self.turns)


@persistence_port
class ITaskStore(ABC):
    """Keeps the turns of conversations in order, those of each tenant apart.

    Every adapter guarantees: turns come back unchanged, their trust labels included, and in the order they were
    appended, by any writer; what `load_history` returned stays the beginning of the history.
    """

    @abstractmethod
    async def load_history(
        self, tenant_id: str, conversation_id: str, *, up_to: int | None = None
    ) -> Sequence[ConversationTurn]:
        """The turns, oldest first: all, or the first `up_to`. An unknown conversation has none.

        Raises:
            AgentDefinitionError: `up_to` is negative.
        """

    @abstractmethod
    async def append_turns(
        self, tenant_id: str, conversation_id: str, turns: Sequence[ConversationTurn]
    ) -> None:
        """Add turns at the end, all or none; for applications, outside runs.

        A run that is under way does not see them: it keeps to the history it began with.

        Raises:
            AgentDefinitionError: the tenant or the conversation is blank.
        """

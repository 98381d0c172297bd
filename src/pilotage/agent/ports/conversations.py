"""The conversation port: turns of a conversation, appended when a run completes.

A run records the history it began with as a reference: the conversation, up to turn n. So turns are only ever
added at the end, and the first n are the same for ever. Within runs the journal appends, in the commit that
completes the run.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import field
from typing import ClassVar, Literal
from urllib.parse import quote

from pilotage.agent.messages import MediaPart, ModelMessage, TextPart
from pilotage.agent.ports.persistence import persistence_port
from pilotage.agent.principal import DEFAULT_TENANT
from pilotage.checks import reject_blank, reject_empty, reject_negative
from pilotage.errors import AgentDefinitionError
from pilotage.safety.trust import TrustLabel
from pilotage.values import shared, value


@value
class ConversationTurn:
    """The text of one side in one turn, and the media that its user sent with it, by their digests.

    `trust` is the label of what was known when it was said; the neutral one adds nothing to what a run starts with.
    """

    role: Literal["user", "assistant"]
    content: str
    trust: TrustLabel = field(default_factory=shared(TrustLabel))
    media: tuple[MediaPart, ...] = ()

    def __post_init__(self) -> None:
        if self.role not in ("user", "assistant"):
            raise AgentDefinitionError(
                f"ConversationTurn.role is {self.role!r}. A turn belongs to 'user' or 'assistant'."
            )
        reject_blank(self, content=self.content)
        if self.media and (self.role != "user" or any(part.digest is None for part in self.media)):
            raise AgentDefinitionError(
                "ConversationTurn.media are those of a user, by their digests. A turn has no bytes."
            )

    @property
    def message(self) -> ModelMessage:
        """The turn as a model is shown it."""
        if self.role == "assistant":
            return ModelMessage.assistant(self.content)
        return ModelMessage.user((TextPart(self.content), *self.media) if self.media else self.content)


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
    """Stores the turns of conversations in order, those of each tenant apart.

    Every adapter guarantees: turns come back unchanged and in the order they were appended, by any writer; what
    `load_history` returned stays the beginning of the history. The two abstract methods are about the conversations of
    the default tenant. The methods with a tenant have defaults over them, which give the conversations of other tenants
    ids of their own: no two tenants share an id, whatever their conversations are called.
    """

    is_journaled: ClassVar[bool] = False
    """Whether the journal of the application appends the turns of durable runs, in the commit that completes them.

    The runtime appends them to any other store after that commit. What a crash prevents there is made up for when the
    next run of the conversation starts, if the state repository can list the runs of a conversation.
    """
    keeps_trust: ClassVar[bool] = False
    """Whether turns come back with their trust labels. All turns of any other store count as untrusted."""

    @abstractmethod
    async def load_history(self, conversation_id: str) -> Sequence[ConversationTurn]:
        """Return the turns of a conversation of the default tenant, oldest first. An unknown conversation has none."""

    @abstractmethod
    async def append_turns(self, conversation_id: str, turns: Sequence[ConversationTurn]) -> None:
        """Add turns at the end of a conversation of the default tenant, all or none; for applications, outside runs.

        A run that is under way does not see them: it uses the history it began with.

        Raises:
            AgentDefinitionError: the conversation is blank.
        """

    async def tenant_history(
        self, tenant_id: str, conversation_id: str, *, up_to: int | None = None
    ) -> Sequence[ConversationTurn]:
        """Return the turns of a conversation of a tenant, oldest first: all, or the first `up_to`.

        Raises:
            AgentDefinitionError: `up_to` is negative.
        """
        reject_negative(self, up_to=up_to)
        return (await self.load_history(conversation_in(tenant_id, conversation_id)))[:up_to]

    async def append_tenant_turns(
        self, tenant_id: str, conversation_id: str, turns: Sequence[ConversationTurn]
    ) -> None:
        """Add turns at the end of a conversation of a tenant, like `append_turns`.

        Raises:
            AgentDefinitionError: the tenant or the conversation is blank.
        """
        reject_blank(self, tenant_id=tenant_id, conversation_id=conversation_id)
        await self.append_turns(conversation_in(tenant_id, conversation_id), turns)


_OF_TENANT = "tenant:"


def conversation_in(tenant_id: str, conversation_id: str) -> str:
    """Return the id of a tenant's conversation in a store that knows no tenants: no two conversations share one.

    A conversation of the default tenant keeps its own id, unless that looks like one of another tenant.
    """
    if tenant_id == DEFAULT_TENANT and not conversation_id.startswith(_OF_TENANT):
        return conversation_id
    # The quoted tenant has no colon, so the end of it is known.
    return f"{_OF_TENANT}{quote(tenant_id, safe='', errors='surrogatepass')}:{conversation_id}"

"""Conversations in memory: their turns, and the run that holds each.

The journal of the same store writes here too, so turns and the end of their run are there together.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from pilotage.agent.ports.conversations import ConversationTurn, ITaskStore
from pilotage.agent.ports.journal import RunKey
from pilotage.checks import reject_blank, reject_negative
from pilotage.testing.tenant_table import TenantTable


@dataclass
class Conversation:
    """One conversation: what was said, by which runs, and the last run that took hold of it, ended or not."""

    turns: list[ConversationTurn] = field(default_factory=list[ConversationTurn])
    added_by: list[RunKey | None] = field(default_factory=list[RunKey | None])
    holder: RunKey | None = None


class ConversationTable:
    """The conversations of all tenants; one nobody has spoken in is empty."""

    def __init__(self) -> None:
        self._conversations = TenantTable[Conversation]()
        self._held: dict[RunKey, str] = {}

    def held_by(self, run: RunKey) -> str | None:
        """The conversation that a run holds, or held until it ended."""
        return self._held.get(run)

    def find(self, tenant_id: str, conversation_id: str) -> Conversation:
        """A conversation to read; an unknown one has no turns and no holder."""
        return self._conversations.find(tenant_id, conversation_id) or Conversation()

    def hold(self, run: RunKey, conversation_id: str) -> None:
        """Let a run hold a conversation."""
        self._kept(run.tenant_id, conversation_id).holder = run
        self._held[run] = conversation_id

    def append(
        self,
        tenant_id: str,
        conversation_id: str,
        turns: Sequence[ConversationTurn],
        by: RunKey | None = None,
    ) -> None:
        """Add turns at the end, those of a run or of the application."""
        conversation = self._kept(tenant_id, conversation_id)
        conversation.turns.extend(turns)
        conversation.added_by.extend([by] * len(turns))

    def let_go(self, run: RunKey) -> None:
        """A run that is gone holds nothing."""
        self._held.pop(run, None)
        for conversation in self._conversations.entries(run.tenant_id):
            if conversation.holder == run:
                conversation.holder = None

    def put_in_place(self, run: RunKey, instead: Callable[[ConversationTurn], ConversationTurn]) -> None:
        """Put others in the place of the turns that a run has added."""
        for conversation in self._conversations.entries(run.tenant_id):
            turns = zip(conversation.turns, conversation.added_by, strict=True)
            conversation.turns = [instead(turn) if by == run else turn for turn, by in turns]

    def _kept(self, tenant_id: str, conversation_id: str) -> Conversation:
        conversation = self.find(tenant_id, conversation_id)
        self._conversations.put(tenant_id, conversation_id, conversation)
        return conversation


class MemoryTaskStore(ITaskStore):
    """The turns of a store's conversations: `MemoryTaskStore(store.tables.conversations)`."""

    def __init__(self, conversations: ConversationTable) -> None:
        self._conversations = conversations

    async def load_history(
        self, tenant_id: str, conversation_id: str, *, up_to: int | None = None
    ) -> Sequence[ConversationTurn]:
        reject_negative("MemoryTaskStore.load_history", up_to=up_to)
        return self._conversations.find(tenant_id, conversation_id).turns[:up_to]

    async def append_turns(
        self, tenant_id: str, conversation_id: str, turns: Sequence[ConversationTurn]
    ) -> None:
        owner = "MemoryTaskStore.append_turns"
        reject_blank(owner, tenant_id=tenant_id, conversation_id=conversation_id)
        self._conversations.append(tenant_id, conversation_id, turns)

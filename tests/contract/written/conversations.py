"""A task store with the two methods of section 26: it keeps role and content, as a table of an application would."""

from __future__ import annotations

from collections.abc import Sequence

from pilotage.agent import ConversationTurn, ITaskStore


class Guestbook(ITaskStore):
    """The turns of conversations, by their id."""

    def __init__(self) -> None:
        self.lines: dict[str, list[tuple[str, str]]] = {}
        self.is_closed = False

    async def load_history(self, conversation_id: str) -> Sequence[ConversationTurn]:
        lines = self.lines.get(conversation_id, [])
        return [ConversationTurn("user" if role == "user" else "assistant", text) for role, text in lines]

    async def append_turns(self, conversation_id: str, turns: Sequence[ConversationTurn]) -> None:
        if self.is_closed:
            raise ConnectionError("the guestbook is closed")
        lines = self.lines.setdefault(conversation_id, [])
        lines.extend((turn.role, turn.content) for turn in turns)

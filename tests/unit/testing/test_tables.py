"""What is special to conversations in memory; their promises are in the conformance kits."""

from __future__ import annotations

import pytest

from pilotage.agent.ports.conversations import ConversationTurn
from pilotage.agent.ports.persistence import RunKey
from pilotage.errors import AgentDefinitionError
from pilotage.testing.memory import MemoryTaskStore
from pilotage.testing.tables import Conversation, ConversationTable

TURN = ConversationTurn("user", "Hello")


def test_looking_a_conversation_up_does_not_make_one() -> None:
    table = ConversationTable()
    table.find("acme", "chat").turns.append(TURN)
    assert table.find("acme", "chat") == Conversation()


def test_who_holds_a_conversation_and_what_is_said_in_it_are_kept_together() -> None:
    table, run = ConversationTable(), RunKey("acme", "run-1")
    table.append("acme", "chat", [TURN])
    table.hold(run, "chat")
    table.append("acme", "chat", [TURN])
    assert table.find("acme", "chat") == Conversation([TURN, TURN], [None, None], run)


async def test_a_history_that_cannot_be_is_an_error_in_words() -> None:
    store = MemoryTaskStore(ConversationTable())
    with pytest.raises(AgentDefinitionError) as caught:
        await store.tenant_history("acme", "chat", up_to=-1)
    assert str(caught.value) == "MemoryTaskStore.tenant_history.up_to is -1. Use zero or more."

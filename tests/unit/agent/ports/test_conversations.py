"""The values of the conversation port."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from pilotage.agent.ports.conversations import ConversationTurn, ConversationTurns
from pilotage.errors import AgentDefinitionError

TURN = ConversationTurn("user", "Hello")


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (
            lambda: ConversationTurn("user", " "),
            "ConversationTurn.content is blank. Give it at least one visible character.",
        ),
        (
            lambda: ConversationTurns(" ", (TURN,)),
            "ConversationTurns.conversation_id is blank. Give it at least one visible character.",
        ),
        (
            lambda: ConversationTurns("chat", ()),
            "ConversationTurns.turns is empty. Give it at least one member.",
        ),
    ],
)
def test_turns_say_something_in_some_conversation(make: Callable[[], object], message: str) -> None:
    with pytest.raises(AgentDefinitionError) as caught:
        make()
    assert str(caught.value) == message

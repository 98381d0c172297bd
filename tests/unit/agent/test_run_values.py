"""The input of a run."""

from __future__ import annotations

from pilotage.agent.messages import ModelMessage
from pilotage.agent.run_values import RunAgentInput


def test_a_run_without_a_conversation_is_its_own() -> None:
    assert RunAgentInput("r1", "go").effective_conversation_id == "r1"
    assert RunAgentInput("r1", "go", "c1").effective_conversation_id == "c1"


def test_histories_become_tuples() -> None:
    history = [ModelMessage.user("x")]
    assert RunAgentInput("r1", "go", message_history=history).message_history == (ModelMessage.user("x"),)

"""ReAct gives the same proofs as all others."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from pilotage.architectures import React
from pilotage.testing import calls, says, turn
from pilotage.testing.architecture_proofs import (
    ArchitectureProofs,
    ArchitectureStory,
    WrongOutput,
    proof_agent,
)
from pilotage.testing.script import ScriptedReply, ScriptEntry


class ReactStory(ArchitectureStory):
    expected = "Paid."
    partials = {1: "Let me look. ", 2: "Let me look. "}

    def agents(self, **spec: Any) -> Sequence[type[object]]:
        return (proof_agent("clerk", React(), **spec),)

    def script(self, *deeds: ScriptedReply) -> Sequence[ScriptEntry]:
        return [turn(says("Let me look. "), calls("look", what="order 7")), *deeds, says("Paid.")]

    def wrong(self) -> Mapping[str, WrongOutput]:
        return {
            "an unknown tool is told to the model": WrongOutput([calls("guess"), says("Sorry.")], "Sorry."),
            "silence is no answer": WrongOutput([says(""), says("")], reason="agent_empty_reply"),
        }


class TestReact(ArchitectureProofs):
    story = ReactStory()

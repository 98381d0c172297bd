"""The router: a typed route, a specialist, and what happens where the model is not certain."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from pilotage.architectures import Router
from pilotage.architectures.router import Route
from pilotage.testing import says
from pilotage.testing.architecture_proofs import (
    ArchitectureProofs,
    ArchitectureStory,
    WrongOutput,
    proof_agent,
    replies_of,
)
from pilotage.testing.script import ScriptedReply, ScriptEntry

SURE = says(output=Route("billing", 0.9, "it is about money"))


class RouterStory(ArchitectureStory):
    expected = "Paid back."
    steps = ("router.routed", "router.answered")

    def agents(self, **spec: Any) -> Sequence[type[object]]:
        billing, technical = proof_agent("billing"), proof_agent("technical")
        routes = {"billing": billing, "technical": technical}
        return proof_agent("desk", Router(routes=routes), **spec), billing, technical

    def script(self, *deeds: ScriptedReply) -> Sequence[ScriptEntry]:
        return [replies_of("billing", *deeds, says("Paid back.")), SURE]

    def wrong(self) -> Mapping[str, WrongOutput]:
        nowhere = says(output=Route("nowhere", 0.9))
        doubtful = says(output={"route": "billing", "confidence": 1.5})
        answer = replies_of("billing", says("Paid back."))
        return {
            "an unknown route is repaired": WrongOutput([answer, nowhere, SURE], "Paid back."),
            "an unknown route twice is an error": WrongOutput(
                [nowhere, nowhere], error="'nowhere' is none of"
            ),
            "a confidence out of range is repaired": WrongOutput([answer, doubtful, SURE], "Paid back."),
            "a confidence out of range twice is an error": WrongOutput(
                [doubtful, doubtful], error="confidence"
            ),
            "prose is repaired": WrongOutput([answer, says("billing, I guess"), SURE], "Paid back."),
            "prose twice is an error": WrongOutput([says("billing"), says("billing!")], error="asked twice"),
            "without a fallback an uncertain route is unresolved": WrongOutput(
                [says(output=Route("billing", 0.2, "no idea"))],
                "No route is certain enough. The nearest is 'billing': no idea",
                reason="agent_unresolved",
            ),
        }


class TestRouter(ArchitectureProofs):
    story = RouterStory()

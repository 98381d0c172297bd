"""The router: a typed route, a specialist, and what happens where the model is not certain."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from pilotage.architectures import Router
from pilotage.architectures.router import Route
from pilotage.testing import says
from pilotage.testing.script import ScriptedReply, ScriptEntry
from tests.architectures.kit import ArchitectureProofs, ArchitectureStory, Wrong
from tests.architectures.world import agent, said_by

SURE = says(output=Route("billing", 0.9, "it is about money"))


class RouterStory(ArchitectureStory):
    expected = "Paid back."
    steps = ("router.routed", "router.answered")

    def agents(self, **spec: Any) -> Sequence[type[object]]:
        billing, technical = agent("billing"), agent("technical")
        routes = {"billing": billing, "technical": technical}
        return agent("desk", Router(routes=routes), **spec), billing, technical

    def script(self, *deeds: ScriptedReply) -> Sequence[ScriptEntry]:
        return [said_by("billing", *deeds, says("Paid back.")), SURE]

    def wrong(self) -> Mapping[str, Wrong]:
        nowhere = says(output=Route("nowhere", 0.9))
        doubtful = says(output={"route": "billing", "confidence": 1.5})
        answer = said_by("billing", says("Paid back."))
        return {
            "an unknown route is repaired": Wrong([answer, nowhere, SURE], "Paid back."),
            "an unknown route twice is an error": Wrong([nowhere, nowhere], error="'nowhere' is none of"),
            "a confidence out of range is repaired": Wrong([answer, doubtful, SURE], "Paid back."),
            "a confidence out of range twice is an error": Wrong([doubtful, doubtful], error="confidence"),
            "prose is repaired": Wrong([answer, says("billing, I guess"), SURE], "Paid back."),
            "prose twice is an error": Wrong([says("billing"), says("billing!")], error="asked twice"),
            "without a fallback an uncertain route is unresolved": Wrong(
                [says(output=Route("billing", 0.2, "no idea"))],
                "No route is certain enough. The nearest is 'billing': no idea",
                reason="agent_unresolved",
            ),
        }


class TestRouter(ArchitectureProofs):
    story = RouterStory()

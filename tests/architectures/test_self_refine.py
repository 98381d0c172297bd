"""Self-refine: drafts, typed critiques, and the best draft as the answer."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from pilotage.architectures import SelfRefine
from pilotage.architectures.self_refine import Critique, Issue, Severity
from pilotage.testing import says
from pilotage.testing.architecture_proofs import (
    WRITE,
    ArchitectureProofs,
    ArchitectureStory,
    WrongOutput,
    played,
    proof_agent,
)
from pilotage.testing.script import ScriptedReply, ScriptEntry

POOR = says(output=Critique(0.4, False, [Issue("too short", Severity.CRITICAL)]))
GOOD = says(output=Critique(0.9, True))
WORSE = says(output=Critique(0.1, False))
DRAFT, BETTER = says("Draft."), says("Better.")


class RefineStory(ArchitectureStory):
    expected = "Better."
    steps = ("refine.criticised", "refine.refined", "refine.criticised")
    partials = {1: "", 2: "Draft.", 3: "Draft.", 4: "Draft."}

    def agents(self, **spec: Any) -> Sequence[type[object]]:
        return (proof_agent("writer", SelfRefine(max_rounds=2), **spec),)

    def script(self, *deeds: ScriptedReply) -> Sequence[ScriptEntry]:
        return [*deeds, DRAFT, POOR, BETTER, GOOD]

    def wrong(self) -> Mapping[str, WrongOutput]:
        high = says(output={"score": 11, "done": True})
        return {
            "a score out of range is repaired": WrongOutput([DRAFT, high, GOOD], "Draft."),
            "a score out of range twice is an error": WrongOutput(
                [DRAFT, high, high], "Draft.", error="score"
            ),
            "prose is repaired": WrongOutput([DRAFT, says("Nice!"), GOOD], "Draft."),
            "prose twice is an error": WrongOutput(
                [DRAFT, says("Nice!"), says("Fine!")], "Draft.", error="asked twice"
            ),
            "the best draft wins, not the last": WrongOutput([DRAFT, POOR, BETTER, GOOD], "Better."),
            "a later draft that is worse does not win": WrongOutput(
                [DRAFT, POOR, BETTER, WORSE, BETTER, WORSE], "Draft."
            ),
            "an empty draft ends it": WrongOutput([says(""), says("")], reason="agent_empty_reply"),
        }


class TestSelfRefine(ArchitectureProofs):
    story = RefineStory()

    async def test_all_drafts_are_kept_with_their_scores(self) -> None:
        result, _ = await played(self.story, self.story.script(WRITE))
        scores = [{"output": "Draft.", "score": 0.4}, {"output": "Better.", "score": 0.9}]
        assert result.artifacts["candidates"] == scores

"""Tree of thoughts: proposals, scores, a beam, and the answer from the best line."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import pytest

from pilotage.architectures import TreeOfThoughts
from pilotage.architectures.tree_of_thoughts import Line, Rating, Thoughts, ranked, thought_problems
from pilotage.testing import says, when
from pilotage.testing.architecture_proofs import (
    WRITE,
    ArchitectureProofs,
    ArchitectureStory,
    WrongOutput,
    played,
    proof_agent,
)
from pilotage.testing.script import ScriptedReply, ScriptEntry


def proposes(after: str, *replies: ScriptedReply) -> ScriptEntry:
    return when(f"{after}\nPropose the next thought", *replies)


def scores(line: str, *replies: ScriptedReply) -> ScriptEntry:
    return when(f"{line}\nHow promising", *replies)


def thoughts(*texts: str) -> ScriptedReply:
    return says(output=Thoughts(texts))


def score(number: float) -> ScriptedReply:
    return says(output={"score": number, "reason": ""})


FIRST = [
    proposes("no thought yet.", thoughts("walk", "ride")),
    scores("1. walk", score(0.2)),
    scores("1. ride", score(0.6)),
]
SECOND = [
    proposes("1. ride", thoughts("a bike", "a horse")),
    scores("2. a bike", score(0.95)),
    scores("2. a horse", score(0.3)),
]


class TreeStory(ArchitectureStory):
    expected = "Ride a bike."
    steps = ("tree.scored", "tree.scored")
    partials = {3: "1. ride", 6: "1. ride\n2. a bike"}

    def agents(self, **spec: Any) -> Sequence[type[object]]:
        tree = TreeOfThoughts(branch_factor=2, max_depth=3, beam_width=1, min_score=0.1)
        return (proof_agent("thinker", tree, **spec),)

    def script(self, *deeds: ScriptedReply) -> Sequence[ScriptEntry]:
        return [*FIRST, *SECOND, when("Your best line of thought", *deeds, says("Ride a bike."))]

    def wrong(self) -> Mapping[str, WrongOutput]:
        answer = when("Your best line of thought", says("Ride a bike."))
        start = proposes("no thought yet.", thoughts("ride", "ride"), thoughts("ride"))
        solved = scores("1. ride", score(0.9))
        none = proposes("no thought yet.", says("Hm."), says("Hm?"))
        return {
            "the same thought twice is repaired": WrongOutput([start, solved, answer], "Ride a bike."),
            "a score out of range is repaired": WrongOutput(
                [
                    proposes("no thought yet.", thoughts("ride")),
                    scores("1. ride", score(9), score(0.9)),
                    answer,
                ],
                "Ride a bike.",
            ),
            "a score out of range twice is an error": WrongOutput(
                [proposes("no thought yet.", thoughts("ride")), scores("1. ride", score(9), score(9))],
                error="score",
            ),
            "prose twice is an error": WrongOutput([none], error="no usable Thoughts"),
            "without a line that is good enough it ends short": WrongOutput(
                [proposes("no thought yet.", thoughts("ride")), scores("1. ride", score(0.05))],
                "1. ride",
                reason="agent_unresolved",
            ),
            "a line that grows worse is not the answer": WrongOutput(
                [
                    *FIRST,
                    proposes("1. ride", thoughts("a cow")),
                    scores("2. a cow", score(0.05)),
                    when("Your best line of thought:\n1. ride", says("Ride something.")),
                ],
                "Ride something.",
            ),
        }


class TestTreeOfThoughts(ArchitectureProofs):
    story = TreeStory()

    async def test_the_whole_tree_is_part_of_the_result(self) -> None:
        result, _ = await played(self.story, self.story.script(WRITE))
        tree = result.artifacts["tree"]
        assert isinstance(tree, list)
        assert len(tree) == 4


def test_lines_are_ranked_by_score_and_equals_stay_in_order() -> None:
    a, b, c = Line(("a",), 0.3), Line(("b",), 0.9), Line(("c",), 0.3)
    assert ranked([a, b, c]) == [b, a, c]


@pytest.mark.parametrize(
    ("given", "words"),
    [
        ((), "no thought"),
        (("a", "b", "c"), "2 are allowed"),
        (("a", " "), "blank"),
        (("a", "a"), "twice"),
        (("a", "b"), ""),
    ],
)
def test_proposals_that_cannot_be_used_are_said(given: tuple[str, ...], words: str) -> None:
    problems = thought_problems(given, 2)
    assert words in " ".join(problems) if words else not problems


def test_a_rating_has_a_reason() -> None:
    assert Rating(0.5, "half way").reason == "half way"

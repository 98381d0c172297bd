"""The blackboard: contributors picked by a typed decision, posts that all read, and somebody who closes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from pilotage.architectures import Blackboard, Coordination
from pilotage.architectures.blackboard import NextTurn
from pilotage.testing import ScriptedModel, says, when
from pilotage.testing.architecture_proofs import (
    ArchitectureProofs,
    ArchitectureStory,
    StoryProcesses,
    WrongOutput,
    played,
    proof_agent,
    replies_of,
)
from pilotage.testing.script import ScriptedReply, ScriptEntry
from tests.behaviour.family import start

BOTH = says(output=NextTurn(["radar", "sonar"], done=False))
ONE = says(output=NextTurn(["radar"], done=False))
DONE = says(output=NextTurn([], done=True))
SONAR = replies_of("sonar", says("a whale below"))
CLOSE = when("what stands on the board", says("A ship and a whale."))


def coordinates(*turns: ScriptedReply) -> ScriptEntry:
    return when("You coordinate work", *turns)


class BoardStory(ArchitectureStory):
    expected = "A ship and a whale."
    steps = ("board.round_started", "board.round_finished", "board.closed")
    partials = {1: ""}

    def agents(self, **spec: Any) -> Sequence[type[object]]:
        radar, sonar = proof_agent("radar"), proof_agent("sonar")
        board = Blackboard({"radar": radar, "sonar": sonar}, max_rounds=2)
        return proof_agent("bridge", board, **spec), radar, sonar

    def script(self, *deeds: ScriptedReply) -> Sequence[ScriptEntry]:
        return [replies_of("radar", *deeds, says("a ship ahead")), SONAR, coordinates(BOTH, DONE), CLOSE]

    def wrong(self) -> Mapping[str, WrongOutput]:
        radar = replies_of("radar", says("a ship ahead"), says("a light"))
        nobody = says(output=NextTurn(["nobody"], done=False))
        idle = says(output=NextTurn([], done=False))
        twice = says(output=NextTurn(["radar", "radar"], done=False))
        return {
            "an unknown contributor is repaired": WrongOutput(
                [radar, coordinates(nobody, ONE, DONE), CLOSE], self.expected
            ),
            "an unknown contributor twice is an error": WrongOutput(
                [coordinates(nobody, nobody)], error="'nobody' is none of"
            ),
            "nobody at work is repaired": WrongOutput(
                [radar, coordinates(idle, ONE, DONE), CLOSE], self.expected
            ),
            "one contributor twice is an error": WrongOutput(
                [coordinates(twice, twice)], error="named twice"
            ),
            "prose is repaired": WrongOutput(
                [radar, coordinates(says("radar!"), ONE, DONE), CLOSE], self.expected
            ),
            "the rounds come to an end": WrongOutput([radar, coordinates(ONE, ONE), CLOSE], self.expected),
        }


class TestBlackboard(ArchitectureProofs):
    story = BoardStory()

    async def test_a_contributor_that_fails_leaves_a_note_on_the_board(self) -> None:
        dead = replies_of("radar", says(""), says(""))
        result, _ = await played(self.story, [dead, SONAR, coordinates(BOTH, DONE), CLOSE])
        texts = str(result.artifacts["board"])
        assert "(failed: 'radar' did not finish" in texts
        assert "a whale below" in texts


class RoundRobinStory(BoardStory):
    """One after the other, closed by an agent of its own."""

    steps = (
        "board.round_started",
        "board.round_finished",
        "board.round_started",
        "board.round_finished",
        "board.closed",
    )

    def agents(self, **spec: Any) -> Sequence[type[object]]:
        radar, sonar, captain = proof_agent("radar"), proof_agent("sonar"), proof_agent("captain")
        contributors = {"radar": radar, "sonar": sonar}
        board = Blackboard(contributors, Coordination.ROUND_ROBIN, decider=captain, max_rounds=2)
        return proof_agent("bridge", board, **spec), radar, sonar, captain

    def script(self, *deeds: ScriptedReply) -> Sequence[ScriptEntry]:
        return [
            replies_of("radar", says("a ship ahead")),
            replies_of("sonar", *deeds, says("a whale below")),
            replies_of("captain", says(self.expected)),
        ]

    partials = {1: "[1] radar: a ship ahead"}

    def wrong(self) -> Mapping[str, WrongOutput]:
        return {}


class TestBlackboardInTurn(ArchitectureProofs):
    story = RoundRobinStory()

    async def test_everybody_reads_what_was_posted_before(self) -> None:
        stage, model = StoryProcesses(self.story), ScriptedModel(self.story.script())
        async with stage.play(model) as (runs, chosen):
            await start(runs, chosen, "what is there?")
        shown = ["a ship ahead" in request.messages[-1].text for request in model.requests]
        assert shown == [False, True, True]

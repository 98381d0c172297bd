"""Debate: answers side by side, agreement by equality, judges and votes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import pytest

from pilotage import AgentExecutionSpec
from pilotage.architectures import Debate, Position, Ruling
from pilotage.architectures.debate import leading, position_in
from pilotage.testing import ScriptedModel, says
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


def position(answer: str) -> ScriptedReply:
    return says(output=Position(answer, "because"))


PRO = replies_of("pro", position("7"), position("8"))


class DebateStory(ArchitectureStory):
    expected = "8"
    steps = ("debate.answered", "debate.judged")

    def agents(self, **spec: Any) -> Sequence[type[object]]:
        pro, con = proof_agent("pro", output_type=Position), proof_agent("con", output_type=Position)
        judge = proof_agent("judge", output_type=Ruling)
        return proof_agent("panel", Debate({"pro": pro, "con": con}, judge=judge), **spec), pro, con, judge

    def script(self, *deeds: ScriptedReply) -> Sequence[ScriptEntry]:
        con, ruling = replies_of("con", *deeds, position("9")), Ruling("pro", agreed=True)
        return [replies_of("pro", position("8")), con, replies_of("judge", says(output=ruling))]

    def wrong(self) -> Mapping[str, WrongOutput]:
        con, nobody = (
            replies_of("con", position("9"), position("9")),
            says(output=Ruling("nobody", agreed=True)),
        )
        won = says(output=Ruling("con", agreed=True))
        dead = replies_of("con", *[says("")] * 4)
        return {
            "an unknown winner is repaired": WrongOutput([PRO, con, replies_of("judge", nobody, won)], "9"),
            "an unknown winner twice is an error": WrongOutput(
                [PRO, con, replies_of("judge", nobody, nobody)], "7", error="'nobody' is none of"
            ),
            "prose of the judge is repaired": WrongOutput(
                [PRO, con, replies_of("judge", says("con!"), won)], "9"
            ),
            "one voice is no debate": WrongOutput([PRO, dead], "8", reason="agent_unresolved"),
            "when all fail there is nothing to judge": WrongOutput(
                [dead, replies_of("pro", *[says("")] * 4)], error="all debaters failed"
            ),
        }


class TestDebate(ArchitectureProofs):
    story = DebateStory()

    async def test_a_judge_that_sees_no_agreement_lets_them_read_each_other(self) -> None:
        rulings = [Ruling("con", agreed=False), Ruling("pro", agreed=True)]
        judge = replies_of("judge", *[says(output=ruling) for ruling in rulings])
        script = [PRO, replies_of("con", position("9"), position("9")), judge]
        stage, model = StoryProcesses(self.story), ScriptedModel(script)
        async with stage.play(model) as (runs, chosen):
            result = await start(runs, chosen)
        assert result.output == "8"
        again = [
            request.messages[-1].text
            for request in model.requests
            if "Others say" in request.messages[-1].text
        ]
        assert sorted("- con: 9" in text for text in again) == [False, True]


class VoteStory(DebateStory):
    """Specs that vote, without a judge."""

    steps = ("debate.answered", "debate.answered")
    expected = "9"

    def agents(self, **spec: Any) -> Sequence[type[object]]:
        names = ("pro", "con", "third")
        debaters = {name: AgentExecutionSpec(instructions=f"You are the {name}.") for name in names}
        return (proof_agent("panel", Debate(debaters), **spec),)

    def script(self, *deeds: ScriptedReply) -> Sequence[ScriptEntry]:
        con = replies_of("con", *deeds, position("9"), position("9 "))
        return [PRO, con, replies_of("third", position("9"), position("9"))]

    def wrong(self) -> Mapping[str, WrongOutput]:
        sure = {name: replies_of(name, position("Nine")) for name in ("pro", "con", "third")}
        prose = replies_of("pro", says("Nine, I think."), position("Nine"))
        return {
            "equal answers end it after one round": WrongOutput(list(sure.values()), "Nine"),
            "prose is repaired": WrongOutput([prose, sure["con"], sure["third"]], "Nine"),
        }


class TestDebateByVote(ArchitectureProofs):
    story = VoteStory()


@pytest.mark.parametrize(
    ("answers", "winner", "is_agreed"),
    [
        ({"a": "7", "b": "8"}, "a", False),
        ({"a": "7", "b": "8", "c": "8"}, "b", False),
        ({"a": "Yes", "b": " yes "}, "a", True),
        ({"a": "no yes", "b": "yes no"}, "a", False),
    ],
)
def test_most_votes_win_and_of_equals_the_first(
    answers: dict[str, str], winner: str, is_agreed: bool
) -> None:
    assert leading({name: Position(answer) for name, answer in answers.items()}) == (winner, is_agreed)


def test_an_output_that_is_no_position_is_the_answer() -> None:
    assert position_in("forty-two") == Position("forty-two")
    assert position_in({"answer": "42", "reasoning": "sum"}) == Position("42", "sum")
    assert position_in({"total": 42}) == Position('{"total":42}')


async def test_an_agent_with_an_output_type_gives_the_answer_in_it() -> None:
    class Typed(VoteStory):
        def agents(self, **spec: Any) -> Sequence[type[object]]:
            return super().agents(output_type=int, **spec)

    names = ("pro", "con", "third")
    script = [*[replies_of(name, position("9")) for name in names], replies_of("panel", says(output=9))]
    result, _ = await played(Typed(), script)
    assert result.output == 9

"""Actor and critic: verdicts of somebody else, and the best-scored answer."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from pilotage import AgentExecutionSpec
from pilotage.architectures import ActorCritic, Verdict
from pilotage.testing import says
from pilotage.testing.architecture_proofs import (
    WRITE,
    ArchitectureProofs,
    ArchitectureStory,
    WrongOutput,
    played,
    proof_agent,
    replies_of,
)
from pilotage.testing.script import ScriptedReply, ScriptEntry

POOR = says(output=Verdict(0.3, "too vague"))
GOOD = says(output=Verdict(0.9, "fine"))
WORSE = says(output=Verdict(0.1, "worse"))


def critic(*verdicts: ScriptedReply) -> ScriptEntry:
    return replies_of("critic", *verdicts)


class CriticStory(ArchitectureStory):
    expected = "Better."
    steps = ("critic.answered", "critic.judged", "critic.answered", "critic.judged")
    partials = {2: "Draft.", 3: "Draft.", 4: "Draft."}

    def agents(self, **spec: Any) -> Sequence[type[object]]:
        judge = proof_agent("critic", output_type=Verdict)
        return proof_agent("stage", ActorCritic(critic=judge, max_rounds=2), **spec), judge

    def script(self, *deeds: ScriptedReply) -> Sequence[ScriptEntry]:
        return [replies_of("stage", says("Draft."), *deeds, says("Better.")), critic(POOR, GOOD)]

    def wrong(self) -> Mapping[str, WrongOutput]:
        actor = replies_of("stage", says("Draft."), says("Better."), says("Last."))
        high = says(output={"score": 2, "feedback": "wow"})
        return {
            "a score out of range is repaired": WrongOutput([actor, critic(high, GOOD)], "Draft."),
            "prose is repaired": WrongOutput([actor, critic(says("Nice!"), GOOD)], "Draft."),
            "a critic that gives no verdict is an error": WrongOutput(
                [actor, critic(high, high)], error="did not finish"
            ),
            "the best answer wins, not the last": WrongOutput([actor, critic(POOR, WORSE, WORSE)], "Draft."),
        }


class TestActorCritic(ArchitectureProofs):
    story = CriticStory()

    async def test_another_agent_may_act_and_the_critic_be_a_spec(self) -> None:
        class Others(CriticStory):
            def agents(self, **spec: Any) -> Sequence[type[object]]:
                judge = AgentExecutionSpec(instructions="You are the critic.")
                actor = proof_agent("actor")
                return proof_agent("stage", ActorCritic(critic=judge, actor=actor), **spec), actor

        script = [replies_of("actor", WRITE, says("Draft."), says("Better.")), critic(POOR, GOOD)]
        result, stage = await played(Others(), script)
        assert (result.output, stage.world.done) == ("Better.", {"deed": 1})

    async def test_a_critic_without_the_type_is_told_once_and_then_named(self) -> None:
        class Prose(CriticStory):
            def agents(self, **spec: Any) -> Sequence[type[object]]:
                judge = proof_agent("critic")
                return proof_agent("stage", ActorCritic(critic=judge), **spec), judge

        script = [replies_of("stage", says("Draft.")), critic(says("Nice!"), says("Very nice!"))]
        result, _ = await played(Prose(), script)
        assert "'critic' gave no usable Verdict, asked twice" in str(result.error)
        assert result.output == "Draft."

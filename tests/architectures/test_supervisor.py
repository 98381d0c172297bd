"""The supervisor: delegations side by side, failures that it sees, words that it forwards."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from pilotage import AgentExecutionSpec
from pilotage.architectures import Supervisor
from pilotage.testing import calls, says, turn, when
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

BOTH = turn(
    says("Let me ask. "),
    calls("delegate", worker="research", instructions="find out"),
    calls("delegate", worker="write", instructions="write it up"),
)
RESEARCH = replies_of("research", says("It rains."))


class SupervisorStory(ArchitectureStory):
    expected = "Report: it rains, and is paid."
    steps = ("supervisor.delegated", "supervisor.delegated", "supervisor.answered", "supervisor.answered")
    partials = {1: "Let me ask. ", 4: "Let me ask. "}

    def agents(self, **spec: Any) -> Sequence[type[object]]:
        research, write = proof_agent("research"), proof_agent("write")
        workers = {"research": research, "write": write}
        return proof_agent("chief", Supervisor(workers=workers), **spec), research, write

    def script(self, *deeds: ScriptedReply) -> Sequence[ScriptEntry]:
        return [RESEARCH, replies_of("write", *deeds, says("Paid.")), BOTH, says(self.expected)]

    def wrong(self) -> Mapping[str, WrongOutput]:
        nobody = calls("delegate", worker="nobody", instructions="do it")
        silent = calls("forward", worker="write")
        vague = calls("delegate", worker="research", instructions=" ")
        unasked = calls("delegate", worker="research")
        return {
            "an unknown worker is told to the model": WrongOutput(
                [nobody, says("Alone then.")], "Alone then."
            ),
            "words that nobody said cannot be forwarded": WrongOutput([silent, says("Sorry.")], "Sorry."),
            "blank instructions are told to the model": WrongOutput(
                [vague, says("Alone then.")], "Alone then."
            ),
            "missing instructions are told to the model": WrongOutput([unasked, says("Alone.")], "Alone."),
            "wrong control calls are answered as often as they come": WrongOutput(
                [nobody, vague, silent, unasked, nobody, says("Alone.")], "Alone."
            ),
        }


class TestSupervisor(ArchitectureProofs):
    story = SupervisorStory()

    async def test_forwarded_words_are_the_answer_word_for_word(self) -> None:
        delegate = calls("delegate", worker="write", instructions="pay")
        both = turn(
            calls("delegate", worker="research", instructions="look"), calls("forward", worker="research")
        )
        writer = replies_of("write", WRITE, says("Paid, with thanks."))
        result, stage = await played(self.story, [writer, delegate, calls("forward", worker="write")])
        assert (result.output, stage.world.done) == ("Paid, with thanks.", {"deed": 1})
        at_once, _ = await played(self.story, [RESEARCH, both])
        assert at_once.output == "It rains."

    async def test_a_worker_that_fails_is_seen_by_the_supervisor(self) -> None:
        dead = replies_of("write", says(""), says(""))
        result, _ = await played(
            self.story, [RESEARCH, dead, BOTH, when("'write' failed", says("Only rain."))]
        )
        assert result.output == "Only rain."

    async def test_a_worker_may_be_a_spec_with_the_tools_of_the_agent(self) -> None:
        class WithSpecs(SupervisorStory):
            def agents(self, **spec: Any) -> Sequence[type[object]]:
                clerk = AgentExecutionSpec(instructions="You are the clerk.", objective="pays")
                return (proof_agent("chief", Supervisor(workers={"clerk": clerk}), **spec),)

        script = [
            replies_of("clerk", WRITE, says("Paid.")),
            calls("delegate", worker="clerk", instructions="pay Ada"),
            says("All paid."),
        ]
        result, stage = await played(WithSpecs(), script)
        assert (result.output, stage.world.done) == ("All paid.", {"deed": 1})
        assert len(await stage.states()) == 1

"""The swarm: typed handoffs, filters, circles, and the last peer that must answer."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import pytest

from pilotage import AgentDefinitionError, AgentExecutionSpec
from pilotage.architectures import HandedOver, Peer, Swarm
from pilotage.testing import ScriptedModel, calls, says, turn
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

TO_BILLING = calls("handoff_to_billing", reason="money", context="order 7")
TO_FRONT = calls("handoff_to_front", reason="not mine")


class SwarmStory(ArchitectureStory):
    expected = "Paid back."
    steps = ("swarm.handed_over", "swarm.answered")

    def agents(self, **spec: Any) -> Sequence[type[object]]:
        front, billing = proof_agent("front"), proof_agent("billing")
        peers = {"front": front, "billing": billing}
        return proof_agent("swarm", Swarm(peers, entry="front", max_handoffs=3), **spec), front, billing

    def script(self, *deeds: ScriptedReply) -> Sequence[ScriptEntry]:
        return [replies_of("front", TO_BILLING), replies_of("billing", *deeds, says("Paid back."))]

    def wrong(self) -> Mapping[str, WrongOutput]:
        billing = replies_of("billing", says("Paid back."))
        return {
            "a handoff to nobody is told to the model": WrongOutput(
                [replies_of("front", calls("handoff_to_nobody", reason="x"), TO_BILLING), billing],
                "Paid back.",
            ),
            "a payload that does not fit is told to the model": WrongOutput(
                [replies_of("front", calls("handoff_to_billing", context="x"), TO_BILLING), billing],
                "Paid back.",
            ),
            "of two handoffs in one reply the first counts": WrongOutput(
                [replies_of("front", turn(TO_BILLING, calls("handoff_to_billing", reason="again"))), billing],
                "Paid back.",
            ),
            "a circle ends with the peer that closes it": WrongOutput(
                [
                    replies_of("front", TO_BILLING, TO_BILLING, says("Nobody knows.")),
                    replies_of("billing", TO_FRONT),
                ],
                "Nobody knows.",
            ),
        }


class TestSwarm(ArchitectureProofs):
    story = SwarmStory()

    async def test_at_the_cap_the_last_peer_has_no_handoff_left(self) -> None:
        reasons = [calls("handoff_to_billing", reason=str(n)) for n in range(2)]
        script = [replies_of("front", *reasons), replies_of("billing", TO_FRONT, says("Then I answer."))]
        stage, model = StoryProcesses(self.story), ScriptedModel(script)
        async with stage.play(model) as (runs, chosen):
            result = await start(runs, chosen)
        offered = [
            [tool.name for tool in request.tool_calling.tools]
            for request in model.requests
            if request.tool_calling
        ]
        assert [any(name.startswith("handoff") for name in names) for names in offered] == [
            True,
            True,
            True,
            False,
        ]
        assert result.output == "Then I answer."
        assert [handoff["to"] for handoff in result.artifacts["handoffs"]] == ["billing", "front", "billing"]  # type: ignore[index,union-attr,call-overload]


@dataclass(frozen=True)
class Order:
    number: int


def only_the_number(handed: HandedOver) -> str:
    assert isinstance(handed.payload, Order)
    return f"Look after order {handed.payload.number}."


class SpecStory(SwarmStory):
    """Peers that are specs, with a payload and a filter."""

    def agents(self, **spec: Any) -> Sequence[type[object]]:
        front = AgentExecutionSpec(instructions="You are the front.")
        billing = Peer(AgentExecutionSpec(instructions="You are the billing."), Order, only_the_number)
        return (proof_agent("swarm", Swarm({"front": front, "billing": billing}, entry="front"), **spec),)

    def script(self, *deeds: ScriptedReply) -> Sequence[ScriptEntry]:
        handoff = calls("handoff_to_billing", number=7)
        return [replies_of("front", handoff), replies_of("billing", *deeds, says("Paid back."))]

    def wrong(self) -> Mapping[str, WrongOutput]:
        return {}


class TestSwarmOfSpecs(ArchitectureProofs):
    story = SpecStory()

    async def test_a_peer_sees_what_its_filter_lets_through(self) -> None:
        stage, model = StoryProcesses(self.story), ScriptedModel(self.story.script())
        async with stage.play(model) as (runs, chosen):
            await start(runs, chosen, "my secret question")
        last = model.requests[-1]
        assert [message.text for message in last.messages] == ["You are the billing.", "Look after order 7."]


async def test_an_agent_that_answers_by_itself_needs_no_handoff() -> None:
    result, stage = await played(SwarmStory(), [replies_of("front", says("Hello."))])
    assert (result.output, len(await stage.states())) == ("Hello.", 2)


def test_the_entry_must_be_a_peer() -> None:
    with pytest.raises(AgentDefinitionError, match="Swarm.entry is 'x', which is none of its peers"):
        Swarm({"front": "front"}, entry="x")

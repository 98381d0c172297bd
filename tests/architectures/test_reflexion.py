"""Reflexion: attempts, lessons, and a memory that keeps them for one user."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from pilotage.agent import MemoryScope
from pilotage.architectures import Reflexion
from pilotage.architectures.reflexion import Evaluation
from pilotage.safety import TrustLabel
from pilotage.testing import MemoryAgentMemory, ScriptedModel, says
from pilotage.testing.script import ScriptedReply, ScriptEntry
from tests.architectures.kit import PAGE, WRITE, ArchitectureProofs, ArchitectureStory, Stage, Wrong, played
from tests.architectures.world import agent
from tests.behaviour.family import start

POOR = says(output=Evaluation(0.3, "look before you pay"))
GOOD = says(output=Evaluation(0.9, "all fine"))
WORSE = says(output=Evaluation(0.1, "do not guess"))
FIRST, SECOND = says("First."), says("Second.")


LEARNER = MemoryScope("default", "local", "learner")


class ReflexionStory(ArchitectureStory):
    expected = "Second."
    steps = ("reflexion.attempted", "reflexion.evaluated", "reflexion.attempted", "reflexion.evaluated")
    partials = {1: "", 2: "First.", 3: "First.", 4: "First."}

    def __init__(self, memory: MemoryAgentMemory | None = None) -> None:
        self.memory = memory

    def agents(self, **spec: Any) -> Sequence[type[object]]:
        return (agent("learner", Reflexion(max_attempts=2), **spec),)

    def add(self) -> Sequence[object]:
        return [] if self.memory is None else [self.memory]

    def script(self, *deeds: ScriptedReply) -> Sequence[ScriptEntry]:
        return [*deeds, FIRST, POOR, SECOND, GOOD]

    def wrong(self) -> Mapping[str, Wrong]:
        low = says(output={"score": -0.1, "lesson": "x"})
        return {
            "a score out of range is repaired": Wrong([FIRST, low, GOOD], "First."),
            "a score out of range twice is an error": Wrong([FIRST, low, low], "First.", error="score"),
            "prose is repaired": Wrong([FIRST, says("Good one."), GOOD], "First."),
            "the best attempt wins, not the last": Wrong([FIRST, POOR, SECOND, WORSE], "First."),
            "attempts without a word are no answer": Wrong(
                [says(""), says(""), WORSE] * 2, reason="agent_empty_reply"
            ),
        }


class TestReflexion(ArchitectureProofs):
    story = ReflexionStory()


class TestReflexionWithMemory(ArchitectureProofs):
    @property
    def story(self) -> ReflexionStory:  # type: ignore[override]
        return ReflexionStory(MemoryAgentMemory())


async def test_a_lesson_reaches_the_next_attempt_and_the_next_run_of_the_same_user_only() -> None:
    story = ReflexionStory(memory := MemoryAgentMemory())
    stage, model = Stage(story), ScriptedModel(story.script(WRITE))
    async with stage.play(model) as (runs, chosen):
        await start(runs, chosen, "go")
    shown = [any("look before you pay" in m.text for m in request.messages) for request in model.requests]
    assert shown == [False, False, False, True, False]
    assert [item.text for item in await memory.export(LEARNER)] == ["look before you pay"]
    assert await memory.export(MemoryScope("default", "local")) == await memory.export(LEARNER)
    again, later = Stage(story), ScriptedModel([FIRST, GOOD])
    async with again.play(later) as (runs, chosen):
        await start(runs, chosen, "go")
    assert any("look before you pay" in m.text for m in later.requests[0].messages)


async def test_a_lesson_from_strangers_taints_the_run_that_recalls_it() -> None:
    story = ReflexionStory(memory := MemoryAgentMemory())
    await played(story, [PAGE, FIRST, POOR, SECOND, GOOD])
    (item,) = await memory.export(LEARNER)
    assert item.label.is_untrusted
    result, stage = await played(story, [WRITE, FIRST, GOOD])
    assert (result.status, stage.world.done) == ("interrupted", {})


async def test_a_lesson_that_was_learned_in_trust_leaves_the_run_free() -> None:
    story = ReflexionStory(memory := MemoryAgentMemory())
    await played(story, story.script())
    (item,) = await memory.export(LEARNER)
    assert item.label.join(TrustLabel()) == item.label
    result, stage = await played(story, [WRITE, FIRST, GOOD])
    assert (result.output, stage.world.done) == ("First.", {"deed": 1})

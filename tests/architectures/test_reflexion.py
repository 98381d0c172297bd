"""Reflexion: attempts, lessons, and a memory that keeps them for one user."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import pytest

from pilotage.agent import MemoryItem, MemoryScope, StepFinishedEvent
from pilotage.architectures import Reflexion
from pilotage.architectures.reflexion import Evaluation
from pilotage.errors import AgentMemoryError
from pilotage.safety import TrustLabel
from pilotage.testing import MemoryAgentMemory, ScriptedModel, says
from pilotage.testing.architecture_proofs import (
    PAGE,
    WRITE,
    ArchitectureProofs,
    ArchitectureStory,
    StoryProcesses,
    WrongOutput,
    played,
    proof_agent,
    survived,
)
from pilotage.testing.script import ScriptedReply, ScriptEntry
from tests.behaviour.family import resume, start, told

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
        return (proof_agent("learner", Reflexion(max_attempts=2), **spec),)

    def add(self) -> Sequence[object]:
        return [] if self.memory is None else [self.memory]

    def script(self, *deeds: ScriptedReply) -> Sequence[ScriptEntry]:
        return [*deeds, FIRST, POOR, SECOND, GOOD]

    def wrong(self) -> Mapping[str, WrongOutput]:
        low = says(output={"score": -0.1, "lesson": "x"})
        return {
            "a score out of range is repaired": WrongOutput([FIRST, low, GOOD], "First."),
            "a score out of range twice is an error": WrongOutput([FIRST, low, low], "First.", error="score"),
            "prose is repaired": WrongOutput([FIRST, says("Good one."), GOOD], "First."),
            "the best attempt wins, not the last": WrongOutput([FIRST, POOR, SECOND, WORSE], "First."),
            "attempts without a word are no answer": WrongOutput(
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
    stage, model = StoryProcesses(story), ScriptedModel(story.script(WRITE))
    async with stage.play(model) as (runs, chosen):
        await start(runs, chosen, "go")
    shown = [any("look before you pay" in m.text for m in request.messages) for request in model.requests]
    assert shown == [False, False, False, True, False]
    assert [item.text for item in await memory.export(LEARNER)] == ["look before you pay"]
    assert await memory.export(MemoryScope("default", "local")) == await memory.export(LEARNER)
    again, later = StoryProcesses(story), ScriptedModel([FIRST, GOOD])
    async with again.play(later) as (runs, chosen):
        await start(runs, chosen, "go")
    assert any("look before you pay" in m.text for m in later.requests[0].messages)


async def test_a_lesson_from_strangers_stays_within_the_run() -> None:
    story = ReflexionStory(memory := MemoryAgentMemory())
    stage, model = StoryProcesses(story), ScriptedModel([PAGE, FIRST, POOR, SECOND, GOOD])
    async with stage.play(model) as (runs, chosen):
        result = await start(runs, chosen)
    assert result.output == "Second."
    assert any("look before you pay" in message.text for message in model.requests[3].messages)
    assert await memory.export(LEARNER) == []


class Asking(ReflexionStory):
    def agents(self, **spec: Any) -> Sequence[type[object]]:
        return (proof_agent("learner", Reflexion(max_attempts=2, asks_to_keep=True), **spec),)


async def test_a_person_may_agree_to_keep_a_lesson_from_strangers_which_taints_later_runs() -> None:
    story = Asking(memory := MemoryAgentMemory())
    stage, model = StoryProcesses(story), ScriptedModel([PAGE, FIRST, POOR, SECOND, GOOD])
    async with stage.play(model) as (runs, chosen):
        paused = await start(runs, chosen)
        (question,) = await runs.questions(paused.state.id)
        assert "untrusted content" in str(question)
        await runs.approve(question.id, resume=False)
    async with stage.play(model.restarted()) as (runs, _):
        result = await resume(runs, paused.state.id)
    assert (result.error, result.output) == (None, "Second.")
    (item,) = await memory.export(LEARNER)
    assert item.label.is_untrusted
    again, stage = await played(story, [WRITE, FIRST, GOOD])
    assert (again.status, stage.world.done) == ("interrupted", {})


async def test_a_person_who_does_not_agree_costs_the_run_nothing_but_the_lesson() -> None:
    story = Asking(memory := MemoryAgentMemory())
    stage, model = StoryProcesses(story), ScriptedModel([PAGE, FIRST, POOR, SECOND, GOOD])
    async with stage.play(model) as (runs, chosen):
        paused = await start(runs, chosen)
        (question,) = await runs.questions(paused.state.id)
        await runs.reject(question.id, resume=False)
    async with stage.play(model.restarted()) as (runs, _):
        result = await resume(runs, paused.state.id)
    assert (result.error, result.output) == (None, "Second.")
    assert await memory.export(LEARNER) == []


class Broken(MemoryAgentMemory):
    """A memory in which some methods fail."""

    def __init__(self, *broken: str, error: Exception | None = None) -> None:
        super().__init__()
        self.broken = broken
        self.error = error or AgentMemoryError("the memory is down")

    async def recall(self, *args: Any, **kwargs: Any) -> Sequence[MemoryItem]:
        if "recall" in self.broken:
            raise self.error
        return await super().recall(*args, **kwargs)

    async def remember(self, *args: Any, **kwargs: Any) -> MemoryItem:
        if "remember" in self.broken:
            raise self.error
        return await super().remember(*args, **kwargs)

    async def export(self, *args: Any, **kwargs: Any) -> Sequence[MemoryItem]:
        if "export" in self.broken:
            raise self.error
        return await super().export(*args, **kwargs)


@pytest.mark.parametrize("error", [AgentMemoryError("full"), ConnectionError("down"), TimeoutError()])
@pytest.mark.parametrize("broken", ["recall", "remember", "export"])
async def test_a_memory_that_fails_loses_lessons_and_no_answer(broken: str, error: Exception) -> None:
    story = ReflexionStory(Broken(broken, error=error))
    result = await survived(story, story.script(WRITE))
    assert (result.error, result.output) == (None, "Second.")


async def test_a_lesson_that_is_too_long_is_lost_and_said() -> None:
    story = ReflexionStory(memory := MemoryAgentMemory())
    stage = StoryProcesses(story)
    long = says(output=Evaluation(0.3, "x" * 9_000))
    async with stage.play(ScriptedModel([FIRST, long, SECOND, GOOD])) as (runs, chosen):
        result = await start(runs, chosen)
        events = await told(runs, result.state.id)
    assert result.output == "Second."
    names = [event.step_name for event in events if isinstance(event, StepFinishedEvent)]
    assert "reflexion.lesson_lost" in names
    assert await memory.export(LEARNER) == []


async def test_equal_lessons_are_kept_once_and_the_oldest_leave() -> None:
    class Few(ReflexionStory):
        def agents(self, **spec: Any) -> Sequence[type[object]]:
            return (proof_agent("learner", Reflexion(max_attempts=3, max_lessons=2), **spec),)

    def taught(lesson: str) -> ScriptedReply:
        return says(output=Evaluation(0.2, lesson))

    story = Few(memory := MemoryAgentMemory())
    lessons = ["Look first.", "look  FIRST.", "Pay later."]
    await played(story, [each for lesson in lessons for each in (FIRST, taught(lesson))])
    assert [item.text for item in await memory.export(LEARNER)] == ["Look first.", "Pay later."]
    lessons = ["Pay later.", "Count twice.", "Ask Ada."]
    await played(story, [each for lesson in lessons for each in (FIRST, taught(lesson))])
    assert [item.text for item in await memory.export(LEARNER)] == ["Count twice.", "Ask Ada."]


async def test_a_lesson_that_was_learned_in_trust_leaves_the_run_free() -> None:
    story = ReflexionStory(memory := MemoryAgentMemory())
    await played(story, story.script())
    (item,) = await memory.export(LEARNER)
    assert item.label.join(TrustLabel()) == item.label
    result, stage = await played(story, [WRITE, FIRST, GOOD])
    assert (result.output, stage.world.done) == ("First.", {"deed": 1})

"""Every loop on the page "Write an architecture" passes the proofs, and the page names members that there are."""

from __future__ import annotations

import re
import sys
from collections.abc import Sequence
from types import ModuleType
from typing import Any

import pytest

from pilotage.agent import AgentSession, Dependencies
from pilotage.agent.ports.architecture import IScopedModel, IScopedRuntime, IScopedTools
from pilotage.architectures import React
from pilotage.testing import (
    ArchitectureProofs,
    ArchitectureStory,
    MemoryAgentMemory,
    calls,
    proof_agent,
    says,
    when,
)
from pilotage.testing.script import ScriptedReply, ScriptEntry
from tests.docs.blocks import ROOT, blocks

PAGE = ROOT / "docs" / "how-to" / "write-an-architecture.md"


def page_module() -> ModuleType:
    """Run the blocks of the page that define loops."""
    module = ModuleType("docs_write_an_architecture")
    sys.modules[module.__name__] = module
    for block in blocks(PAGE):
        if block.language == "python" and "crash_matrix" not in block.text:
            code = compile("\n" * (block.line - 1) + block.text, str(PAGE), "exec", dont_inherit=True)
            exec(code, vars(module))  # noqa: S102 - the page is the code under test
    return module


page: Any = page_module()


class TestBestOfThree(ArchitectureProofs):
    story = page.BestStory()


class SurveyStory(ArchitectureStory):
    expected = "2 of 3"
    steps = ("survey.asked",)

    def agents(self, **spec: Any) -> Sequence[type[object]]:
        return (proof_agent("surveyor", page.Survey(), **spec),)

    def script(self, *deeds: ScriptedReply) -> Sequence[ScriptEntry]:
        return [when("house 0", *deeds, says("yes")), when("house 2", says("no"))]


class TestSurvey(ArchitectureProofs):
    story = SurveyStory()


class PolishStory(ArchitectureStory):
    expected = "bright"
    steps = ("polish.done",)

    def agents(self, **spec: Any) -> Sequence[type[object]]:
        return (proof_agent("polisher", page.Polish(), **spec),)

    def script(self, *deeds: ScriptedReply) -> Sequence[ScriptEntry]:
        return [*deeds, says("rough"), says("smooth"), says("bright")]


class TestPolish(ArchitectureProofs):
    story = PolishStory()


class TwiceStory(ArchitectureStory):
    expected = "Short."
    steps = ("twice.done",)

    def agents(self, **spec: Any) -> Sequence[type[object]]:
        return (proof_agent("brief", page.Twice(React()), **spec),)

    def script(self, *deeds: ScriptedReply) -> Sequence[ScriptEntry]:
        return [*deeds, says("A long answer."), says("Short.")]


class TestTwice(ArchitectureProofs):
    story = TwiceStory()


class LearningStory(ArchitectureStory):
    expected = "tea"
    steps = ("learning.answered",)

    def agents(self, **spec: Any) -> Sequence[type[object]]:
        return (proof_agent("learner", page.Learning(), **spec),)

    def script(self, *deeds: ScriptedReply) -> Sequence[ScriptEntry]:
        return [*deeds, calls("look", what="kettle"), says("tea")]

    def add(self) -> Sequence[object]:
        return [MemoryAgentMemory()]


class TestLearning(ArchitectureProofs):
    story = LearningStory()


def test_every_loop_of_the_page_is_proven() -> None:
    loops = {name for name, found in vars(page).items() if hasattr(found, "declared_workers")}
    proven = {name.removeprefix("Test") for name in globals() if name.startswith("Test")}
    own = {name for name in loops if getattr(page, name).__module__ == page.__name__}
    assert own == proven


MEMBERS = [
    name
    for row in re.findall(r"^\| (`[^|]*) \|", PAGE.read_text(), re.MULTILINE)
    for name in re.findall(r"`([a-z_]+(?:\.[a-z_]+)?)[`(]", row)
]
PARTS = {"model": IScopedModel, "tools": IScopedTools, "runtime": IScopedRuntime}


@pytest.mark.parametrize("name", MEMBERS)
def test_the_page_names_members_that_there_are(name: str) -> None:
    part, _, member = name.rpartition(".")
    owner = PARTS[part] if part else Dependencies
    known = {*dir(owner), *getattr(owner, "__annotations__", ())}
    assert member in known


def test_the_page_names_fields_of_the_session_that_there_are() -> None:
    named = set(re.findall(r"\bsession\.([a-z_]+)", PAGE.read_text()))
    assert named <= set(AgentSession.__dataclass_fields__)

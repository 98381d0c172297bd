"""Ids come from structure: who asks for what, in which order, never when."""

from __future__ import annotations

import asyncio
from contextvars import copy_context

import pytest
from tests.unit.runtime.places import enter

from pilotage.runtime.journal.scope import StepScope, scope_for


def test_ids_count_per_label() -> None:
    scope = StepScope("run")
    labels = ["tool:pay", "model", "tool:pay", "tool:look", "model"]
    assert [scope.next_id(label) for label in labels] == [
        "run/tool:pay#1",
        "run/model#1",
        "run/tool:pay#2",
        "run/tool:look#1",
        "run/model#2",
    ]


def test_branches_of_one_name_are_told_apart_and_count_anew() -> None:
    scope = StepScope("run")
    first, second = scope.branch("each"), scope.branch("each")
    assert [first.path, second.path] == ["run/each#1", "run/each#2"]
    assert first.next_id("model") == "run/each#1/model#1"
    assert second.next_id("model") == "run/each#2/model#1"


def test_without_a_run_there_is_no_scope() -> None:
    with pytest.raises(LookupError, match=r"^no run is active in this context$"):
        copy_context().run(scope_for, "model")


async def test_the_owner_works_in_its_scope_itself() -> None:
    scope = StepScope("run", asyncio.current_task())
    enter(scope)
    assert scope_for("model") is scope_for("tool:pay") is scope


async def test_another_task_gets_one_branch_named_by_what_it_asks_for_first() -> None:
    enter(StepScope("run", asyncio.current_task()))

    async def branch() -> list[str]:
        return [scope_for("tool:pay").path, scope_for("model").path]

    paths = await asyncio.gather(branch(), branch())
    assert paths == [["run/task:tool:pay#1"] * 2, ["run/task:tool:pay#2"] * 2]


async def test_a_task_of_a_task_is_a_branch_of_its_branch() -> None:
    enter(StepScope("run", asyncio.current_task()))

    async def inner() -> str:
        return scope_for("model").path

    async def outer() -> str:
        scope_for("tool:pay")
        return await asyncio.create_task(inner())

    assert await asyncio.create_task(outer()) == "run/task:tool:pay#1/task:model#1"


async def test_a_thread_without_a_loop_works_in_the_scope_of_its_caller() -> None:
    scope = StepScope("run", asyncio.current_task())
    enter(scope)
    assert await asyncio.to_thread(scope_for, "tool:look") is scope

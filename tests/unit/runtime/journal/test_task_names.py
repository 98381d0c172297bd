"""A task is named by its first request and by what its coroutine was given, as far as that is plain and cannot change."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable
from dataclasses import dataclass
from datetime import UTC, datetime
from decimal import Decimal
from enum import Enum

import pytest

from pilotage.jsonvalue import JsonValue
from pilotage.runtime.journal.task_names import TaskNames

NAMES = TaskNames("salt")


class Colour(Enum):
    RED = "red"
    BLUE = "blue"


@dataclass(frozen=True)
class Order:
    number: int
    items: list[str]


async def work(*given: object) -> str:
    return name_of_this_task()


async def patient(working: Awaitable[str]) -> str:
    name = name_of_this_task()
    await working
    return name


def name_of_this_task(label: str = "step:fetch", asked: JsonValue = None) -> str:
    task = asyncio.current_task()
    assert task is not None
    return NAMES.of(task)(label, asked)


@pytest.mark.parametrize(
    ("one", "other"),
    [
        (1, 2),
        ("a", "b"),
        (Decimal("1.5"), Decimal("2.5")),
        (Colour.RED, Colour.BLUE),
        (("a", 1), ("a", 2)),
        (Order(1, []), Order(2, [])),
    ],
    ids=str,
)
async def test_tasks_that_were_given_something_else_have_other_names(one: object, other: object) -> None:
    names = await asyncio.gather(work(one), work(other), work(one))
    assert names[0] != names[1]
    assert names[0] == names[2]
    assert names[0].startswith("task:step:fetch:")


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ([1], [2]),
        (1.5, 2.5),
        (datetime(2030, 1, 1, tzinfo=UTC), datetime(2031, 1, 1, tzinfo=UTC)),
        (Order(1, ["a"]), Order(1, ["b"])),
        (object(), object()),
    ],
    ids=lambda each: type(each).__name__,
)
async def test_what_may_change_or_is_measured_names_no_task(one: object, other: object) -> None:
    assert await asyncio.create_task(work(one)) == await asyncio.create_task(work(other))


async def test_a_coroutine_that_waits_for_another_one_is_known_by_what_that_one_was_given() -> None:
    names = await asyncio.gather(patient(work(1)), patient(work(2)))
    assert names[0] != names[1]


async def test_a_name_is_not_made_without_the_salt() -> None:
    task = asyncio.current_task()
    assert task is not None
    assert NAMES.of(task)("tool:pay", {"to": "Ada"}) != TaskNames("other")._name(
        None, "tool:pay", {"to": "Ada"}
    )


async def test_runs_of_earlier_versions_name_tasks_by_their_first_request_alone() -> None:
    async def named(given: int) -> str:
        task = asyncio.current_task()
        assert task is not None
        return TaskNames(None).of(task)("step:fetch", None)

    assert await asyncio.gather(named(1), named(2)) == ["task:step:fetch"] * 2

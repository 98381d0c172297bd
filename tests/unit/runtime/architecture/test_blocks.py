"""Where somebody with a scope of their own works: in it, or inside the branch the program has entered by now."""

from __future__ import annotations

import asyncio

import pytest
from tests.unit.runtime.places import enter

from pilotage.runtime.journal.ledger import Ledger
from pilotage.runtime.journal.liveness import BranchStopped, Liveness
from pilotage.runtime.journal.scope import StepScope, entered, inside, scope_for, worker_scope


def next_in(scope: StepScope | None, label: str = "tool:a") -> str:
    with entered(scope):
        return scope_for(label).next_id(label)


async def test_a_worker_counts_in_its_own_scope() -> None:
    enter(StepScope("run", asyncio.current_task()))
    worker = worker_scope("w")
    assert [next_in(worker), next_in(None), next_in(worker)] == [
        "run/w#1/tool:a#1",
        "run/tool:a#1",
        "run/w#1/tool:a#2",
    ]


async def test_a_turn_that_a_worker_makes_keeps_what_it_asks_for() -> None:
    enter(StepScope("run", asyncio.current_task()))
    worker = worker_scope("w")
    for turn in (1, 2):
        with inside(f"run/w#1/loop#1/{turn}", asyncio.current_task()):
            assert next_in(worker) == f"run/w#1/loop#1/{turn}/tool:a#1"


async def test_a_worker_from_elsewhere_is_a_guest_of_the_branch_it_works_in() -> None:
    enter(StepScope("run", asyncio.current_task()))
    first, second = worker_scope("w"), worker_scope("w")
    with inside("run/g#1/0", asyncio.current_task()):
        assert [next_in(first), next_in(second), next_in(first)] == [
            "run/g#1/0/w#1/tool:a#1",
            "run/g#1/0/w#2/tool:a#1",
            "run/g#1/0/w#1/tool:a#2",
        ]
    assert next_in(first) == "run/w#1/tool:a#1"


async def test_a_worker_made_in_a_branch_stays_in_it() -> None:
    enter(StepScope("run", asyncio.current_task()))
    with inside("run/g#1/0", asyncio.current_task()):
        worker = worker_scope("w")
        assert next_in(worker) == "run/g#1/0/w#1/tool:a#1"


class Alive(Ledger):
    """A ledger that nothing has killed."""

    def __init__(self) -> None:
        self.death = None


@pytest.mark.parametrize(
    ("path", "is_stopped"),
    [
        ("run/g#1/0", True),
        ("run/g#1/0/h#1/2", True),
        ("run/g#1/0/task:tool:a#1", True),
        ("run/g#1/0/tool:a#1", False),
        ("run/g#1/0/step:a#1/g#1/0", False),
        ("run/g#10/0", False),
        ("run", False),
    ],
)
async def test_below_a_stopped_gather_nothing_begins_and_what_is_under_way_goes_on(
    path: str, is_stopped: bool
) -> None:
    liveness = Liveness(Alive())
    liveness.stop("run/g#1")
    if is_stopped:
        with pytest.raises(BranchStopped):
            liveness.check(path)
    liveness.restart("run/g#1")
    liveness.check(path)

"""The programs of several tasks and with cancellations, paused at every place, over another event loop."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator

import pytest

from tests.replay.kit import PROGRAMS, Program
from tests.replay.programs import cancellation, tasks, waits
from tests.replay.story import try_everywhere

_MODULES = {cancellation.__name__, tasks.__name__, waits.__name__}
OF_TASKS = {name: each for name, each in PROGRAMS.items() if each.body.__module__ in _MODULES}


@pytest.fixture(autouse=True)
def _uvloop() -> Iterator[None]:
    uvloop = pytest.importorskip("uvloop", reason="there is no uvloop for this platform")
    asyncio.set_event_loop_policy(uvloop.EventLoopPolicy())
    yield
    asyncio.set_event_loop_policy(None)


@pytest.mark.sample(30)
@pytest.mark.filterwarnings("ignore")
@pytest.mark.usefixtures("quiet")
@pytest.mark.parametrize("program", OF_TASKS.values(), ids=OF_TASKS)
def test_a_program_gets_in_replay_what_it_got_live_over_uvloop(program: Program) -> None:
    tried = try_everywhere(program, with_deaths=False)
    assert tried.is_as_it_should, tried.places[tried.worst]

"""Runs by the beginning of their ids, and by the ids they were started with."""

from __future__ import annotations

from itertools import count

import pytest

from pilotage import Agent, AgentExecutionSpec, Application, Principal, RecoveryStrategy
from pilotage.agent.principal import LOCAL
from pilotage.cli.handlers.read_runs import find_run
from pilotage.errors import CallerError, RunNotFoundError
from pilotage.ids import IIds
from pilotage.runtime import AgentRuns
from pilotage.runtime.plugin import initialize
from pilotage.testing import MemoryStore


class SimilarIds(IIds):
    """Ids that begin alike."""

    def __init__(self) -> None:
        self._numbers = count(1)

    def uid(self) -> str:
        return f"cafe{next(self._numbers):028x}"

    def random(self) -> float:
        return 0.5


@Agent(spec=AgentExecutionSpec(recovery=RecoveryStrategy.ACTION_BOUNDARY))
class Echo:
    async def execute(self, text: str) -> str:
        return text


async def test_a_run_is_found_by_as_much_of_its_id_as_is_clear() -> None:
    app = Application("echo").add(Echo, SimilarIds(), *MemoryStore().ports)
    initialize(app)
    async with app:
        runs = app.get(AgentRuns)
        first = await runs.start(Echo, "a")
        assert (await find_run(runs, "cafe", LOCAL)).id == first.id
        second = await runs.start(Echo, "b")
        for each in (first, second):
            await each.result()
            assert (await find_run(runs, each.id, LOCAL)).id == each.id
        with pytest.raises(RunNotFoundError, match=f"2 runs begin with 'cafe': {second.id}, {first.id}."):
            await find_run(runs, "cafe", LOCAL)
        with pytest.raises(RunNotFoundError, match="there is no run 'beef' in tenant 'default'"):
            await find_run(runs, "beef", LOCAL)
        with pytest.raises(RunNotFoundError, match="in tenant 'acme'"):
            await find_run(runs, first.id, Principal("ada", "acme"))
        with pytest.raises(CallerError, match="'caf' is too short for a run"):
            await find_run(runs, "caf", LOCAL)
        third = await runs.start(Echo, "c", id="A-1")
        assert (await find_run(runs, "A-1", LOCAL)).id == third.id
        with pytest.raises(CallerError, match="'A-1' is too short for a run"):
            await find_run(runs, "A-1", Principal("ada", "acme"))

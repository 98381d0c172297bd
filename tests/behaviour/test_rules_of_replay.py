"""A run names the rules by which it is replayed; one that a later version began is left as it is."""

from __future__ import annotations

import pytest
from tests.behaviour.bureau import Bureau, hired, started
from tests.behaviour.office import Worker

from pilotage.agent.ports.persistence import JournalRow
from pilotage.errors import RunConflictError
from pilotage.runtime import sleep
from pilotage.runtime.journal.start_record import RULES, require_known_rules

CLERK = hired("clerk")


async def waits(worker: Worker) -> str:
    await sleep(3600)
    return "done"


async def first_row(bureau: Bureau) -> tuple[str, JournalRow]:
    async with bureau.process(CLERK, waits) as runs:
        waiting = await started(runs, CLERK)
    return waiting.state.id, (await bureau.rows(waiting.state.id))[0]


async def test_a_new_run_names_the_rules_of_this_version() -> None:
    _, row = await first_row(Bureau())
    require_known_rules(row, "run")
    assert isinstance(row.record, dict)
    assert row.record["rules"] == RULES


async def test_a_run_of_a_later_version_is_left_to_it(monkeypatch: pytest.MonkeyPatch) -> None:
    bureau = Bureau()
    with monkeypatch.context() as later:
        later.setattr("pilotage.runtime.run.start.RULES", RULES + 1)
        run_id, _ = await first_row(bureau)
    before = await bureau.rows(run_id)
    async with bureau.process(CLERK, waits) as runs:
        with pytest.raises(RunConflictError, match="later version"):
            await runs.resume(run_id)
    assert await bureau.rows(run_id) == before

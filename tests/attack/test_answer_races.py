"""Approve and reject from two processes at the same time, by every way in: one is accepted, the other one is told.

`make test` plays one round of each, `make attack` two hundred.
"""

from __future__ import annotations

import asyncio
import sys
from asyncio.subprocess import PIPE, Process
from collections.abc import Callable

import pytest

from pilotage.adapters.sqlalchemy.settings import MAY_LOSE_COMMITS, URL, DatabaseSettings
from pilotage.agent.state import AgentStatus
from pilotage.cli.application import acting
from pilotage.runtime import AgentRuns
from tests.adapters.sqlalchemy.databases import BACKENDS
from tests.attack.answer_races import ACCEPTED, CONFLICT, WAYS, Payer, made
from tests.attack.tally import TRIED

pytestmark = [
    pytest.mark.attack("approvals"),
    pytest.mark.parametrize("database_settings", BACKENDS, indirect=True),
]


async def _rival(decision: str) -> Process:
    words = ("-m", "tests.attack.answer_races", decision)
    process = await asyncio.create_subprocess_exec(sys.executable, *words, stdin=PIPE, stdout=PIPE)
    assert await _line_of(process) == "ready"
    return process


async def _line_of(process: Process) -> str:
    assert process.stdout is not None
    return (await asyncio.wait_for(process.stdout.readline(), 60)).decode().strip()


async def _told(process: Process, way: str, run_id: str, request_id: str) -> str:
    assert process.stdin is not None
    process.stdin.write(f"{way} {run_id} {request_id}\n".encode())
    return await _line_of(process)


async def _waiting(runs: AgentRuns) -> tuple[str, str]:
    handle = await runs.start(Payer, "A-17")
    await handle.result()
    (question,) = await runs.questions(handle.id)
    return handle.id, question.id


async def _check(runs: AgentRuns, run_id: str, request_id: str, told: dict[str, str]) -> None:
    """One answer was accepted and counts, the other sender was told by whom; the record has both."""
    winners = [decision for decision, words in told.items() if words == ACCEPTED]
    assert len(winners) == 1, told
    (winner,), (loser,) = winners, told.keys() - winners
    assert told[loser].startswith(CONFLICT), told
    assert f"was answered '{winner}' by 'who-{winner}s' at 20" in told[loser]
    assert await runs.questions(run_id) == ()
    result = await (await runs.resume(run_id)).result()
    assert (result.status is AgentStatus.COMPLETED) is (winner == "approve")
    evidence = [each.payload for each in await runs.evidence(run_id)]
    by = {(each.get("decision"), each.get("decided_by"), each.get("end")) for each in evidence}
    assert {(winner, f"who-{winner}s", None), (loser, f"who-{loser}s", "refused")} <= by
    assert await runs.verify(run_id) > 0


@pytest.mark.slow
async def test_of_two_processes_that_answer_differently_one_is_told_of_the_other(
    database_settings: DatabaseSettings,
    monkeypatch: pytest.MonkeyPatch,
    record_property: Callable[[str, object], None],
    exhaustive: bool,
) -> None:
    monkeypatch.setenv(URL, database_settings.url)
    monkeypatch.setenv(MAY_LOSE_COMMITS, "1")
    async with acting(made()) as runs:
        rivals = await asyncio.gather(_rival("approve"), _rival("reject"))
        try:
            rounds = 200 if exhaustive else 1
            record_property(TRIED, rounds * len(WAYS))
            for number in range(rounds):
                for way in WAYS:
                    run_id, request_id = await _waiting(runs)
                    # Who is asked first takes turns.
                    order = rivals if number % 2 else rivals[::-1]
                    words = await asyncio.gather(*(_told(each, way, run_id, request_id) for each in order))
                    told = dict(zip(("approve", "reject"), words if number % 2 else words[::-1], strict=True))
                    await _check(runs, run_id, request_id, told)
        finally:
            for rival in rivals:
                rival.kill()
                await rival.wait()

"""Use case 15: a killed process is replaced by another one, and the run goes on at the boundary of its last action."""

from __future__ import annotations

from pilotage import AgentStatus
from pilotage.runtime import AgentRuns
from tests.acceptance.dying import LEDGER, process
from tests.acceptance.killed import kill_in_the_middle, taken_up


async def test_what_was_done_is_not_done_again_and_what_may_be_repeated_is() -> None:
    kill_in_the_middle("book then post_safely")
    assert LEDGER.read_text().splitlines() == ["booked", "posted safely"]
    async with process() as app:
        runs = app.get(AgentRuns)
        (left,) = (await runs.list()).runs
        assert left.status is AgentStatus.ACTIVE
        result = await (await taken_up(runs, left.id)).result()
        assert result.state.status is AgentStatus.COMPLETED
        assert "book() gave booked" in result.output
        await runs.verify(left.id)
    assert LEDGER.read_text().splitlines() == ["booked", "posted safely", "posted safely"]

"""Folded turns of a loop: what is folded and what is not, damaged ones, forks, changed programs, decisions."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from dataclasses import replace
from random import Random

import pytest
from tests.behaviour.test_damaged_records import DAMAGES, check_damaged, mend, rechain
from tests.crash.test_folded_turns import Place, Reader, a_turn, end_in, folds_in

from pilotage import (
    Agent,
    AgentExecutionSpec,
    AgentStatus,
    AgentYield,
    Evidence,
    RecoveryStrategy,
    ToolEffects,
    agent_tool,
)
from pilotage.agent import AgentSignal, AgentSignalKind, on_signal
from pilotage.agent.principal import LOCAL
from pilotage.agent.state import AgentStateReason
from pilotage.architectures import React
from pilotage.errors import CallerError
from pilotage.runtime.journal.resolution import SkipAction
from pilotage.testing import StopAfter, calls, says
from pilotage.testing.script import ScriptedReply
from pilotage.testing.tables import RunJournal

DURABLE = RecoveryStrategy.ACTION_BOUNDARY


def script(turns: int) -> list[ScriptedReply]:
    random = Random(5)  # noqa: S311 - a repeatable draw
    return [*(a_turn(number, random) for number in range(turns)), says("Done.")]


async def dead_behind_a_fold(turns: int = 30, agent: type[object] = Reader) -> Place:
    """A run that died a few commits before its end."""
    undisturbed = Place(script(turns), agent)
    await undisturbed.begun()
    place = Place(script(turns), agent)
    await place.begun(StopAfter(undisturbed.commits - 5))
    return place


def journal_of(place: Place, run_id: str) -> RunJournal:
    found = place.store.tables.journals.find(LOCAL.tenant, run_id)
    assert found is not None
    return found


async def run_id_of(place: Place) -> str:
    (state,) = (await place.store.states.list_runs(LOCAL.tenant)).runs
    return state.id


async def test_two_dozen_turns_are_one_row_that_holds_no_message() -> None:
    place = Place(script(60))
    await place.begun()
    _, _, rows = await place.end()
    folds = [row for row in rows if row.action_id in folds_in(rows)]
    assert [row.record["turns"] for row in folds if isinstance(row.record, dict)] == [24, 24]
    assert all(len(row.texts.record_json) < 60 for row in folds)


async def test_a_resumed_run_asks_neither_model_nor_tools_about_folded_turns() -> None:
    place = await dead_behind_a_fold()
    assert len(folds_in(await place.rows())) == 1
    await place.carried_on()
    assert len(place.asked) <= 8
    result, _, _ = await place.end()
    assert (result.status, result.output) == (AgentStatus.COMPLETED, "Done.")


@pytest.mark.parametrize("kind", DAMAGES)
@pytest.mark.parametrize("at", ["inside", "fold"])
async def test_a_damaged_row_of_folded_turns_interrupts_the_run_and_the_mended_run_goes_on(
    kind: str, at: str
) -> None:
    place = await dead_behind_a_fold()
    run_id, rows = await run_id_of(place), await place.rows()
    fold = next(row.seq for row in rows if row.action_id in folds_in(rows))
    seq = fold if at == "fold" else fold // 2
    journal = journal_of(place, run_id)
    originals, (damage, reason) = list(journal.rows), DAMAGES[kind]
    damage(journal.rows, seq - 1)
    async with place.process() as runs:
        state = (await (await runs.resume(run_id)).result()).state
        action = None if kind == "deleted" else str(journal.rows[seq - 1].columns[1])
        check_damaged(state, seq, action, reason)
    mend(journal, originals)
    await place.carried_on()
    result, _, _ = await place.end()
    assert result.output == "Done."


@pytest.mark.parametrize("record", ['{"turns":23}', '{"turns":"x"}', "[]", '{"emitted":[5],"turns":24}'])
async def test_a_fold_that_says_something_else_than_its_rows_interrupts_the_run(record: str) -> None:
    """The chain fits: only reading the row shows it."""
    place = await dead_behind_a_fold()
    run_id, rows = await run_id_of(place), await place.rows()
    fold = next(row for row in rows if row.action_id in folds_in(rows))
    journal = journal_of(place, run_id)
    journal.rows[fold.seq - 1] = replace(
        journal.rows[fold.seq - 1], record_text=record, view_text=record, digest="0" * 64
    )
    rechain(journal)
    async with place.process() as runs:
        with pytest.raises(CallerError):
            await runs.verify(run_id)
        state = (await (await runs.resume(run_id)).result()).state
        assert state.reason is AgentStateReason.RECOVERY_REQUIRES_HITL
        assert fold.action_id in str(state.current_activity)


async def test_a_fork_has_the_folds_before_it_and_no_later_ones() -> None:
    place = await dead_behind_a_fold()
    run_id, rows = await run_id_of(place), await place.rows()
    fold = next(row.seq for row in rows if row.action_id in folds_in(rows))
    ends = []
    await place.carried_on()
    _, _, whole = await place.end()
    for at, folds in ((fold, 1), (fold - 1, 0)):
        async with place.process() as runs:
            state = await runs.fork(run_id, at=at)
            assert len(folds_in(await place.rows_of(state.id))) == folds
            await (await runs.resume(state.id)).result()
            await runs.verify(state.id)
            ends.append(end_in(await place.rows_of(state.id)))
            told = [event.kind async for event in runs.events(state.id)]
            assert told.count(told[-1]) == 1
    assert ends == [end_in(whole)] * 2


@Agent(spec=AgentExecutionSpec(name="reader", recovery=DURABLE, architecture=React(max_turns=20)))
class Hasty(Reader):
    """Read twenty pages at most."""


@Agent(spec=AgentExecutionSpec(name="reader", recovery=DURABLE, architecture=React(max_turns=500)))
class Illiterate:
    """Read nothing."""

    @agent_tool(effects=ToolEffects.read_only())
    async def price(self, of: str) -> str:
        """Look a price up."""
        return of


@Agent(spec=AgentExecutionSpec(name="reader", recovery=DURABLE, architecture=React(max_turns=500)))
class Exact(Reader):
    """Read page after page, for numbers."""

    @agent_tool(effects=ToolEffects.read_only(), reads_private=True)
    async def look_up(self, page: int) -> int:  # type: ignore[override]
        """Count a page."""
        return page


@pytest.mark.parametrize("agent", [Hasty, Illiterate, Exact])
async def test_a_program_that_does_not_come_to_the_end_of_folded_turns_has_diverged(
    agent: type[object],
) -> None:
    place = await dead_behind_a_fold()
    run_id = await run_id_of(place)
    rows = await place.rows()
    place.agent = agent
    async with place.process() as runs:
        state = (await (await runs.resume(run_id)).result()).state
        assert state.reason is AgentStateReason.DIVERGED
        now = await place.rows()
        assert not any(row.stage.has_action for row in now[len(rows) :])
        with pytest.raises(CallerError, match="folds"):
            await runs.resolve(run_id, SkipAction("model#3"), reason="to see")
    assert place.asked == []
    place.agent = Reader
    await place.carried_on()
    assert (await place.end())[0].output == "Done."


_PATIENT = React(max_turns=500, max_tool_errors=99, max_continuations=99)


@Agent(
    spec=AgentExecutionSpec(
        name="reader",
        recovery=DURABLE,
        architecture=_PATIENT,
        accepted_signals=[AgentSignalKind.EXTERNAL_EVENT],
    )
)
class Listening(Reader):
    """Read page after page."""

    @on_signal(AgentSignalKind.EXTERNAL_EVENT)
    async def hear(self, signal: AgentSignal) -> AsyncGenerator[AgentYield[str], None]:
        """Hear."""
        yield Evidence(signal.id)


async def test_where_handlers_may_run_nothing_is_folded_and_old_records_are_folded_later() -> None:
    """The record of a version without folds: all of its turns are folded behind the first new one."""
    place = await dead_behind_a_fold(agent=Listening)
    assert folds_in(await place.rows()) == []
    place.agent = Reader
    await place.carried_on(StopAfter(4))
    (fold,) = folds_in(await place.rows())
    assert fold.startswith("run/turns:1-")
    await place.carried_on()
    result, _, rows = await place.end()
    assert result.output == "Done."
    undisturbed = Place(script(30))
    await undisturbed.begun()
    assert end_in(rows) == end_in((await undisturbed.end())[2])


async def test_turns_with_something_beside_their_calls_are_not_folded() -> None:
    """Calls that are refused, and calls with others inside, are made again in replay."""
    odd = [calls("guess", what="it"), calls("file", text="one"), calls("price", amount=1)]
    even = script(9)[:-1]
    place = Place([*even, odd[0], *even, odd[1], *even, odd[2], *even, says("Done.")])
    await place.begun()
    result, _, rows = await place.end()
    assert result.output == "Done."
    numbers = {number for fold in folds_in(rows) for number in _numbers_of(fold)}
    own = {row.number: row for row in rows if row.action_id.count("/") == 1 and row.number}
    assert len(folds_in(rows)) >= 2
    assert not any(own[number].action_id.startswith("run/tool:file") for number in numbers)


def _numbers_of(fold: str) -> range:
    first, _, last = fold.rpartition(":")[2].partition("-")
    return range(int(first), int(last) + 1)

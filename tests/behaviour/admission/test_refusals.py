"""What a refused effect costs, and whom it warns: the tables against the running code."""

from __future__ import annotations

from collections.abc import Sequence
from functools import reduce

import pytest
from tests.behaviour.admission.scenes import SCENES, Stand
from tests.behaviour.admission.stages import Stage
from tests.behaviour.admission.table import REFUSALS, WARNINGS, Amount, RefusalRow, WarningRow

from pilotage import AgentEvent, AgentExecutionLimits, AgentStatus
from pilotage.agent import ArtifactEvent, BudgetAmount, ToolCallResultEvent

BUDGET_WARNING = "budget_warning"


def charged(stand: Stand) -> Amount:
    """What the application's budget was told in all; every grant has been settled."""
    budget = stand.budget
    assert list(budget.settled) == [grant.id for grant in budget.granted]
    total = reduce(BudgetAmount.__add__, budget.settled.values(), BudgetAmount())
    return total.steps, total.tool_calls


@pytest.mark.parametrize("row", REFUSALS, ids=lambda row: f"{row.effect}, {row.refused_by}")
async def test_a_refusal_gives_back_what_was_held(row: RefusalRow) -> None:
    stand = Stand(SCENES[row.effect], [row.refused_by])
    stopped = await stand.attempt()
    assert stopped.by is row.refused_by
    spent = stopped.result.spent
    assert (charged(stand), (spent.steps, spent.tool_calls)) == (row.charged, row.counted)


@pytest.mark.parametrize(
    ("effect", "waiting", "approved"),
    [
        ("tool call of a program", (0, 1), (0, 2)),
        ("tool call of a model", (2, 1), (3, 2)),
        ("model call", (1, 1), (2, 1)),
        ("streamed model call", (1, 1), (2, 1)),
    ],
)
@pytest.mark.parametrize("is_approved", [True, False], ids=["approved", "rejected"])
async def test_an_effect_that_waits_for_a_person_holds_nothing_and_a_rejected_one_costs_nothing(
    effect: str, waiting: Amount, approved: Amount, is_approved: bool
) -> None:
    stand = Stand(SCENES[effect], [Stage.APPROVAL])
    async with stand.process() as runs:
        paused = await (await runs.start(stand.agent, "go")).result()
        run_id = paused.state.id
        (question,) = await runs.questions(run_id)
        assert charged(stand) == waiting
        stand.refusals.begin_anew(())
        await (runs.approve(question.id) if is_approved else runs.reject(question.id))
        ended = await (await runs.resume(run_id)).result()
    assert ended.status is (AgentStatus.COMPLETED if is_approved else AgentStatus.FAILED)
    assert charged(stand) == (approved if is_approved else waiting)


def is_warned(events: Sequence[AgentEvent]) -> bool:
    """Whether a warning came before the result of the tool call, if there is one."""
    for event in events:
        if isinstance(event, ToolCallResultEvent) and event.tool_name == "send":
            return False
        if isinstance(event, ArtifactEvent) and event.name == BUDGET_WARNING:
            return True
    return False


def nearly_used_up(effect: str) -> AgentExecutionLimits:
    """Limits of which the effect takes the last."""
    scene = SCENES[effect]
    steps = 2 if scene.program is not None else None
    return AgentExecutionLimits(max_steps=steps, max_tool_calls=scene.max_tool_calls + 1)


@pytest.mark.parametrize("row", WARNINGS, ids=lambda row: row.effect)
async def test_readers_are_warned_before_an_effect_takes_the_last_of_a_limit(row: WarningRow) -> None:
    stand = Stand(SCENES[row.effect], (), limits=nearly_used_up(row.effect), has_ports=False)
    async with stand.process() as runs:
        handle = await runs.start(stand.agent, "go")
        await handle.result()
        events = [event async for event in runs.events(handle.id)]
    assert SCENES[row.effect].carried_out in stand.refusals.carried_out
    assert is_warned(events) is row.is_warned


@pytest.mark.parametrize("effect", ["tool call of a program", "model call", "summary"])
async def test_every_warning_of_the_applications_budget_reaches_readers(effect: str) -> None:
    stand = Stand(SCENES[effect], ())
    async with stand.process() as runs:
        handle = await runs.start(stand.agent, "go")
        await handle.result()
        events = [event async for event in runs.events(handle.id)]
    warnings = [event.content for event in events if isinstance(event, ArtifactEvent)]
    assert warnings == [f"grant {number} of the day" for number in range(1, len(stand.budget.granted) + 1)]

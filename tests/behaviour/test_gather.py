"""`gather`: branches side by side that end in any order, wait, fail, crash, and are entered once."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from decimal import Decimal
from functools import partial

import pytest
from tests.behaviour.family import Family, Play, member, resume, start, told

from pilotage import AgentStatus
from pilotage.agent.messages import ModelMessage, ModelToolCall
from pilotage.agent.model_request import ModelRequest
from pilotage.agent.ports.architecture import BranchFailure, Dependencies, FailurePolicy
from pilotage.agent.ports.persistence import JournalStage
from pilotage.agent.run_values import RunResult
from pilotage.agent.signals import RejectionPolicy
from pilotage.agent.spec import AgentExecutionLimits
from pilotage.agent.state import AgentStateReason
from pilotage.errors import ToolError
from pilotage.testing import ProcessStopped, ScriptedModel, StopAfter, says, when

ALL = FailurePolicy


def one_by_one(family: Family, order: list[int]) -> Callable[[int], Awaitable[int]]:
    """Branches that end in the order that is given, whatever their numbers."""
    turns = {number: asyncio.Event() for number in order}
    turns[order[0]].set()

    async def branch(number: int) -> int:
        family.world.entered[str(number)] += 1
        await turns[number].wait()
        await family.hands.write(f"w{number}")
        later = order[order.index(number) + 1 :]
        if later:
            turns[later[0]].set()
        return number

    return branch


async def played(family: Family, play: Play, **spec: object) -> RunResult:
    agent = member("leader", play, **spec)
    async with family.process(agent) as runs:
        return await start(runs, agent)


async def test_results_come_in_the_order_of_the_branches_whichever_ends_first() -> None:
    family = Family()

    async def play(deps: Dependencies, prompt: str) -> object:
        branch = one_by_one(family, [2, 0, 1])
        return await deps.runtime.gather("b", [partial(branch, n) for n in range(3)])

    assert (await played(family, play)).output == [0, 1, 2]


async def test_no_more_branches_run_at_once_than_the_limit_says() -> None:
    family = Family()
    running: list[int] = []
    most: list[int] = []

    async def branch(number: int) -> int:
        running.append(number)
        most.append(len(running))
        await family.hands.note(f"n{number}")
        running.remove(number)
        return number

    async def play(deps: Dependencies, prompt: str) -> object:
        return await deps.runtime.gather("b", [partial(branch, n) for n in range(7)], limit=2)

    assert (await played(family, play)).output == list(range(7))
    assert max(most) == 2


@dataclass(frozen=True)
class Price:
    amount: Decimal


async def test_a_branch_gives_the_same_type_live_and_in_replay() -> None:
    family, seen = Family(), list[object]()

    async def price() -> Price:
        return Price(Decimal("1.50"))

    async def play(deps: Dependencies, prompt: str) -> object:
        seen.append(await deps.runtime.gather("b", [price]))
        return await family.hands.ask("x")

    agent = member("leader", play)
    async with family.process(agent) as runs:
        paused = await start(runs, agent)
    async with family.process(agent) as runs:
        await resume(runs, paused.state.id)
    assert seen == [[Price(Decimal("1.50"))], [Price(Decimal("1.50"))]]


async def test_a_branch_whose_result_is_not_of_its_type_is_a_branch_that_failed() -> None:
    family = Family()

    async def wrong() -> int:
        return "many"  # type: ignore[return-value]

    async def unkeepable() -> object:
        return object()

    async def right() -> int:
        return 1

    async def play(deps: Dependencies, prompt: str) -> object:
        found = await deps.runtime.gather("b", [wrong, unkeepable, right], policy=ALL.COLLECT)
        return [isinstance(each, BranchFailure) for each in found]

    assert (await played(family, play)).output == [True, True, False]


async def test_fail_fast_raises_the_first_failure_in_branch_order_and_starts_nothing_new() -> None:
    family = Family()

    async def branch(number: int) -> str:
        family.world.entered[str(number)] += 1
        if number in (1, 2):
            raise ToolError(f"branch {number}")
        await family.hands.write(f"w{number}")
        return await family.hands.write(f"then{number}")

    async def play(deps: Dependencies, prompt: str) -> object:
        try:
            await deps.runtime.gather("b", [partial(branch, n) for n in range(5)], limit=3)
        except ToolError as error:
            return str(error)
        return "no failure"

    result = await played(family, play)
    assert result.output == "branch 1"
    assert not family.world.done["then0"], "a branch goes on although nobody needs it"
    assert not family.world.entered["4"]


async def test_collect_leaves_a_failure_where_the_branch_stands() -> None:
    family = Family()

    async def branch(number: int) -> str:
        return await (family.hands.fail("luck") if number == 1 else family.hands.write(f"w{number}"))

    async def play(deps: Dependencies, prompt: str) -> object:
        found = await deps.runtime.gather("b", [partial(branch, n) for n in range(3)], policy=ALL.COLLECT)
        return [each.error if isinstance(each, BranchFailure) else each for each in found]

    assert (await played(family, play)).output == ["w0", "no luck", "w2"]


@pytest.mark.parametrize(
    ("failing", "quorum", "expected"),
    [
        ({1}, 2, ["w0", "w2"]),
        ({0, 2}, 1, ["w1"]),
        ({0, 2}, 2, "2 of 3 branches failed, 2 must succeed: no w0"),
        ({0, 1, 2}, None, "failed, 2 must succeed"),
        (set[int](), 3, ["w0", "w1", "w2"]),
    ],
)
async def test_a_quorum_leaves_failures_out_or_fails(
    failing: set[int], quorum: int | None, expected: object
) -> None:
    family = Family()

    async def branch(number: int) -> str:
        return await (
            family.hands.fail(f"w{number}") if number in failing else family.hands.note(f"w{number}")
        )

    async def play(deps: Dependencies, prompt: str) -> object:
        branches = [partial(branch, n) for n in range(3)]
        try:
            return await deps.runtime.gather("b", branches, policy=ALL.QUORUM, quorum=quorum)
        except ToolError as error:
            return str(error)

    output = (await played(family, play)).output
    assert expected in output if isinstance(expected, str) else output == expected


async def test_first_gives_the_branch_that_is_first_in_time() -> None:
    family = Family()

    async def play(deps: Dependencies, prompt: str) -> object:
        branch = one_by_one(family, [1, 0])
        return await deps.runtime.gather("b", [partial(branch, n) for n in range(2)], policy=ALL.FIRST)

    assert (await played(family, play)).output == [1]


async def test_first_fails_when_all_fail() -> None:
    family = Family()

    async def branch(number: int) -> str:
        return await family.hands.fail(f"w{number}")

    async def play(deps: Dependencies, prompt: str) -> object:
        with pytest.raises(ToolError, match="all branches failed: no w0"):
            await deps.runtime.gather("b", [partial(branch, n) for n in range(2)], policy=ALL.FIRST)
        with pytest.raises(ToolError, match="there are no branches"):
            await deps.runtime.gather("none", [], policy=ALL.FIRST)
        with pytest.raises(ToolError, match="0 of 0 branches failed, 1 must succeed"):
            await deps.runtime.gather("none", [], policy=ALL.QUORUM)
        return await deps.runtime.gather("none", [])

    assert (await played(family, play)).output == []


async def test_finished_branches_are_not_entered_again_and_their_rows_stay() -> None:
    family = Family()

    async def branch(number: int) -> str:
        family.world.entered[str(number)] += 1
        await family.hands.write(f"w{number}")
        return await (family.hands.ask("a2") if number == 2 else family.hands.look(f"l{number}"))

    async def play(deps: Dependencies, prompt: str) -> object:
        return await deps.runtime.gather("b", [partial(branch, n) for n in range(3)])

    agent = member("leader", play)
    async with family.process(agent) as runs:
        paused = await start(runs, agent)
        (question,) = await runs.questions(paused.state.id)
        await runs.approve(question.id)
    rows = {row.action_id for row in await family.rows(paused.state.id)}
    assert {"run/b#1/0/tool:write#1", "run/b#1/1/tool:look#1", "run/b#1/0"} <= rows
    async with family.process(agent) as runs:
        result = await resume(runs, paused.state.id)
    assert result.output == ["saw l0", "saw l1", "a2"]
    assert family.world.entered == {"0": 1, "1": 1, "2": 2}
    assert family.world.done == {"w0": 1, "w1": 1, "w2": 1, "a2": 1}


async def test_a_gather_that_is_folded_is_not_entered_at_all() -> None:
    family = Family()

    async def branch(number: int) -> int:
        family.world.entered[str(number)] += 1
        return number

    async def play(deps: Dependencies, prompt: str) -> object:
        found = await deps.runtime.gather("b", [partial(branch, n) for n in range(3)])
        await family.hands.ask("x")
        return found

    agent = member("leader", play)
    async with family.process(agent) as runs:
        paused = await start(runs, agent)
        (question,) = await runs.questions(paused.state.id)
        await runs.approve(question.id)
    async with family.process(agent) as runs:
        result = await resume(runs, paused.state.id)
    assert result.output == [0, 1, 2]
    assert family.world.entered == {"0": 1, "1": 1, "2": 1}
    folded = [row for row in await family.rows(result.state.id) if row.stage is JournalStage.FOLDED]
    assert [row.action_id for row in folded] == ["run/b#1/0", "run/b#1/1", "run/b#1/2", "run/b#1"]


async def test_siblings_of_a_waiting_branch_go_on_to_their_end_and_two_waits_are_one_pause() -> None:
    family = Family()

    async def branch(number: int) -> str:
        if number in (0, 2):
            return await family.hands.ask(f"a{number}")
        await family.hands.write("w1")
        return await family.hands.write("x1")

    async def play(deps: Dependencies, prompt: str) -> object:
        return await deps.runtime.gather("b", [partial(branch, n) for n in range(3)], limit=1)

    agent = member("leader", play)
    async with family.process(agent) as runs:
        paused = await start(runs, agent)
        first, second = await runs.questions(paused.state.id)
        assert family.world.done == {"w1": 1, "x1": 1}
        await runs.approve(second.id)
    async with family.process(agent) as runs:
        again = await resume(runs, paused.state.id)
        assert again.status is AgentStatus.INTERRUPTED
        assert [each.id for each in await runs.questions(paused.state.id)] == [first.id]
        assert family.world.done == {"w1": 1, "x1": 1, "a2": 1}
        await runs.approve(first.id)
        result = await resume(runs, paused.state.id)
    assert result.output == ["a0", "x1", "a2"]
    assert set(family.world.done.values()) == {1}


async def test_a_branch_whose_own_task_waits_is_not_finished() -> None:
    family = Family()

    async def branch() -> str:
        found = await asyncio.gather(family.hands.ask("a"), family.hands.write("w"), return_exceptions=True)
        return str([each for each in found if isinstance(each, str)])

    async def play(deps: Dependencies, prompt: str) -> object:
        return await deps.runtime.gather("b", [branch])

    agent = member("leader", play)
    async with family.process(agent) as runs:
        paused = await start(runs, agent)
        assert paused.status is AgentStatus.INTERRUPTED
        (question,) = await runs.questions(paused.state.id)
        await runs.approve(question.id)
        result = await resume(runs, paused.state.id)
    assert result.output == ["['a', 'w']"]


async def test_a_group_of_tasks_in_a_branch_waits_like_the_branch_itself() -> None:
    family = Family()

    async def grouped() -> str:
        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(family.hands.ask("a"))
        return "grouped"

    async def plain() -> str:
        await family.hands.write("w1")
        return await family.hands.write("w2")

    async def play(deps: Dependencies, prompt: str) -> object:
        return await deps.runtime.gather("b", [grouped, plain])

    agent = member("leader", play)
    async with family.process(agent) as runs:
        paused = await start(runs, agent)
        assert (paused.status, family.world.done) == (AgentStatus.INTERRUPTED, {"w1": 1, "w2": 1})
        (question,) = await runs.questions(paused.state.id)
        await runs.approve(question.id)
        assert (await resume(runs, paused.state.id)).output == ["grouped", "w2"]


async def test_an_answer_that_ends_the_run_counts_more_than_a_branch_that_waits() -> None:
    family = Family()

    async def branch(number: int) -> str:
        return await family.hands.ask(f"a{number}")

    async def play(deps: Dependencies, prompt: str) -> object:
        return await deps.runtime.gather("b", [partial(branch, n) for n in range(2)])

    agent = member("leader", play)
    async with family.process(agent) as runs:
        paused = await start(runs, agent)
        _, second = await runs.questions(paused.state.id)
        await runs.reject(second.id)
        result = await resume(runs, paused.state.id)
    assert (result.status, result.state.reason) == (AgentStatus.FAILED, AgentStateReason.APPROVAL_REJECTED)
    assert not family.world.done


@pytest.mark.parametrize("policy", [ALL.FIRST, ALL.FAIL_FAST])
async def test_a_decided_gather_does_not_wait_for_branches_that_nobody_needs(policy: FailurePolicy) -> None:
    family = Family()

    async def waits() -> str:
        return await family.hands.ask("a")

    async def decides() -> str:
        return await (family.hands.write("w") if policy is ALL.FIRST else family.hands.fail("luck"))

    async def play(deps: Dependencies, prompt: str) -> object:
        try:
            found = await deps.runtime.gather("b", [waits, decides], policy=policy)
        except ToolError as error:
            found = [str(error)]
        return [*found, await family.hands.write("behind")]

    agent = member("leader", play)
    async with family.process(agent) as runs:
        result = await start(runs, agent)
        assert result.status is AgentStatus.COMPLETED
        assert result.output == ["w" if policy is ALL.FIRST else "no luck", "behind"]
        assert not family.world.done["a"]


async def test_a_question_that_nobody_needs_any_more_is_not_shown() -> None:
    family = Family()

    async def waits() -> str:
        return await family.hands.ask("a")

    async def decides() -> str:
        return await family.hands.write("w")

    async def play(deps: Dependencies, prompt: str) -> object:
        await deps.runtime.gather("b", [waits, decides], policy=ALL.FIRST)
        return await family.hands.ask("behind")

    agent = member("leader", play)
    async with family.process(agent) as runs:
        paused = await start(runs, agent)
        questions = await runs.questions(paused.state.id)
        assert [each.arguments for each in questions] == [{"what": "behind"}]
        await runs.approve(questions[0].id)
        assert (await resume(runs, paused.state.id)).output == "behind"


async def test_a_branch_that_is_not_needed_still_finishes_the_tool_it_is_in() -> None:
    family = Family()
    has_begun, has_won = asyncio.Event(), asyncio.Event()

    async def slow() -> str:
        async def work() -> str:
            has_begun.set()
            await has_won.wait()
            return await family.hands.write("inside")

        return await inner.runtime.step("work", work)

    async def quick() -> str:
        await has_begun.wait()
        has_won.set()
        return "quick"

    async def play(deps: Dependencies, prompt: str) -> object:
        nonlocal inner
        inner = deps
        return await deps.runtime.gather("b", [slow, quick], policy=ALL.FIRST)

    inner: Dependencies
    result = await played(family, play)
    assert result.output == ["quick"]
    rows = await family.rows(result.state.id)
    begun = {row.action_id for row in rows if row.stage is JournalStage.BEFORE}
    ended = {row.action_id for row in rows if row.stage is JournalStage.AFTER}
    assert begun <= ended, "something was begun and nobody knows what came of it"


async def test_a_gather_inside_a_branch_that_is_stopped_stops_too() -> None:
    family = Family()
    has_won = asyncio.Event()

    async def leaf() -> str:
        await has_won.wait()
        return await family.hands.write("leaf")

    async def outer(deps: Dependencies) -> str:
        return str(await deps.runtime.gather("inner", [leaf, leaf]))

    async def quick() -> str:
        has_won.set()
        return "quick"

    async def play(deps: Dependencies, prompt: str) -> object:
        return await deps.runtime.gather("b", [partial(outer, deps), quick], policy=ALL.FIRST)

    result = await played(family, play)
    assert result.output == ["quick"]
    assert not family.world.done


async def test_gathers_nest_and_are_counted_once_in_replay() -> None:
    family = Family()

    async def leaf(deps: Dependencies, name: str) -> str:
        await deps.model.complete(ModelRequest([ModelMessage.user(f"leaf {name}")]))
        return await family.hands.write(f"w{name}")

    async def outer(deps: Dependencies, number: int) -> list[str]:
        found = await deps.runtime.gather("inner", [partial(leaf, deps, f"{number}{n}") for n in range(2)])
        if number == 1:
            await family.hands.ask("a")
        return list(found)

    async def play(deps: Dependencies, prompt: str) -> object:
        found = await deps.runtime.gather("outer", [partial(outer, deps, n) for n in range(2)])
        await family.hands.ask("b")
        return found

    agent = member("leader", play)

    def model() -> ScriptedModel:
        return ScriptedModel([when(f"leaf {a}{b}", says("ok")) for a in range(2) for b in range(2)])

    async with family.process(agent, model=model()) as runs:
        result = await start(runs, agent)
    run_id = result.state.id
    for _ in range(2):
        async with family.process(agent, model=model()) as runs:
            (question,) = await runs.questions(run_id)
            await runs.approve(question.id)
            result = await resume(runs, run_id)
    assert result.output == [["w00", "w01"], ["w10", "w11"]]
    assert set(family.world.done.values()) == {1}
    assert (result.spent.steps, result.spent.tool_calls) == (4, 6)


async def test_a_gather_inside_a_loop_has_its_own_branches_in_every_turn() -> None:
    family = Family()

    async def branch(turn: int, number: int) -> str:
        family.world.entered[f"{turn}.{number}"] += 1
        return await (
            family.hands.ask(f"{turn}.{number}")
            if (turn, number) == (1, 1)
            else family.hands.write(f"{turn}.{number}")
        )

    async def play(deps: Dependencies, prompt: str) -> object:
        async def turn(so_far: list[str]) -> list[str] | None:
            if len(so_far) == 6:
                return None
            found = await deps.runtime.gather("b", [partial(branch, len(so_far) // 2, n) for n in range(2)])
            return [*so_far, *found]

        return await deps.runtime.loop("turns", [], turn)

    agent = member("leader", play)
    async with family.process(agent) as runs:
        paused = await start(runs, agent)
        (question,) = await runs.questions(paused.state.id)
        await runs.approve(question.id)
    async with family.process(agent) as runs:
        result = await resume(runs, paused.state.id)
    assert result.output == ["0.0", "0.1", "1.0", "1.1", "2.0", "2.1"]
    assert set(family.world.done.values()) == {1}
    assert family.world.entered["0.0"] == family.world.entered["1.0"] == 1


async def test_branches_of_one_gather_cannot_both_take_the_last_call() -> None:
    family = Family()

    async def branch(number: int) -> str:
        return await family.hands.write(f"w{number}")

    async def play(deps: Dependencies, prompt: str) -> object:
        return await deps.runtime.gather("b", [partial(branch, n) for n in range(3)], policy=ALL.COLLECT)

    result = await played(family, play, limits=AgentExecutionLimits(max_tool_calls=2))
    assert result.status is AgentStatus.INTERRUPTED
    assert sum(family.world.done.values()) == 2


async def test_what_folded_branches_spent_still_counts_against_the_limit() -> None:
    family = Family()

    async def branch(number: int) -> str:
        return await family.hands.write(f"w{number}")

    async def play(deps: Dependencies, prompt: str) -> object:
        await deps.runtime.gather("b", [partial(branch, n) for n in range(3)])
        await family.hands.ask("a")
        return await family.hands.write("too much")

    agent = member("leader", play, limits=AgentExecutionLimits(max_tool_calls=4))
    async with family.process(agent) as runs:
        paused = await start(runs, agent)
        (question,) = await runs.questions(paused.state.id)
        await runs.approve(question.id)
    async with family.process(agent) as runs:
        result = await resume(runs, paused.state.id)
    assert result.status is AgentStatus.INTERRUPTED
    assert family.world.done == {"w0": 1, "w1": 1, "w2": 1, "a": 1}


@pytest.mark.parametrize("number", range(1, 9))
async def test_a_crash_between_branches_repeats_none_of_them(number: int) -> None:
    family = Family()

    async def branch(number: int) -> str:
        await family.hands.note(f"n{number}")
        return await family.hands.note(f"m{number}")

    async def play(deps: Dependencies, prompt: str) -> object:
        return await deps.runtime.gather("b", [partial(branch, n) for n in range(3)], limit=1)

    agent = member("leader", play)
    async with family.process(agent, fault=StopAfter(number)) as runs:
        try:
            result = await start(runs, agent)
        except ProcessStopped:
            result = None
    state = await family.state_of("leader")
    if not state.is_terminal:
        async with family.process(agent) as runs:
            result = await resume(runs, state.id)
    assert result is None or result.output == ["m0", "m1", "m2"]
    assert set(family.world.done.values()) == {1}


async def test_workers_with_a_scope_of_their_own_are_folded_with_their_branch() -> None:
    family = Family()

    async def work(worker: Dependencies, number: int) -> str:
        family.world.entered[str(number)] += 1
        outcomes = [
            await worker.tools.call(ModelToolCall("write", {"what": f"{word}{number}"})) for word in "ab"
        ]
        return str([each.result for each in outcomes])

    async def play(deps: Dependencies, prompt: str) -> object:
        workers = [deps.scope_for_worker(f"worker{n}") for n in range(2)]
        found = await deps.runtime.gather("b", [partial(work, each, n) for n, each in enumerate(workers)])
        await family.hands.ask("x")
        return [*found, *[await work(each, n) for n, each in enumerate(workers, start=2)]]

    agent = member("leader", play)
    async with family.process(agent) as runs:
        paused = await start(runs, agent)
        (question,) = await runs.questions(paused.state.id)
        await runs.approve(question.id)
    async with family.process(agent) as runs:
        result = await resume(runs, paused.state.id)
    assert result.status is AgentStatus.COMPLETED, result.state.current_activity
    assert result.output == [f"['a{n}', 'b{n}']" for n in range(4)]
    assert set(family.world.done.values()) == {1}
    assert family.world.entered == {str(n): 1 for n in range(4)}


async def test_a_worker_may_gather_in_its_own_scope() -> None:
    family = Family()

    async def work(worker: Dependencies, number: int) -> str:
        outcome = await worker.tools.call(ModelToolCall("write", {"what": f"w{number}"}))
        return str(outcome.result)

    async def play(deps: Dependencies, prompt: str) -> object:
        worker = deps.scope_for_worker("worker")
        found = await worker.runtime.gather("b", [partial(work, worker, n) for n in range(2)])
        await family.hands.ask("x")
        return [*found, await work(worker, 2)]

    agent = member("leader", play)
    async with family.process(agent) as runs:
        paused = await start(runs, agent)
        (question,) = await runs.questions(paused.state.id)
        await runs.approve(question.id)
    async with family.process(agent) as runs:
        result = await resume(runs, paused.state.id)
    assert result.status is AgentStatus.COMPLETED, result.state.current_activity
    assert result.output == ["w0", "w1", "w2"]
    assert set(family.world.done.values()) == {1}


async def test_a_rejected_branch_is_a_failed_branch_where_the_agent_is_told() -> None:
    family = Family()

    async def branch(number: int) -> str:
        return await family.hands.ask(f"a{number}")

    async def play(deps: Dependencies, prompt: str) -> object:
        found = await deps.runtime.gather("b", [partial(branch, n) for n in range(2)], policy=ALL.COLLECT)
        return [isinstance(each, BranchFailure) for each in found]

    agent = member("leader", play, on_rejection=RejectionPolicy.TELL_MODEL)
    async with family.process(agent) as runs:
        paused = await start(runs, agent)
        first, second = await runs.questions(paused.state.id)
        await runs.reject(first.id)
        await runs.approve(second.id)
        result = await resume(runs, paused.state.id)
    assert result.output == [True, False]
    assert family.world.done == {"a1": 1}


async def test_nothing_is_told_twice_when_branches_are_folded() -> None:
    family = Family()

    async def branch(number: int) -> str:
        return await family.hands.write(f"w{number}")

    async def play(deps: Dependencies, prompt: str) -> object:
        await deps.runtime.gather("b", [partial(branch, n) for n in range(2)])
        return await family.hands.ask("x")

    agent = member("leader", play)
    async with family.process(agent) as runs:
        paused = await start(runs, agent)
        (question,) = await runs.questions(paused.state.id)
        await runs.approve(question.id)
    async with family.process(agent) as runs:
        await resume(runs, paused.state.id)
        events = await told(runs, paused.state.id)
    kinds = [event.kind.value for event in events]
    assert kinds == [
        "run_started",
        "step_finished",
        "run_paused",
        "run_started",
        "step_finished",
        "run_finished",
    ]

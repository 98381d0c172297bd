"""`loop`: state to state, each finished turn folded, so that replay starts behind the last one."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, replace
from decimal import Decimal
from functools import partial

import pytest
from tests.behaviour.family import Family, Play, member, resume, start

from pilotage import AgentStatus
from pilotage.agent.messages import ModelMessage, ModelToolCall
from pilotage.agent.model_request import ModelRequest
from pilotage.agent.ports.architecture import Dependencies
from pilotage.agent.ports.persistence import JournalStage
from pilotage.agent.run_values import RunResult
from pilotage.agent.spec import AgentExecutionLimits
from pilotage.testing import (
    FailWrite,
    Fault,
    LoseReply,
    ProcessStopped,
    ScriptedModel,
    StopAfter,
    StopBefore,
    says,
)


@dataclass(frozen=True)
class Progress:
    turn: int = 0
    total: Decimal = Decimal(0)


async def through(family: Family, play: Play, fault: Fault | None = None, **spec: object) -> RunResult:
    """Bring a run to its end with as many processes as it takes; the first one has the fault."""
    result: RunResult | None = None
    for process in range(10):
        agent = member("looper", play, **spec)
        async with family.process(agent, fault=None if process else fault) as runs:
            known = await family.states()
            try:
                if not known:
                    result = await start(runs, agent)
                elif known[0].is_terminal:
                    return await runs.result(known[0].id)
                else:
                    for question in await runs.questions(known[0].id):
                        await runs.approve(question.id)
                    result = await resume(runs, known[0].id)
            except (ProcessStopped, OSError):
                continue
    assert result is not None
    return result


async def test_each_turn_gets_the_state_the_one_before_gave_until_one_gives_none() -> None:
    family, seen = Family(), list[Progress]()

    async def turn(state: Progress) -> Progress | None:
        seen.append(state)
        if state.turn == 3:
            return None
        return Progress(state.turn + 1, state.total + Decimal("0.10"))

    async def play(deps: Dependencies, prompt: str) -> object:
        reached = await deps.runtime.loop("count", Progress(), turn)
        assert isinstance(reached.total, Decimal)
        return str(reached.total)

    assert (await through(family, play)).output == "0.30"
    assert [each.turn for each in seen] == [0, 1, 2, 3]


async def test_replay_starts_behind_the_last_finished_turn() -> None:
    family = Family()

    async def turn(state: Progress) -> Progress | None:
        family.world.entered[str(state.turn)] += 1
        if state.turn == 4:
            return None
        await (family.hands.ask("a") if state.turn == 2 else family.hands.write(f"w{state.turn}"))
        return replace(state, turn=state.turn + 1)

    async def play(deps: Dependencies, prompt: str) -> object:
        reached = await deps.runtime.loop("count", Progress(), turn)
        await family.hands.ask("behind")
        return reached.turn

    assert (await through(family, play)).output == 4
    assert family.world.entered == {"0": 1, "1": 1, "2": 2, "3": 1, "4": 1}
    assert set(family.world.done.values()) == {1}


async def test_a_loop_of_two_hundred_turns_is_resumed_without_entering_them_again() -> None:
    family = Family()

    async def turn(number: int) -> int | None:
        family.world.entered["turn"] += 1
        if number == 200:
            return None
        await family.hands.note(f"n{number}")
        return number + 1

    async def play(deps: Dependencies, prompt: str) -> object:
        reached = await deps.runtime.loop("count", 0, turn)
        await family.hands.ask("behind")
        return reached

    result = await through(family, play)
    assert result.output == 200
    assert family.world.entered == {"turn": 201}
    assert len(family.world.done) == 201
    assert result.spent.tool_calls == 201
    rows = await family.rows(result.state.id)
    longest = max(len(str(row.record)) for row in rows if row.stage is not JournalStage.TOLD)
    assert longest < 1500, "a row holds more than its own turn"


@pytest.mark.parametrize("fault", [StopBefore, StopAfter, LoseReply, FailWrite])
@pytest.mark.parametrize("number", range(1, 13))
async def test_a_fault_at_any_write_of_a_loop_changes_nothing(fault: type[Fault], number: int) -> None:
    family = Family()

    async def turn(so_far: list[str]) -> list[str] | None:
        if len(so_far) == 6:
            return None
        number = len(so_far) // 2
        note = await family.hands.note(f"n{number}")
        return [*so_far, note, await family.hands.ask("a") if number == 1 else await family.hands.note("m")]

    async def play(deps: Dependencies, prompt: str) -> object:
        return await deps.runtime.loop("turns", [], turn)

    result = await through(family, play, fault(number))
    assert result.status is AgentStatus.COMPLETED
    assert result.output == ["n0", "m", "n1", "a", "n2", "m"]
    assert family.world.done == {"n0": 1, "n1": 1, "n2": 1, "m": 2, "a": 1}


@pytest.mark.parametrize("state", [[1], {"at": 1}, (1,), "text", 1.5, None])
async def test_a_state_may_be_any_json_and_looks_the_same_live_and_in_replay(state: object) -> None:
    family, seen = Family(), list[object]()

    async def turn(reached: object) -> object:
        seen.append(reached)
        if len(family.world.done) == 2:
            return None
        await family.hands.ask(f"a{len(family.world.done)}")
        return state if state is not None else "was none"

    async def play(deps: Dependencies, prompt: str) -> object:
        return await deps.runtime.loop("turns", state, turn)

    result = await through(family, play)
    assert result.status is AgentStatus.COMPLETED, result.error
    behind_the_first = [each for each in seen if each != state]
    assert all(each == behind_the_first[0] for each in behind_the_first)


async def test_a_state_that_is_one_of_several_types_keeps_its_type() -> None:
    family, seen = Family(), list[object]()

    async def turn(state: Progress | Decimal) -> Progress | Decimal | None:
        seen.append(state)
        if isinstance(state, Progress):
            return Decimal("2.5")
        await family.hands.ask("a")
        return None

    async def play(deps: Dependencies, prompt: str) -> object:
        state: Progress | Decimal = Progress()
        return str(await deps.runtime.loop("turns", state, turn))

    assert (await through(family, play)).output == "2.5"
    assert seen == [Progress(), Decimal("2.5"), Decimal("2.5")]


async def test_what_a_turn_changes_beside_its_state_does_not_count() -> None:
    family = Family()

    async def turn(state: dict[str, list[int]]) -> dict[str, list[int]] | None:
        if len(state["seen"]) == 2:
            return None
        given = {"seen": [*state["seen"], len(state["seen"])]}
        kept.append(given)
        for each in kept[:-1]:
            each["seen"].append(99)
        return given

    kept: list[dict[str, list[int]]] = []

    async def play(deps: Dependencies, prompt: str) -> object:
        return await deps.runtime.loop("turns", {"seen": []}, turn)

    assert (await through(family, play)).output == {"seen": [0, 1]}


async def test_a_state_that_cannot_be_kept_is_said_so() -> None:
    family = Family()

    async def turn(state: object) -> object:
        return object()

    async def play(deps: Dependencies, prompt: str) -> object:
        return await deps.runtime.loop("turns", object(), turn)

    result = await through(family, play)
    assert result.status is AgentStatus.FAILED
    assert "loop('turns'): the state cannot be recorded" in str(result.error)


async def test_a_turn_in_which_a_task_waits_is_not_over() -> None:
    family = Family()

    async def turn(state: int) -> int | None:
        if state:
            return None
        await asyncio.gather(family.hands.ask("a"), return_exceptions=True)
        return state + 1

    async def play(deps: Dependencies, prompt: str) -> object:
        return await deps.runtime.loop("turns", 0, turn)

    assert (await through(family, play)).output == 1
    assert family.world.done == {"a": 1}


async def test_what_folded_turns_spent_counts_once_against_the_limits() -> None:
    family = Family()

    async def play(deps: Dependencies, prompt: str) -> object:
        async def turn(number: int) -> int | None:
            if number == 3:
                return None
            await deps.model.complete(ModelRequest([ModelMessage.user(f"turn {number}")]))
            await family.hands.write(f"w{number}")
            return number + 1

        reached = await deps.runtime.loop("turns", 0, turn)
        await family.hands.ask("a")
        return reached

    agent = member("looper", play, limits=AgentExecutionLimits(max_steps=3, max_tool_calls=4))
    async with family.process(agent, model=ScriptedModel([says("a"), says("b"), says("c")])) as runs:
        paused = await start(runs, agent)
        (question,) = await runs.questions(paused.state.id)
        await runs.approve(question.id)
    async with family.process(agent) as runs:
        result = await resume(runs, paused.state.id)
    assert (result.status, result.output) == (AgentStatus.COMPLETED, 3)
    assert (result.spent.steps, result.spent.tool_calls) == (3, 4)


async def test_a_loop_of_a_worker_keeps_its_turns_apart() -> None:
    family = Family()

    async def play(deps: Dependencies, prompt: str) -> object:
        worker = deps.scope_for_worker("worker")

        async def turn(so_far: list[str]) -> list[str] | None:
            if len(so_far) == 3:
                return None
            tool = "ask" if len(so_far) == 2 else "write"
            outcome = await worker.tools.call(ModelToolCall(tool, {"what": f"{tool}{len(so_far)}"}))
            return [*so_far, str(outcome.result)]

        return await worker.runtime.loop("turns", [], turn)

    result = await through(family, play)
    assert result.output == ["write0", "write1", "ask2"], result.state.current_activity
    assert set(family.world.done.values()) == {1}


async def test_loops_nest() -> None:
    family = Family()

    async def play(deps: Dependencies, prompt: str) -> object:
        async def inner(outer: int, number: int) -> int | None:
            if number == 2:
                return None
            await (
                family.hands.ask(f"{outer}.{number}")
                if (outer, number) == (1, 1)
                else family.hands.write(f"{outer}.{number}")
            )
            return number + 1

        async def turn(number: int) -> int | None:
            if number == 3:
                return None
            await deps.runtime.loop("inner", 0, partial(inner, number))
            return number + 1

        return await deps.runtime.loop("outer", 0, turn)

    assert (await through(family, play)).output == 3
    assert family.world.done == {f"{a}.{b}": 1 for a in range(3) for b in range(2)}

"""What the runtime adds to a run that nobody keeps, against a loop written by hand."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from functools import partial
from itertools import count
from typing import TypeVar

from benchmarks import floor, semantic_floor
from benchmarks.agents import Asking, Builder, Declared, GuardedSpeaker, Library, Speaker, Talking, Written
from benchmarks.timing import FULL, Act, Effort, Measure, function_calls, medians, repeated

from pilotage import Application, RunAgentInput
from pilotage.runtime.plugin import initialize
from pilotage.runtime.runner import AgentRunner

T = TypeVar("T")

_names = map(str, count(1))


def measure(effort: Effort = FULL) -> dict[str, float]:
    """Times, and ratios against the floor within this run."""
    return asyncio.run(_measure(effort))


async def _measure(effort: Effort) -> dict[str, float]:
    asking = Application("asking").add(Declared, Written, Library, Builder, Asking())
    talking = Application("talking").add(Speaker, GuardedSpeaker, Talking())
    initialize(asking)
    initialize(talking)
    async with asking, talking:
        declared = AgentRunner.for_agent_instance(asking.get(Declared))
        speaker = AgentRunner.for_agent_instance(talking.get(Speaker))
        guarded = AgentRunner.for_agent_instance(talking.get(GuardedSpeaker))
        return {
            **await _one_run(declared, asking.get(Written), effort),
            **await _long_runs(declared, effort),
            **await _streams(speaker, guarded, effort),
            **await _side_by_side(declared, effort),
            **await _building(asking, effort),
        }


async def _one_run(declared: AgentRunner, written: Written, effort: Effort) -> dict[str, float]:
    ours, by_hand = partial(_events, declared, 1), partial(written.execute, 1)
    found = await medians(
        {
            "floor": repeated(partial(floor.run, 1), effort.times(1_000)),
            "semantic floor": repeated(partial(_straight, 1), effort.times(300)),
            "declarative": repeated(ours, effort.times(100)),
            "written": repeated(by_hand, effort.times(100)),
        },
        effort.rounds,
    )
    times = effort.times(20)
    return {
        "one run: floor, us": found["floor"] * 1e6,
        "one run: declarative agent, us": found["declarative"] * 1e6,
        "one run: declarative agent / floor": found["declarative"] / found["floor"],
        "one run: declarative agent / semantic floor": found["declarative"] / found["semantic floor"],
        "one run: agent with its own execute(), us": found["written"] * 1e6,
        "one run: agent with its own execute() / floor": found["written"] / found["floor"],
        "one run: functions called by the floor": await function_calls(partial(floor.run, 1), times),
        "one run: functions called, declarative agent": await function_calls(ours, times),
        "one run: functions called, own execute()": await function_calls(by_hand, times),
    }


async def _long_runs(declared: AgentRunner, effort: Effort) -> dict[str, float]:
    measures: dict[str, Measure] = {}
    for turns in effort.turns:
        measures[f"floor {turns}"] = repeated(partial(floor.run, turns), effort.times(4_000 // turns))
        measures[f"semantic {turns}"] = repeated(partial(_straight, turns), effort.times(1_500 // turns))
        measures[f"ours {turns}"] = repeated(partial(_events, declared, turns), effort.times(400 // turns))
    found = await medians(measures, effort.rounds)
    figures: dict[str, float] = {}
    for turns in effort.turns:
        plain, ours = found[f"floor {turns}"], found[f"ours {turns}"]
        figures[f"per turn of {turns}: floor, us"] = plain / turns * 1e6
        figures[f"per turn of {turns}: declarative agent, us"] = ours / turns * 1e6
        figures[f"per turn of {turns}: declarative agent / floor"] = ours / plain
        figures[f"per turn of {turns}: declarative agent / semantic floor"] = (
            ours / found[f"semantic {turns}"]
        )
    first, last = effort.turns[0], effort.turns[-1]
    growth = found[f"ours {last}"] / last / (found[f"ours {first}"] / first)
    return {**figures, f"per turn of {last} / per turn of {first}": growth}


async def _streams(speaker: AgentRunner, guarded: AgentRunner, effort: Effort) -> dict[str, float]:
    deltas, times = effort.deltas, effort.times(5)
    found = await medians(
        {
            "floor": repeated(partial(floor.talk, deltas), times),
            "semantic floor": repeated(partial(_talked, deltas), times),
            "events": repeated(partial(_events, speaker, deltas), times),
            "items": repeated(partial(_items, speaker, deltas), times),
            "redacted": repeated(partial(_events, guarded, deltas), times),
        },
        effort.rounds,
    )
    rates = {name: deltas / seconds / 1e3 for name, seconds in found.items()}
    return {
        "streamed deltas: floor, k/s": rates["floor"],
        "streamed deltas: events, k/s": rates["events"],
        "streamed deltas: items of execute(), k/s": rates["items"],
        "streamed deltas: with a redaction policy, k/s": rates["redacted"],
        "streamed deltas: floor / events": rates["floor"] / rates["events"],
        "streamed deltas: semantic floor / events": rates["semantic floor"] / rates["events"],
    }


async def _side_by_side(declared: AgentRunner, effort: Effort) -> dict[str, float]:
    runs = effort.side_by_side
    found = await medians(
        {
            "floor": repeated(partial(_gathered, partial(floor.run, 1), runs), effort.times(3)),
            "ours": repeated(partial(_gathered, partial(_events, declared, 1), runs), 1),
        },
        effort.rounds,
    )
    return {
        f"{runs} runs side by side: floor, runs/s": runs / found["floor"],
        f"{runs} runs side by side, runs/s": runs / found["ours"],
        f"{runs} runs side by side: time / floor": found["ours"] / found["floor"],
    }


async def _building(app: Application, effort: Effort) -> dict[str, float]:
    many = effort.times(1_000)
    found = await medians(
        {
            "floor": repeated(partial(_called, Builder, many), 1),
            "ours": repeated(partial(_called, partial(app.get, Builder), many), 1),
        },
        effort.rounds,
    )
    return {
        "build an agent with three tools: its constructor, us": found["floor"] / many * 1e6,
        "build an agent with three tools: by the container, us": found["ours"] / many * 1e6,
    }


async def _events(runner: AgentRunner, number: int) -> None:
    await _read(runner.run_events(RunAgentInput(next(_names), str(number))))


async def _straight(turns: int) -> None:
    await _read(semantic_floor.events(RunAgentInput(next(_names), str(turns))))


async def _talked(count: int) -> None:
    await _read(semantic_floor.talk(count))


async def _items(runner: AgentRunner, number: int) -> None:
    await _read(runner.run(RunAgentInput(next(_names), str(number))))


async def _read(stream: AsyncIterator[object]) -> None:
    async for _ in stream:
        pass


async def _gathered(act: Act, times: int) -> None:
    await asyncio.gather(*(act() for _ in range(times)))


async def _called(make: Callable[[], T], times: int) -> None:
    for _ in range(times):
        make()

"""Loops of more than two dozen turns, stopped at any commit: folded turns lead to what unfolded ones do."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Sequence
from contextlib import asynccontextmanager
from decimal import Decimal
from random import Random

import pytest

from pilotage import (
    Agent,
    AgentEvent,
    AgentExecutionSpec,
    Application,
    Idempotency,
    MessageDeltaEvent,
    RecoveryStrategy,
    RunResult,
    ToolEffects,
    ToolError,
    agent_tool,
)
from pilotage.agent import (
    ModelRequest,
    ToolApprovalRequirement,
    ToolCallResultEvent,
)
from pilotage.agent.model_reply import ModelFinishReason
from pilotage.agent.ports.persistence import JournalRow, JournalStage, RunKey
from pilotage.agent.principal import LOCAL
from pilotage.architectures import React
from pilotage.runtime import AgentRuns
from pilotage.runtime.plugin import initialize
from pilotage.testing import (
    Fault,
    FaultyJournal,
    MemoryStore,
    ProcessStopped,
    ScriptedModel,
    StopAfter,
    StopBefore,
    calls,
    says,
    turn,
)
from pilotage.testing.script import ScriptedReply

UNGATED = ToolApprovalRequirement.NOT_REQUIRED


@Agent(
    spec=AgentExecutionSpec(
        name="reader",
        recovery=RecoveryStrategy.ACTION_BOUNDARY,
        architecture=React(max_turns=500, max_tool_errors=99, max_continuations=99),
    )
)
class Reader:
    """Read page after page."""

    @agent_tool(effects=ToolEffects.read_only(), reads_private=True)
    async def look_up(self, page: int) -> str:
        """Look a page up."""
        return f"page {page}: " + "tea and a cake, " * (page % 3)

    @agent_tool(effects=ToolEffects.read_only())
    async def price(self, of: str) -> Decimal:
        """Look a price up."""
        return Decimal(len(of)) / 4

    @agent_tool(effects=ToolEffects.write_state(), idempotency=Idempotency.IDEMPOTENT, approval=UNGATED)
    async def note(self, text: str) -> dict[str, str | int]:
        """Note something down."""
        if "bad" in text:
            raise ToolError("the pen is empty")
        return {"noted": text, "words": len(text.split())}

    @agent_tool(effects=ToolEffects.write_state(), idempotency=Idempotency.IDEMPOTENT, approval=UNGATED)
    async def file(self, text: str) -> str:
        """Note something down, and file it: a call with another one inside."""
        await self.note(text)
        return "filed"


PLAIN = 8
"""The number of ways in which a turn is made of plain calls."""


def a_turn(number: int, random: Random, share: float = 0) -> ScriptedReply:
    """One turn of a run: of plain calls, and in a share of all turns of one that cannot be folded."""
    match random.randrange(PLAIN, PLAIN + 3) if random.random() < share else random.randrange(PLAIN):
        case 0 | 1:
            return calls("look_up", page=number)
        case 2:
            return calls("note", text=f"of {number}")
        case 3:
            return turn(says(f"Looking {number}. "), calls("look_up", page=number), calls("price", of="tea"))
        case 4:
            return turn(
                calls("note", text=f"one {number}"), calls("note", text="bad"), calls("price", of="a cake")
            )
        case 5:
            return calls("note", text="bad news")
        case 6:
            return turn(
                says("Too long ", reasoning="Hm."),
                calls("price", of="x"),
                says(finish_reason=ModelFinishReason.LENGTH),
            )
        case 7:
            return turn(says(f"Noting {number}. "), calls("note", text=f"{number}"))
        case 8:
            return calls("guess", what="no such tool")
        case 9:
            return calls("price", amount=number)
        case _:
            return calls("file", text=f"of {number}")


class Place:
    """A store that outlives every process, and what the model was asked."""

    def __init__(self, script: Sequence[ScriptedReply], agent: type[object] = Reader) -> None:
        self.store = MemoryStore()
        self.model = ScriptedModel(script)
        self.agent = agent
        self.commits = 0
        self.asked: list[ModelRequest] = []

    @asynccontextmanager
    async def process(self, fault: Fault | None = None) -> AsyncGenerator[AgentRuns, None]:
        """One process, which may die."""
        journal = FaultyJournal(self.store.journal, fault)
        app = Application("library").add(self.agent, self.model, journal)
        app.add(self.store.states, self.store.signals, self.store.evidence)
        initialize(app)
        try:
            async with app:
                yield app.get(AgentRuns)
        except ProcessStopped:
            pass
        finally:
            self.commits = journal.commits
            self.asked = [*self.model.requests]
            self.model = self.model.restarted()

    async def begun(self, fault: Fault | None = None) -> None:
        async with self.process(fault) as runs:
            await (await runs.start(self.agent, "read")).result()

    async def carried_on(self, fault: Fault | None = None) -> None:
        async with self.process(fault) as runs:
            (state,) = (await runs.list()).runs
            if not state.is_terminal:
                await (await runs.resume(state.id)).result()

    async def end(self) -> tuple[RunResult, list[AgentEvent], list[JournalRow]]:
        async with self.process() as runs:
            (state,) = (await runs.list()).runs
            events = [event async for event in runs.events(state.id)]
            await runs.verify(state.id)
            return await runs.result(state.id), events, await self.rows()
        raise AssertionError("this process does not die")

    async def rows(self) -> list[JournalRow]:
        (state,) = (await self.store.states.list_runs(LOCAL.tenant)).runs
        return await self.rows_of(state.id)

    async def rows_of(self, run_id: str) -> list[JournalRow]:
        return [row async for row in self.store.journal.read(RunKey(LOCAL.tenant, run_id))]


def folds_in(rows: Sequence[JournalRow]) -> list[str]:
    return [row.action_id for row in rows if row.stage is JournalStage.FOLDED]


def told(events: Sequence[AgentEvent]) -> tuple[str, list[object]]:
    """What readers were told in the end: all text that was not taken back, and all results."""
    taken_back = {
        e.message_id for e in events if isinstance(e, MessageDeltaEvent) and e.metadata.get("superseded")
    }
    said = (e for e in events if isinstance(e, MessageDeltaEvent) and e.message_id not in taken_back)
    results: list[object] = [
        (e.call_id, e.tool_name, str(e.result), dict(e.metadata))
        for e in events
        if isinstance(e, ToolCallResultEvent)
    ]
    return "".join(e.delta for e in said), results


def end_in(rows: Sequence[JournalRow]) -> object:
    """The recorded end of a run: output, usage, turns and trust."""
    (record,) = (row.record for row in rows if row.action_id == "run/result#1")
    return record


def asked_in(requests: Sequence[ModelRequest]) -> dict[int, object]:
    return {len(request.messages): (request.messages, request.tool_calling) for request in requests}


async def compared(script: Sequence[ScriptedReply], faults: Sequence[Sequence[Fault | None]]) -> int:
    """Compare runs with these faults with an undisturbed one; return how many attempts began behind a fold."""
    undisturbed = Place(script)
    await undisturbed.begun()
    asked = asked_in(undisturbed.asked)
    result, events, rows = await undisturbed.end()
    behind = 0
    for first, *later in faults:
        place = Place(script)
        await place.begun(first)
        for fault in (*later, None):
            behind += bool(folds_in(await place.rows()))
            await place.carried_on(fault)
            for size, request in asked_in(place.asked).items():
                assert request == asked[size], (first, fault, size)
        came, told_by_now, now = await place.end()
        assert (came.output, came.usage, came.turns) == (result.output, result.usage, result.turns), first
        assert end_in(now) == end_in(rows), first
        assert told(told_by_now) == told(events), first
    return behind


@pytest.mark.parametrize("seed", range(6))
async def test_a_run_that_died_behind_folded_turns_goes_on_as_if_it_had_not(
    seed: int, exhaustive: bool
) -> None:
    """By turns of plain calls, and by such that cannot be folded; the process dies once or twice, anywhere."""
    random = Random(seed)  # noqa: S311 - a repeatable draw
    length, share = (random.choice((27, 55)), 0) if seed % 2 else (80, 0.05)
    script = [*(a_turn(number, random, share) for number in range(length)), says("Done.")]
    undisturbed = Place(script)
    await undisturbed.begun()
    last = undisturbed.commits
    points = range(2, last + 1) if exhaustive else random.sample(range(last // 3, last + 1), 8)
    faults = [
        [
            random.choice((StopBefore, StopAfter))(point),
            random.choice((None, StopAfter(random.randrange(1, 9)))),
        ]
        for point in points
    ]
    assert await compared(script, faults) > 0


async def test_every_commit_around_a_fold(exhaustive: bool) -> None:
    random = Random(3)  # noqa: S311 - a repeatable draw
    script = [*(a_turn(number, random) for number in range(26)), says("Done.")]
    undisturbed = Place(script)
    await undisturbed.begun()
    last = undisturbed.commits
    around = range(2 if exhaustive else last - 9, last + 1)
    faults = [[stop(number)] for number in around for stop in (StopBefore, StopAfter)]
    assert await compared(script, faults) > 0

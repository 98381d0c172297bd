"""Errors of the framework are nobody's outcome: whatever goes wrong while a child is taken up, it ends once."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator, Callable
from contextlib import asynccontextmanager, suppress
from itertools import count
from typing import Any

import pytest

from pilotage import AgentStatus, Application
from pilotage.agent import IAgentEvidenceRepository, IAgentJournal, IAgentLeases
from pilotage.agent.ports.architecture import Dependencies
from pilotage.agent.ports.repositories import IAgentSignalRepository, IAgentStateRepository
from pilotage.agent.run_values import RunResult
from pilotage.errors import AgentDefinitionError, ToolError
from pilotage.runtime.journal.interruptions import RunInterruption
from pilotage.runtime.plugin import initialize
from pilotage.runtime.runs import AgentRuns
from pilotage.testing import ScriptedModel
from tests.behaviour.family import Family, Hands, Play, member, resume

PORTS = (
    IAgentJournal,
    IAgentStateRepository,
    IAgentSignalRepository,
    IAgentEvidenceRepository,
    IAgentLeases,
)
Trouble = Callable[[], object]


class Troubled:
    """The ports of a store; the call with a number goes wrong, and those after it as long as the trouble lasts."""

    def __init__(self, trouble: Trouble | None = None, number: int = 0, lasting: int = 1) -> None:
        self.trouble, self._places = trouble, range(number, number + lasting)
        self.calls = 0

    def port(self, kind: type, inner: object) -> object:
        """The port with the trouble in front of it."""
        names = [name for name in dir(kind) if not name.startswith("_") and callable(getattr(kind, name))]
        members = {name: self._method(inner, name) for name in names}
        return type(f"Troubled{kind.__name__}", (kind,), members)()

    def _method(self, inner: object, name: str) -> object:
        method = getattr(inner, name)
        if name == "read":

            async def read(_self: object, *given: Any, **named: Any) -> AsyncIterator[Any]:
                await self._meet()
                async for row in method(*given, **named):
                    yield row

            return read

        async def call(_self: object, *given: Any, **named: Any) -> Any:
            await self._meet()
            return await method(*given, **named)

        return call

    async def _meet(self) -> None:
        self.calls += 1
        if self.trouble is not None and self.calls in self._places:
            found = self.trouble()
            if isinstance(found, BaseException):
                raise found
            for _ in range(3):
                await asyncio.sleep(0)


def parent(family: Family) -> Play:
    """A parent that takes the failure of its child for an answer, as programs do."""

    async def play(deps: Dependencies, prompt: str) -> object:
        try:
            return await deps.runtime.spawn_child("kid", "child", {"task": "work"})
        except ToolError as error:
            return f"failed: {error}"

    return play


def child(family: Family) -> Play:
    """A child that pays, and then waits for a person."""

    async def play(deps: Dependencies, prompt: str) -> object:
        await family.hands.write("paid")
        return await family.hands.ask("shipped")

    return play


@asynccontextmanager
async def process(family: Family, troubled: Troubled) -> AsyncGenerator[AgentRuns, None]:
    store = family.store
    inner = (family.store.journal, store.states, store.signals, store.evidence, store.leases)
    app = Application("family").add(member("parent", parent(family)), member("child", child(family)))
    app.add(Hands, family.world, ScriptedModel([]), family.ids, family.clock, store.sealer)
    app.add(*(troubled.port(kind, each) for kind, each in zip(PORTS, inner, strict=True)))
    initialize(app)
    async with app:
        yield app.get(AgentRuns)


async def answered(family: Family, run_id: str) -> None:
    async with process(family, Troubled()) as runs:
        for question in await runs.questions(run_id):
            await runs.approve(question.id, resume=False)


async def begun(family: Family) -> str:
    """A parent and a child that has paid and waits; the answer is there."""
    async with process(family, Troubled()) as runs:
        run = await runs.start(member("parent", parent(family)), "go")
        await run.result()
    await answered(family, run.id)
    return run.id


async def carried_on(family: Family, run_id: str) -> RunResult:
    """How the run ends in processes without trouble."""
    for _ in range(5):
        family.clock.advance(3600)
        async with process(family, Troubled()) as runs:
            await family.answer(runs, run_id)
            result = await resume(runs, run_id)
            if result.state.is_terminal:
                return result
    raise AssertionError("the run does not end")


async def meet(trouble: Trouble, number: int, lasting: int = 1) -> int:
    """Let a resumed parent meet trouble at one call of the store; return how many calls there were."""
    family = Family(has_leases=True)
    run_id = await begun(family)
    assert family.world.done == {"paid": 1}
    troubled = Troubled(trouble, number, lasting)
    async with process(family, troubled) as runs:
        with suppress(Exception, RunInterruption):
            await resume(runs, run_id)
    await check_end(family, run_id)
    return troubled.calls


async def check_end(family: Family, run_id: str) -> None:
    """The parent has the output of its child, which has ended once, whatever went wrong before."""
    result = await carried_on(family, run_id)
    kid = await family.state_of("child")
    assert (result.state.status, result.output) == (AgentStatus.COMPLETED, "shipped")
    assert kid.status is AgentStatus.COMPLETED
    assert family.world.done == {"paid": 1, "shipped": 1}


ERRORS: dict[str, Trouble] = {
    "the store is away": lambda: OSError("the database did not answer"),
    "the store has a bug": lambda: RuntimeError("the pool is closed"),
    "the store is misused": lambda: AgentDefinitionError("the store is closed"),
}


@pytest.mark.parametrize("lasting", [1, 1000])
@pytest.mark.parametrize("trouble", ERRORS.values(), ids=ERRORS.keys())
async def test_an_error_of_the_store_is_no_outcome_of_a_child(trouble: Trouble, lasting: int) -> None:
    number = 1
    while await meet(trouble, number, lasting) >= number:
        number += 1
    assert number > 15


@pytest.mark.parametrize("trouble", ERRORS.values(), ids=ERRORS.keys())
async def test_an_error_of_the_store_is_no_outcome_of_a_child_that_begins(trouble: Trouble) -> None:
    for number in count(1):
        family, troubled = Family(has_leases=True), Troubled(trouble, number)
        async with process(family, troubled) as runs:
            with suppress(Exception, RunInterruption):
                run = await runs.start(member("parent", parent(family)), "go")
                await run.result()
        for state in await family.states():
            if "parent" not in state.metadata:
                await check_end(family, state.id)
        if troubled.calls < number:
            assert number > 8
            return


@pytest.mark.parametrize("how", ["at once", "after the current actions"])
async def test_a_shutdown_is_no_outcome_of_a_child(how: str) -> None:
    for number in count(1):
        family = Family(has_leases=True)
        run_id = await begun(family)
        troubled, leaving = Troubled(None, number), list[asyncio.Future[None]]()
        async with process(family, troubled) as runs:

            def leave(runs: AgentRuns = runs, leaving: list[asyncio.Future[None]] = leaving) -> None:
                stopping = runs.stop() if how == "at once" else runs.hand_over(60.0)
                leaving.append(asyncio.ensure_future(stopping))

            troubled.trouble = leave
            with suppress(Exception, RunInterruption, asyncio.CancelledError):
                await resume(runs, run_id)
            for each in leaving:
                await each
        await check_end(family, run_id)
        if troubled.calls < number:
            assert number > 15
            return


async def test_an_attempt_at_a_child_that_is_stopped_alone_is_no_outcome() -> None:
    family = Family()
    run_id = await begun(family)
    async with process(family, Troubled()) as runs:
        handle = await runs.resume(run_id)
        kid = (await family.state_of("child")).id
        for _ in range(200):
            if (live := runs.launcher.live(kid)) is not None:
                live.task.cancel()
                break
            await asyncio.sleep(0)
        assert (await handle.result()).state.status is AgentStatus.ACTIVE
    await check_end(family, run_id)

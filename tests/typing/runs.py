"""What two type checkers infer about runs: the output an agent declares, and the input it takes.

Right uses state their type; wrong uses carry an ignore for the one error they must cause, for mypy and for pyright. An
ignore that is not needed is an error itself, so both kinds are proven.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, Generator
from dataclasses import dataclass
from typing import Any, assert_type

from pilotage import Agent, AgentYield, Final, RunAgentInput, run, run_sync
from pilotage.agent.run_values import TextDoesNotFit
from pilotage.runtime import AgentRuns


@dataclass(frozen=True)
class Command:
    order: str


@dataclass(frozen=True)
class Answer:
    text: str


@Agent
class Streams:
    def __init__(self, name: str) -> None:
        self.name = name

    async def execute(self, command: Command) -> AsyncGenerator[AgentYield[Answer], None]:
        yield Final(Answer(command.order))


@Agent
class Generates:
    def execute(self, command: Command) -> Generator[AgentYield[Answer], None, None]:
        yield Final(Answer(command.order))


@Agent
class Awaited:
    async def execute(self, wish: str) -> Answer:
        return Answer(wish)


@Agent
class Computes:
    def execute(self, number: int) -> int:
        return number


@Agent
class Named:
    async def execute(self, *, wish: str) -> Answer:
        return Answer(wish)


@Agent
class Several:
    async def execute(self, wish: str, times: int = 1) -> Answer:
        return Answer(wish * times)


@Agent
class Lenient:
    async def execute(self, wish: str | int) -> Answer:
        return Answer(str(wish))


@Agent
class Anything:
    async def execute(self, wish: Any) -> Answer:
        return Answer(str(wish))


@Agent
class Alone:
    async def execute(self) -> Answer:
        return Answer("done")


@Agent
class Declarative:
    """Answer."""


def right_inputs(given: RunAgentInput) -> None:
    """Never called: the output of a run has the type that `execute` declares."""
    assert_type(run_sync(Streams, Command("A-17")).output, Answer)
    assert_type(run_sync(Streams, {"order": "A-17"}).output, Answer)
    assert_type(run_sync(Streams, given).output, Answer)
    assert_type(run_sync(Streams, Command("A-17"), add=["a name"]).output, Answer)
    assert_type(run_sync(Generates, Command("A-17")).output, Answer)
    assert_type(run_sync(Awaited, "a journey").output, Answer)
    assert_type(run_sync(Computes, 1).output, int)
    assert_type(run_sync(Named, "a journey").output, Any)
    assert_type(run_sync(Several, "a journey").output, Answer)
    assert_type(run_sync(Lenient, "a journey").output, Answer)
    assert_type(run_sync(Anything, "a journey").output, Answer)
    assert_type(run_sync(Alone).output, Answer)
    assert_type(run_sync(Declarative, "a question").output, Any)


async def right_runs(runs: AgentRuns) -> None:
    """Never called: the same for runs that are started, and their results."""
    assert_type((await run(Streams, Command("A-17"))).output, Answer)
    started = await runs.start(Streams, Command("A-17"), id="mine")
    assert_type((await started.result()).output, Answer)
    assert_type((await (await runs.start(Awaited, "a journey")).result()).output, Answer)
    assert_type((await (await runs.start(Computes, {"number": 1})).result()).output, int)
    assert_type((await (await runs.start(Alone)).result()).output, Answer)
    assert_type((await (await runs.start(Declarative, "a question")).result()).output, Any)
    assert_type((await (await runs.start("declarative", "a question")).result()).output, Any)


def _use(given: object) -> None:
    """Never called: takes what a call gave."""


def wrong_inputs() -> None:
    """Never called: an input of another type is refused."""
    run_sync(Streams, 5)  # type: ignore[misc] # pyright: ignore[reportCallIssue, reportArgumentType]
    run_sync(Streams, Answer("x"))  # type: ignore[misc] # pyright: ignore[reportCallIssue, reportArgumentType]
    run_sync(Awaited, 5)  # type: ignore[misc] # pyright: ignore[reportCallIssue, reportArgumentType]
    run_sync(Alone, 5)  # type: ignore[arg-type] # pyright: ignore[reportCallIssue, reportArgumentType]
    run_sync(Declarative, 5)  # type: ignore[arg-type] # pyright: ignore[reportCallIssue, reportArgumentType]
    _use(run_sync(Streams, "A-17").output)  # type: ignore[attr-defined] # pyright: ignore[reportAttributeAccessIssue, reportUnknownMemberType, reportUnknownArgumentType]
    _use(run_sync(Generates, "A-17").status)  # type: ignore[attr-defined] # pyright: ignore[reportAttributeAccessIssue, reportUnknownMemberType, reportUnknownArgumentType]
    _use(run_sync(Computes, "one").output)  # type: ignore[attr-defined] # pyright: ignore[reportAttributeAccessIssue, reportUnknownMemberType, reportUnknownArgumentType]
    assert_type(run_sync(Computes, "one"), TextDoesNotFit)
    run_sync(Alone, colour="red")  # type: ignore[call-overload] # pyright: ignore[reportCallIssue]


async def wrong_runs(runs: AgentRuns) -> None:
    """Never called: the same for runs that are started."""
    await runs.start(Streams, 5)  # type: ignore[misc] # pyright: ignore[reportCallIssue, reportArgumentType]
    refused = await runs.start(Streams, "A-17")
    await refused.result()  # type: ignore[attr-defined] # pyright: ignore[reportAttributeAccessIssue, reportUnknownMemberType]
    _use((await run(Streams, "A-17")).output)  # type: ignore[attr-defined] # pyright: ignore[reportAttributeAccessIssue, reportUnknownMemberType, reportUnknownArgumentType]
    await runs.start(Awaited, Command("x"))  # type: ignore[misc] # pyright: ignore[reportCallIssue, reportArgumentType]
    _words: str = (await run(Awaited, "a")).output  # type: ignore[assignment] # pyright: ignore[reportAssignmentType]

"""What two type checkers infer about the keywords of `@Agent`, and about names that `pilotage` imports later.

Right uses state their type; wrong uses carry an ignore for the one error they must cause, for mypy and for pyright. An
ignore that is not needed is an error itself, so both kinds are proven.
"""

from __future__ import annotations

from dataclasses import dataclass
from decimal import Decimal
from typing import assert_type

from pilotage import (
    Agent,
    AgentExecutionSpec,
    AgentRunner,
    AgentRuns,
    AgentTeammate,
    OfflineModel,
    RunHandle,
    Scope,
    step,
)


@dataclass(frozen=True)
class Report:
    text: str


@Agent(durable=True, max_steps=5, max_tool_calls=3, max_tokens=1000, max_cost=Decimal(1), timeout_seconds=60)
class Librarian:
    """Find books."""


@Agent(output=Report, teammates=[Librarian, AgentTeammate("clerk", pod=Librarian)])
class Author:
    """Write a report."""


@Agent(name="writer", scope=Scope.PROTOTYPE, spec=AgentExecutionSpec(name="x"), durable=False)
class Writer:
    def execute(self, number: int) -> int:
        return number


assert_type(Librarian, type[Librarian])
assert_type(Writer().execute(1), int)
assert_type(OfflineModel(), OfflineModel)
assert AgentRunner.__name__ == "AgentRunner"


async def runs_are_typed(runs: AgentRuns) -> None:
    """Never called: the names of the runtime have their types."""
    assert_type(await runs.resume("x"), RunHandle)
    assert_type(await step("double", lambda: 2), int)


def wrong_keywords() -> None:
    """Never called: what a type checker must refuse."""
    Agent(durabel=True)  # type: ignore[call-arg] # pyright: ignore[reportCallIssue]
    Agent(durable="yes")  # type: ignore[arg-type] # pyright: ignore[reportArgumentType]
    Agent(max_steps="many")  # type: ignore[arg-type] # pyright: ignore[reportArgumentType]
    Agent(teammates=Librarian)  # type: ignore[arg-type] # pyright: ignore[reportArgumentType]

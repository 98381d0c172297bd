"""What type checkers infer about agents, yields and models.

Right uses state their type; wrong uses carry an ignore for the one error they must cause. An ignore that is not
needed is an error itself, so both kinds are proven.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator
from dataclasses import dataclass
from typing import assert_type

from pilotage import (
    Agent,
    AgentExecutionSpec,
    AgentYield,
    Application,
    Final,
    ModelMessage,
    ModelRequest,
    Progress,
    StructuredOutputSpec,
    Token,
    Tool,
)


@dataclass(frozen=True)
class Answer:
    text: str


@Agent
class Bare:
    async def execute(self, name: str) -> AsyncGenerator[AgentYield[Answer], None]:
        yield Progress("thinking")
        yield Token("x")
        yield Final(Answer(name))
        yield Final(name)  # pyright: ignore[reportReturnType]
        yield name  # pyright: ignore[reportReturnType]


@Agent(spec=AgentExecutionSpec(name="x"))
class Specified:
    def execute(self, number: int) -> int:
        return number


assert_type(Bare, type[Bare])
assert_type(Specified, type[Specified])
assert_type(Specified().execute(1), int)
assert_type(Agent.get(Bare).spec, AgentExecutionSpec)


def wrong_agents() -> None:
    """Never called: what a type checker must refuse."""
    Specified().execute("1")  # pyright: ignore[reportArgumentType]
    Agent.get(Bare).spec.colour = 1  # pyright: ignore[reportAttributeAccessIssue]
    AgentExecutionSpec(nmae="x")  # pyright: ignore[reportCallIssue]


async def read(app: Application) -> None:
    agent = app.get(Bare)
    assert_type(agent, Bare)
    async for item in agent.execute("Ada"):
        match item.payload:
            case Final(output=output):
                assert_type(output, Answer)
            case Token(text=text):
                assert_type(text, str)
            case Tool(call_id=call_id):
                assert_type(call_id, str | None)
            case _:
                pass


request = ModelRequest([ModelMessage.user("x")], output=StructuredOutputSpec.from_type(Answer))


def wrong_requests() -> None:
    """Never called: what a type checker must refuse."""
    ModelRequest("x")  # pyright: ignore[reportArgumentType]
    ModelMessage.user(3)  # pyright: ignore[reportArgumentType]

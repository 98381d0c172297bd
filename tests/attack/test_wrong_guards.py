"""Output guards that answer wrongly: whatever they do but return an answer, nothing leaves."""

from __future__ import annotations

import asyncio
from typing import Any, cast

import pytest

from pilotage import Agent, AgentExecutionSpec, AgentStatus, RecoveryStrategy, RunContext
from pilotage.agent import IAgentOutputGuard
from pilotage.jsonvalue import JsonValue
from pilotage.runtime.door.hooks import GateSettings
from tests.behaviour.bureau import Bureau, started

pytestmark = pytest.mark.attack("wrong answers")

ANSWER = "the account is 4711"
DURABLE, EPHEMERAL = RecoveryStrategy.ACTION_BOUNDARY, RecoveryStrategy.NONE


class Hangs(IAgentOutputGuard):
    async def check(self, context: RunContext, output: JsonValue) -> JsonValue:
        await asyncio.Event().wait()
        return output


class HangsOn(IAgentOutputGuard):
    """Does not let itself be cancelled by the time limit, and says yes afterwards."""

    async def check(self, context: RunContext, output: JsonValue) -> JsonValue:
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            return output


class Forgets(IAgentOutputGuard):
    async def check(self, context: RunContext, output: JsonValue) -> JsonValue:
        """Return nothing: the line is missing."""


class NoJson(IAgentOutputGuard):
    async def check(self, context: RunContext, output: JsonValue) -> JsonValue:
        return cast("Any", object())


class Stops(IAgentOutputGuard):
    async def check(self, context: RunContext, output: JsonValue) -> JsonValue:
        raise asyncio.CancelledError


class Exits(IAgentOutputGuard):
    async def check(self, context: RunContext, output: JsonValue) -> JsonValue:
        raise BaseExceptionGroup("worse than an error", [GeneratorExit()])


WRONG = {
    Hangs: "TimeoutError",
    HangsOn: "TimeoutError",
    Forgets: "returned None",
    NoJson: "returned a value of object, which is no JSON",
    Stops: "CancelledError",
    Exits: "BaseExceptionGroup",
}


@pytest.mark.parametrize("recovery", [DURABLE, EPHEMERAL], ids=["durable", "ephemeral"])
@pytest.mark.parametrize("guard", WRONG)
async def test_a_guard_without_an_answer_lets_nothing_out(
    guard: type[IAgentOutputGuard], recovery: RecoveryStrategy
) -> None:
    @Agent(spec=AgentExecutionSpec(name="speaker", recovery=recovery))
    class Speaker:
        async def execute(self) -> str:
            return ANSWER

    bureau = Bureau()
    async with bureau.process(Speaker, None, guard(), GateSettings(0.02)) as runs:
        result = await asyncio.wait_for(started(runs, Speaker, None), 120)
        events = [event async for event in runs.events(result.state.id)] if recovery is DURABLE else []
    assert result.state.status is AgentStatus.FAILED
    assert guard.__name__ in str(result.error)
    assert WRONG[guard] in str(result.error)
    assert ANSWER not in repr((result, events))

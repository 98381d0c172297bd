"""What was left out of the pipeline: facts that an architecture may read and nobody may change."""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence

import pytest

from pilotage import Agent, AgentEvent, AgentExecutionSpec, Application, RecoveryStrategy
from pilotage.agent import AgentSession, AllowAll, Dependencies, IAgentHooks, NoBudget, NoTelemetry
from pilotage.runtime import AgentRuns
from pilotage.runtime.plugin import initialize
from pilotage.runtime.runner import AgentRunner
from pilotage.testing import MemoryAuditLog, MemoryStore, ScriptedModel

FACTS = ("fast_audit", "fast_telemetry", "fast_permissions", "fast_hooks", "fast_runtime", "fast_budget")


class Looking:
    """Keeps the facts it was given."""

    name, version = "looking", 1

    def __init__(self) -> None:
        self.facts: list[bool] = []

    async def run(self, session: AgentSession, deps: Dependencies, prompt: str) -> AsyncIterator[AgentEvent]:
        below = deps.scope_for_worker("part")
        for each in (deps, below):
            self.facts += [bool(getattr(each, fact)) for fact in FACTS]
        for fact in FACTS:
            with pytest.raises(AttributeError):
                setattr(deps, fact, True)
        session.output = "looked"
        yield deps.progress("looked")


class Polite(IAgentHooks):
    """Does nothing, and is there."""


class OwnPermissions(AllowAll):
    """Allows everything, for reasons of its own."""


class OwnBudget(NoBudget):
    """Bounds nothing, for reasons of its own."""


class OwnTelemetry(NoTelemetry):
    """Records nothing, for reasons of its own."""


def application(
    loop: Looking, recovery: RecoveryStrategy, add: Sequence[object]
) -> tuple[Application, type[object]]:
    @Agent(spec=AgentExecutionSpec(name="looker", architecture=loop, recovery=recovery))
    class Looker:
        """Look."""

    app = Application("facts").add(Looker, ScriptedModel([]), *add)
    initialize(app)
    return app, Looker


async def test_without_anything_everything_is_left_out() -> None:
    loop = Looking()
    app, looker = application(loop, RecoveryStrategy.NONE, [AllowAll(), NoBudget(), NoTelemetry()])
    async with app:
        run = await AgentRunner.for_agent_instance(app.get(looker, "looker")).open("go")
        async for _ in run.events():
            pass
    assert loop.facts == [True] * 12


async def test_a_subclass_of_a_stage_that_does_nothing_is_a_stage() -> None:
    loop = Looking()
    stages = [OwnPermissions(), OwnBudget(), OwnTelemetry(), Polite(), MemoryAuditLog()]
    app, looker = application(loop, RecoveryStrategy.ACTION_BOUNDARY, [*stages, *MemoryStore().ports])
    async with app:
        result = await (await app.get(AgentRuns).start(looker, "go")).result()
    assert (result.error, result.output) == (None, "looked")
    assert loop.facts == [False] * 12

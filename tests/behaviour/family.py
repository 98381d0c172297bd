"""Families of agents for stories about children: each agent plays what a test writes, over one world and one store."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Awaitable, Callable, Mapping
from typing import Any, cast

from pilotage import (
    Agent,
    AgentExecutionSpec,
    RecoveryStrategy,
    ToolEffects,
)
from pilotage.agent import AgentApprovalRequest, RecoveryDecision, ToolApprovalRequirement
from pilotage.agent.events import AgentEvent
from pilotage.agent.ports.architecture import AgentRef, AgentSession, Dependencies
from pilotage.agent.ports.persistence import JournalRow, RunKey
from pilotage.agent.run_values import RunResult
from pilotage.agent.state import AgentState
from pilotage.errors import ToolError
from pilotage.runtime.runs import AgentRuns
from pilotage.testing.proof_world import ActionLedger, ProofProcesses, ProofTools

World, Hands = ActionLedger, ProofTools
UNGATED = ToolApprovalRequirement.NOT_REQUIRED
GATED = ToolApprovalRequirement.REQUIRED
CHANGES = ToolEffects.write_state()

Play = Callable[[Dependencies, str], Awaitable[object]]


class Script:
    """An architecture that plays what it is given."""

    name = "script"
    version = 1

    def __init__(self, play: Play) -> None:
        self._play = play

    async def run(
        self, session: AgentSession, deps: Dependencies, prompt: str
    ) -> AsyncGenerator[AgentEvent, None]:
        yield deps.progress("begun")
        session.output = await self._play(deps, prompt)
        yield deps.progress("played")

    def declared_workers(self) -> Mapping[str, AgentRef]:
        """It works alone."""
        return {}


def member(name: str, play: Play, **spec: Any) -> type[object]:
    """A durable agent of this name that plays a script; another process may give it another one."""

    @Agent(
        name=name,
        spec=AgentExecutionSpec(
            name=name, recovery=RecoveryStrategy.ACTION_BOUNDARY, architecture=Script(play), **spec
        ),
    )
    class Member:
        """Plays its part."""

        def __init__(self, hands: Hands) -> None:
            self.hands = hands

    return Member


class Family(ProofProcesses):
    """Processes come and go; the store, the world, the clock and the ids stay."""

    def __init__(self, *, has_leases: bool = False, has_sealer: bool = True) -> None:
        super().__init__(has_leases=has_leases, has_sealer=has_sealer)
        self.hands = Hands(self.world)
        self.helper: object = None

    async def answer(self, runs: AgentRuns, run_id: str) -> list[str]:
        """Answer everything a run and those below it wait for: allow it, or say truthfully whether it happened."""
        answered: list[str] = []
        for question in await runs.questions(run_id):
            pending = await self.store.signals.list_pending(question.agent_state_id)
            if question.id in {signal.payload.get("request_id") for signal in pending}:
                continue
            answered.append(question.id)
            if isinstance(question, AgentApprovalRequest):
                await runs.approve(question.id)
                continue
            what = str(cast("Mapping[str, Mapping[str, str]]", question.arguments)["view"]["what"])
            if self.world.done[what]:
                await runs.answer(run_id, question.id, RecoveryDecision.DONE, result=what)
            else:
                await runs.answer(run_id, question.id, RecoveryDecision.RETRY)
        return answered

    async def agree(self) -> str:
        """A branch that comes to its result at once."""
        return "agreed"

    async def refuse(self) -> str:
        """A branch that fails at once."""
        raise ToolError("refused")

    async def rows(self, run_id: str) -> list[JournalRow]:
        """What the journal has of a run."""
        return [row async for row in self.store.journal.read(RunKey("default", run_id))]

    async def state_of(self, agent: str) -> AgentState:
        """The one run of an agent."""
        (state,) = [state for state in await self.states() if state.agent_type == agent]
        return state


async def start(runs: AgentRuns, agent: type[object], task: object = "go") -> RunResult:
    """Start a run and bring it as far as it gets."""
    return await (await runs.start(agent, task)).result()


async def resume(runs: AgentRuns, run_id: str) -> RunResult:
    """Bring a run back and as far as it gets."""
    return await (await runs.resume(run_id)).result()


async def told(runs: AgentRuns, run_id: str) -> list[AgentEvent]:
    """Everything a run that pauses or has ended told."""
    return [event async for event in runs.events(run_id)]
